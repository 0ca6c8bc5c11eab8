//! Files of certificates and keys: a reader finds the old one or the new one, whole, also after a crash.

use std::path::Path;

use estimand_runtime::files::write_atomically;

use crate::PkiError;

/// The file name of the authority's certificate.
pub const AUTHORITY: &str = "authority.pem";
/// The file name of its key: the holder of the key is the authority.
pub const AUTHORITY_KEY: &str = "authority.key";

/// Only its owner can read it.
pub fn write_key(file: &Path, text: &str) -> Result<(), PkiError> {
    write(file, text, 0o600)
}

pub fn write_public(file: &Path, text: &str) -> Result<(), PkiError> {
    write(file, text, 0o644)
}

fn write(file: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    write_atomically(file, text.as_bytes(), mode)
        .map_err(|source| PkiError::Write { file: file.display().to_string(), source })
}
