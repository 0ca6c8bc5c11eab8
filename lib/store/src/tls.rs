//! Trust in database servers, and the TLS settings of the drivers for it.
//!
//! `ring` is the one provider of cryptography. A certificate that is not verified still has to match the
//! key that the server holds, so the traffic is encrypted to the server that answered.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Encrypted to any server that answers: keeps listeners out, not impostors.
    Anyone,
    /// Only a server whose certificate names its host and leads to one of the roots: those of the file,
    /// or else those that the web trusts.
    Verified { roots: Option<PathBuf> },
}

impl Trust {
    pub(crate) fn for_mysql(&self) -> mysql_async::SslOpts {
        let opts = mysql_async::SslOpts::default();
        match self {
            Self::Anyone => opts.with_danger_accept_invalid_certs(true),
            Self::Verified { roots: None } => opts,
            Self::Verified { roots: Some(file) } => {
                opts.with_root_certs(vec![file.clone().into()]).with_disable_built_in_roots(true)
            }
        }
    }

    pub(crate) fn client_config(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Url(format!("TLS can't be set up: {error}")))?;
        Ok(match self {
            Self::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyone(provider)))
            }
            Self::Verified { roots } => builder.with_root_certificates(load_roots(roots.as_deref())?),
        }
        .with_no_client_auth())
    }

    /// Reads the file that the URL names, so that a missing one is not reported as a lost connection.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.client_config().map(drop)
    }
}

/// mysql_async takes the provider of the process and has no way to be handed one.
pub(crate) fn install_provider() {
    // It fails only if a provider is installed already, which is as good.
    let _ = ring::default_provider().install_default();
}

fn load_roots(file: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    let unfit = |error: &dyn std::fmt::Display| {
        Error::Url(format!("root certificates {}: {error}; a PEM file would be right", file.display()))
    };
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unfit(&error))? {
        let certificate = certificate.map_err(|error| unfit(&error))?;
        roots.add(certificate).map_err(|error| unfit(&error))?;
    }
    if roots.is_empty() { Err(unfit(&"there is none in it")) } else { Ok(roots) }
}

#[derive(Debug)]
struct AcceptAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
