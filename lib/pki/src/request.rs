//! The applicant's side of a certificate: a key, and a request that proves its possession.

use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use crate::PkiError;

/// A new private key, in PEM.
pub fn new_key() -> Result<String, PkiError> {
    Ok(KeyPair::generate().map_err(PkiError::sign)?.serialize_pem())
}

/// A request for a certificate of that key, in PEM. It names nobody.
pub fn request(key_pem: &str) -> Result<String, PkiError> {
    let key = KeyPair::from_pem(key_pem).map_err(PkiError::sign)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(PkiError::sign)?;
    request.pem().map_err(PkiError::sign)
}
