//! TLS of one listening address: the certificate of the service, and the authority of its clients' certificates.
//!
//! The files are looked at every second and read again when they have changed: new connections see the new ones, open
//! connections go on. Files that do not belong together, as happens for a moment while they are being replaced,
//! change nothing but the log. No session is resumed: a resumed one would be let in by an authority and a
//! certificate that may be replaced since.

mod handshake;
mod peer;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use estimand_api::instant::to_rfc3339;
use estimand_runtime::pem::{FileError, Stamp, read_certificates, read_key};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use estimand_runtime::metrics::{Exposition, Kind};
use estimand_runtime::stop::Stop;

pub use peer::PeerIdentity;

/// The time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the certificates are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// Its own first, then those of its authorities.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The authority of clients' certificates; none: clients show no certificates.
    pub client_authority: Option<PathBuf>,
}

/// Certificates and key, as they were when they last belonged together.
pub struct Tls {
    options: TlsOptions,
    provider: Arc<CryptoProvider>,
    read: ArcSwap<Files>,
    seen: Mutex<Vec<Stamp>>,
}

/// The content of the files at one time.
struct Files {
    own: Arc<CertifiedKey>,
    /// The certificate that was shown before this one: a connection may still be in the making.
    before: Option<CertificateDer<'static>>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// Microseconds.
    expires_at: i64,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.options).finish()
    }
}

impl Tls {
    /// Reads the files. Wrong files are an error now, and only a line in the log later.
    pub fn load(options: TlsOptions) -> Result<Arc<Tls>, FileError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let seen = Mutex::new(stamps(&options));
        let read = ArcSwap::from_pointee(read(&options, &provider)?);
        Ok(Arc::new(Tls { options, provider, read, seen }))
    }

    /// True if this certificate, in DER, is the one that is shown, or the one before it.
    pub fn is_own(&self, certificate: &[u8]) -> bool {
        let files = self.read.load();
        let own = files.own.cert.first().into_iter().chain(&files.before);
        own.into_iter().any(|own| own.as_ref() == certificate)
    }

    /// The configuration, made once. The certificate and the client authority are looked up with each connection.
    pub(super) fn config(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?;
        let builder = match self.options.client_authority {
            Some(_) => {
                builder.with_client_cert_verifier(Arc::new(handshake::ClientVerifier(Arc::clone(self))))
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(handshake::OwnCertificate(Arc::clone(self))));
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Looks at the files until it is asked to stop.
    pub(super) async fn look_until(&self, stop: &Stop) {
        loop {
            tokio::select! {
                () = stop.requested() => return,
                () = tokio::time::sleep(LOOK_EVERY) => self.look(),
            }
        }
    }

    fn look(&self) {
        let now = stamps(&self.options);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return;
        }
        match read(&self.options, &self.provider) {
            Ok(mut files) => {
                files.before = self.read.load().own.cert.first().cloned();
                let expires_at = to_rfc3339(files.expires_at);
                self.read.store(Arc::new(files));
                tracing::info!(%expires_at, "the certificates were read again");
            }
            Err(error) => {
                tracing::warn!(%error, "the new certificates cannot be used; the former ones go on");
            }
        }
        *seen = now;
    }

    pub(super) fn write_figures(&self, text: &mut String) {
        let help = "When the certificate that is shown expires.";
        let seconds = self.read.load().expires_at as f64 / 1e6;
        let name = "estimand_tls_certificate_expires_timestamp_seconds";
        Exposition::new(text).single(name, Kind::Gauge, help, seconds);
    }
}

fn stamps(options: &TlsOptions) -> Vec<Stamp> {
    let files = [&options.certificate, &options.key].into_iter().chain(&options.client_authority);
    files.map(|file| Stamp::of(file)).collect()
}

fn read(options: &TlsOptions, provider: &Arc<CryptoProvider>) -> Result<Files, FileError> {
    let chain = read_certificates(&options.certificate)?;
    let wrong = |cause: &dyn fmt::Display| FileError::content(&options.certificate, cause);
    let expires_at = peer::expires_at(&chain[0]).ok_or_else(|| wrong(&"its certificate cannot be read"))?;
    // Also checks that they belong together.
    let own =
        CertifiedKey::from_der(chain, read_key(&options.key)?, provider).map_err(|error| wrong(&error))?;
    let clients = options.client_authority.as_ref().map(|file| {
        let wrong = |cause: &dyn fmt::Display| FileError::content(file, cause);
        let mut roots = RootCertStore::empty();
        for authority in read_certificates(file)? {
            roots.add(authority).map_err(|error| wrong(&error))?;
        }
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| wrong(&error))
    });
    Ok(Files { own: Arc::new(own), before: None, clients: clients.transpose()?, expires_at })
}
