//! The content of a certificate. It is only read here: its verification is up to the receiver.

use chrono::{DateTime, Utc};
use estimand_api::identity::Identity;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::time::ASN1Time;

use crate::PkiError;

/// The identity in a certificate, its validity and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// None if it is no identity of ours.
    pub who: Option<Identity>,
    pub not_before: DateTime<Utc>,
    pub not_after: DateTime<Utc>,
    /// The SHA-256 of its public key.
    pub key: [u8; 32],
    /// The SHA-256 of all of it.
    pub digest: [u8; 32],
}

impl Certificate {
    /// The first one in a text of PEM.
    pub fn first_in(pem: &str) -> Result<Certificate, PkiError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| PkiError::Certificate(error.to_string()))?;
        Certificate::read(&der)
    }

    pub(crate) fn read(der: &[u8]) -> Result<Certificate, PkiError> {
        let wrong = |cause: &dyn ToString| PkiError::Certificate(cause.to_string());
        let (_, found) = parse_x509_certificate(der).map_err(|error| wrong(&error))?;
        let names = found.subject_alternative_name().map_err(|error| wrong(&error))?;
        let uris = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        let instant = |time: ASN1Time| {
            DateTime::from_timestamp(time.timestamp(), 0).ok_or_else(|| wrong(&"its dates are out of range"))
        };
        Ok(Certificate {
            who: Identity::among(uris).ok(),
            not_before: instant(found.validity().not_before)?,
            not_after: instant(found.validity().not_after)?,
            key: sha256(found.public_key().raw),
            digest: sha256(der),
        })
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, bytes).as_ref());
    sum
}
