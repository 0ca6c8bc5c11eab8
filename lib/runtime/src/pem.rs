//! Certificates and keys in files: reading them, and noticing that the files have changed.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// More than any chain or set of authorities needs.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A file of certificates or a key that cannot be read, or has the wrong content.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{file} cannot be read: {source}")]
    Read { file: String, source: std::io::Error },
    #[error("{file} is not what was expected: {cause}")]
    Content { file: String, cause: String },
}

impl FileError {
    pub fn content(file: &Path, cause: impl fmt::Display) -> Self {
        FileError::Content { file: file.display().to_string(), cause: cause.to_string() }
    }
}

/// Identifies one state of a file: the time of its last change, its inode and its length. None: there is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(Option<(i64, i64, u64, u64)>);

impl Stamp {
    pub fn of(file: &Path) -> Stamp {
        let known = std::fs::metadata(file).ok();
        Stamp(known.map(|found| (found.mtime(), found.mtime_nsec(), found.ino(), found.len())))
    }
}

/// All certificates in a PEM file, at least one.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all.map_err(|error| FileError::content(file, error))? {
        none if none.is_empty() => Err(FileError::content(file, "there is no certificate in it")),
        all => Ok(all),
    }
}

/// The private key in a PEM file.
pub fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| FileError::content(file, error))
}

fn read(file: &Path) -> Result<Vec<u8>, FileError> {
    use std::io::Read;
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).and_then(|open| open.take(MAX_FILE_BYTES).read_to_end(&mut text));
    opened.map_err(|source| FileError::Read { file: file.display().to_string(), source })?;
    Ok(text)
}
