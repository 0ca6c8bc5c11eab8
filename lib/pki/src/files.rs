//! Files of certificates and keys: a reader finds the old one or the new one, whole, also after a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::PkiError;

/// The authority's certificate, in whatever folder.
pub const AUTHORITY: &str = "authority.pem";
/// Its key: whoever has it is the authority.
pub const AUTHORITY_KEY: &str = "authority.key";

/// Only its owner can read it.
pub fn write_key(file: &Path, text: &str) -> Result<(), PkiError> {
    write(file, text, 0o600)
}

pub fn write_public(file: &Path, text: &str) -> Result<(), PkiError> {
    write(file, text, 0o644)
}

fn write(file: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    replace(file, text, mode).map_err(|source| PkiError::Write { file: file.display().to_string(), source })
}

fn replace(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // With its mode from the beginning: between making a file and changing its mode others could open it.
    let mut open = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    open.write_all(text.as_bytes())?;
    open.sync_all()?;
    fs::rename(&new, file)?;
    // The rename itself is durable when the folder is.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
