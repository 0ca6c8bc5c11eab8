//! A private authority: the certificates of services, operators and nodes, and the files that they are kept in.
//!
//! The caller of this crate gives the identity for a certificate, never the request that is signed: of a request only
//! the public key is taken. The right to ask is checked elsewhere. A chain always has the authority's own certificate
//! behind it, so that a client that knows nothing but its digest can check it at the first contact. Keys are written
//! to files that only their owner can read, and are never shown.

mod authority;
mod certificate;
mod files;
mod request;
mod upload_key;

pub use authority::{Authority, CertificateWithKey, SignedCertificate};
pub use certificate::Certificate;
pub use files::{AUTHORITY, AUTHORITY_KEY, write_key, write_public};
pub use request::{new_key, request};
pub use upload_key::{UPLOAD_KEY, UPLOAD_PUBLIC, UploadKey, UploadPublicKey};

use std::path::Path;

/// An error with a certificate, a key or their files.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("{file} cannot be read: {source}")]
    Read { file: String, source: std::io::Error },
    #[error("{file} cannot be written: {source}")]
    Write { file: String, source: std::io::Error },
    #[error("there is an authority in {0} already: what it signed would be worth nothing with another one")]
    Exists(String),
    #[error("{file} is not what was expected: {cause}")]
    Content { file: String, cause: String },
    #[error("`{0}` is neither an IP address nor a DNS name")]
    Name(String),
    #[error("this is no request for a certificate: {0}")]
    Request(String),
    #[error("this is no certificate: {0}")]
    Certificate(String),
    #[error("the certificate cannot be made: {0}")]
    Sign(String),
}

impl PkiError {
    fn read(file: &Path, source: std::io::Error) -> Self {
        PkiError::Read { file: file.display().to_string(), source }
    }

    #[expect(clippy::needless_pass_by_value, reason = "causes are handed over as they are")]
    fn content(file: &Path, cause: impl ToString) -> Self {
        PkiError::Content { file: file.display().to_string(), cause: cause.to_string() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "causes are handed over as they are")]
    fn sign(cause: impl ToString) -> Self {
        PkiError::Sign(cause.to_string())
    }
}
