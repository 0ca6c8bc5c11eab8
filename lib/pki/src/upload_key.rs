//! The key that signs files which agents are to run: Ed25519, in files that OpenSSL reads as well.
//!
//! A signature is over the content of the file and nothing else, so `openssl pkeyutl -sign -rawin` makes one, too.

use std::path::Path;

use estimand_runtime::pem::read_key;
use rcgen::{KeyPair, PKCS_ED25519};
use ring::signature::Ed25519KeyPair;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};

use crate::{PkiError, write_key, write_public};

/// The file name of a key that signs uploads, and of its public half.
pub const UPLOAD_KEY: &str = "upload.key";
pub const UPLOAD_PUBLIC: &str = "upload.pub";

/// The bytes before an Ed25519 key in its public form (RFC 8410).
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A key that signs.
pub struct UploadKey(Ed25519KeyPair);

/// Its public half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UploadPublicKey([u8; 32]);

impl UploadKey {
    /// Makes a key, and puts it and its public half into the folder. A key that is there already is kept.
    pub fn init(folder: &Path) -> Result<UploadKey, PkiError> {
        let (private, public) = (folder.join(UPLOAD_KEY), folder.join(UPLOAD_PUBLIC));
        if private.exists() {
            let cause = "there is a key already; what it signed would be worth nothing with another one";
            return Err(PkiError::content(&private, cause));
        }
        std::fs::create_dir_all(folder)
            .map_err(|source| PkiError::Write { file: folder.display().to_string(), source })?;
        let made = KeyPair::generate_for(&PKCS_ED25519).map_err(PkiError::sign)?;
        write_key(&private, &made.serialize_pem())?;
        write_public(&public, &made.public_key_pem())?;
        UploadKey::read(&private)
    }

    pub fn read(file: &Path) -> Result<UploadKey, PkiError> {
        let wrong = |cause: String| PkiError::content(file, cause);
        let der = match read_key(file).map_err(|error| wrong(error.to_string()))? {
            PrivateKeyDer::Pkcs8(der) => der,
            _ => return Err(wrong("expected an Ed25519 key in PKCS#8".to_owned())),
        };
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
        Ok(UploadKey(pair.map_err(|cause| wrong(format!("expected an Ed25519 key: {cause}")))?))
    }

    pub fn sign(&self, content: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.0.sign(content).as_ref());
        signature
    }
}

impl UploadPublicKey {
    pub fn read(file: &Path) -> Result<UploadPublicKey, PkiError> {
        let text = std::fs::read(file).map_err(|source| PkiError::read(file, source))?;
        let der =
            SubjectPublicKeyInfoDer::from_pem_slice(&text).map_err(|cause| PkiError::content(file, cause))?;
        let key = der.strip_prefix(&PUBLIC_PREFIX[..]).and_then(|key| <[u8; 32]>::try_from(key).ok());
        let expected = "expected the public half of an Ed25519 key, which `estimand pki upload-key` makes";
        key.map(UploadPublicKey).ok_or_else(|| PkiError::content(file, expected))
    }

    pub fn bytes(self) -> [u8; 32] {
        self.0
    }
}

impl std::fmt::Debug for UploadPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UploadPublicKey")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    #[test]
    fn what_one_key_signed_another_one_does_not_verify() {
        let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let signature = UploadKey::init(ours.path()).unwrap().sign(b"#!/bin/sh\n");
        UploadKey::init(theirs.path()).unwrap();
        let public = |folder: &Path| UploadPublicKey::read(&folder.join(UPLOAD_PUBLIC)).unwrap();
        let verifies = |folder: &Path, content: &[u8]| {
            UnparsedPublicKey::new(&ED25519, public(folder).bytes()).verify(content, &signature).is_ok()
        };
        assert!(verifies(ours.path(), b"#!/bin/sh\n"));
        assert!(!verifies(ours.path(), b"#!/bin/sh\n\n"));
        assert!(!verifies(theirs.path(), b"#!/bin/sh\n"));
        let again = UploadKey::read(&ours.path().join(UPLOAD_KEY)).unwrap();
        assert_eq!(again.sign(b"#!/bin/sh\n"), signature);
        assert!(UploadKey::init(ours.path()).is_err(), "a key is not replaced");
        assert!(UploadPublicKey::read(&ours.path().join(UPLOAD_KEY)).is_err());
        assert!(UploadKey::read(&ours.path().join(UPLOAD_PUBLIC)).is_err());
    }
}
