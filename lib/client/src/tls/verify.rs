//! Two ways to verify a service without a file: by its authority's digest, and by the very certificate it shows.
//!
//! Both check the signature with which the service proves that it has the key.

use std::fmt;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::IsIt;

/// Verifies a service without a file.
pub(super) struct Known {
    by: By,
    provider: Arc<CryptoProvider>,
}

/// The criterion for a service.
pub(super) enum By {
    /// The SHA-256 of its authority's certificate, which the service shows behind its own.
    Authority([u8; 32]),
    /// The certificate itself, whatever its names.
    Itself(IsIt),
}

impl Known {
    pub(super) fn new(by: By, provider: Arc<CryptoProvider>) -> Self {
        Known { by, provider }
    }

    /// The authority among the shown certificates, as the only root.
    fn pinned(
        &self,
        pin: &[u8; 32],
        shown: &[CertificateDer<'_>],
    ) -> Result<Arc<WebPkiServerVerifier>, Error> {
        let is_pinned = |shown: &&CertificateDer<'_>| digest(&SHA256, shown).as_ref() == pin;
        let authority = shown.iter().find(is_pinned).ok_or_else(|| {
            Error::General("it does not show the authority that the join token names".to_owned())
        })?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider));
        builder.build().map_err(|error| Error::General(error.to_string()))
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.by {
            By::Authority(pin) => self.pinned(pin, intermediates)?.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            By::Itself(is_it) if is_it(end_entity) => Ok(ServerCertVerified::assertion()),
            By::Itself(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
