//! The authorities that the system trusts, read when the first server shows a certificate.
//!
//! A machine that speaks plain HTTP needs none, and images without `ca-certificates` have none.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// The reason why a server is not trusted on a machine without authorities.
pub const NO_AUTHORITIES: &str = "this machine knows no authorities: install the package `ca-certificates`, or name a file of \
                                  them in SSL_CERT_FILE";

/// Verifies servers by the system's authorities.
#[derive(Debug)]
pub struct SystemTrust {
    provider: Arc<CryptoProvider>,
    read: OnceLock<Verifier>,
}

impl SystemTrust {
    pub fn new(provider: Arc<CryptoProvider>) -> Self {
        SystemTrust { provider, read: OnceLock::new() }
    }

    /// The settings of a client of HTTP/1.1 that shows no certificate of its own.
    pub fn client_config() -> Result<ClientConfig, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(SystemTrust::new(provider)));
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Authorities that could not be read are read again for the next certificate.
    fn verifier(&self) -> Result<&Verifier, Error> {
        if let Some(verifier) = self.read.get() {
            return Ok(verifier);
        }
        let verifier = Verifier::new(Arc::clone(&self.provider));
        let verifier = verifier.map_err(|_| Error::General(NO_AUTHORITIES.to_owned()))?;
        Ok(self.read.get_or_init(|| verifier))
    }
}

impl ServerCertVerifier for SystemTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier()?.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
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
