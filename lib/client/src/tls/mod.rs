//! The services that a client trusts, and its own certificate: files that are read again when they change.
//!
//! A change of files makes another HTTP client, with connections of its own: a connection shows the certificate that
//! was there when it was made, and goes on with that. Files that cannot be read are an error at the start; later, they
//! are reported with the next failure, and the earlier content stays in use.

mod trouble;
mod verify;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use estimand_runtime::SystemTrust;
use estimand_runtime::pem::{FileError, Stamp, read_certificates, read_key};
use reqwest::header::HeaderMap;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};

use url::Url;

use crate::listener::{self, ListenerCheck, SocketCheck};
use crate::{Error, Options};
use verify::{By, Known};

pub use trouble::Objection;
pub(super) use trouble::Trouble;

/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Shorter than the 75 seconds after which a service closes an idle connection: a request sent in that moment would be lost.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);

/// Names the file of authorities that client commands and agents trust.
pub const AUTHORITY_VARIABLE: &str = "ESTIMAND_AUTHORITY";

/// Names the file of the certificate that they show.
pub const CERTIFICATE_VARIABLE: &str = "ESTIMAND_CERTIFICATE";

/// The services that are trusted. Without one of these: those that the system trusts.
#[derive(Clone)]
pub enum Trust {
    /// Those with a certificate of an authority in this file.
    Authority(PathBuf),
    /// Those with a certificate of the authority whose own has this SHA-256: for the first contact.
    Pin([u8; 32]),
    /// Those with a certificate that this test accepts, whatever its names: for a process that speaks to itself.
    Shown(IsIt),
}

/// A test for one certificate, in DER.
pub type IsIt = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Authority(file) => f.debug_tuple("Authority").field(file).finish(),
            Trust::Pin(_) => f.write_str("Pin"),
            Trust::Shown(_) => f.write_str("Shown"),
        }
    }
}

/// The files of a certificate, with those of its authorities behind it, and of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl CertificateFiles {
    /// The key lies beside the certificate, in a file that ends in `.key`.
    pub fn beside(certificate: PathBuf) -> Self {
        CertificateFiles { key: certificate.with_extension("key"), certificate }
    }
}

/// The HTTP client of a client, made anew when the files change.
#[derive(Clone)]
pub(super) enum Http {
    Fixed(reqwest::Client),
    Kept(Arc<Kept>),
}

pub(super) struct Kept {
    options: Options,
    headers: HeaderMap,
    state: Mutex<State>,
}

struct State {
    client: reqwest::Client,
    /// The number of clients before it.
    number: u64,
    stamps: Vec<Stamp>,
    looked: Instant,
    trouble: Option<String>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

impl Http {
    pub(super) fn new(
        base: &Url,
        socket: Option<&Path>,
        options: &Options,
        headers: HeaderMap,
    ) -> Result<Self, Error> {
        if base.scheme() != "https" {
            // A token goes only to whom it may be shown; without one nothing is at stake.
            let shown = headers.contains_key(reqwest::header::AUTHORIZATION);
            let builder = plain(options, headers)?;
            if let Some(socket) = socket {
                let builder = builder.unix_socket(socket);
                return Ok(Http::Fixed(finish(match shown {
                    true => builder.connector_layer(SocketCheck(socket.into())),
                    false => builder,
                })?));
            }
            return Ok(Http::Fixed(finish(match listener::address_of(base).filter(|_| shown) {
                Some(address) => builder.connector_layer(ListenerCheck(address)),
                None => builder,
            })?));
        }
        // Before the files are read, so that a change while they are read is seen.
        let stamps = stamps(options);
        let client = build(options, headers.clone())?;
        if stamps.is_empty() {
            return Ok(Http::Fixed(client));
        }
        let state = Mutex::new(State { client, number: 0, stamps, looked: Instant::now(), trouble: None });
        Ok(Http::Kept(Arc::new(Kept { options: options.clone(), headers, state })))
    }

    pub(super) fn client(&self) -> reqwest::Client {
        match self {
            Http::Fixed(client) => client.clone(),
            Http::Kept(kept) => kept.look().client.clone(),
        }
    }

    /// The number of the current client: another one when the files were replaced.
    pub(super) fn number(&self) -> u64 {
        match self {
            Http::Fixed(_) => 0,
            Http::Kept(kept) => kept.look().number,
        }
    }

    /// The error of the files since they changed, if there is one.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            Http::Fixed(_) => None,
            Http::Kept(kept) => kept.state.lock().unwrap_or_else(PoisonError::into_inner).trouble.clone(),
        }
    }
}

impl Kept {
    fn look(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_EVERY {
            state.looked = Instant::now();
            let stamps = stamps(&self.options);
            if stamps != state.stamps {
                state.stamps = stamps;
                match build(&self.options, self.headers.clone()) {
                    Ok(client) => {
                        (state.client, state.trouble) = (client, None);
                        state.number += 1;
                    }
                    Err(error) => state.trouble = Some(error.to_string()),
                }
            }
        }
        state
    }
}

fn stamps(options: &Options) -> Vec<Stamp> {
    let credentials = &options.credentials;
    let authority = match &credentials.trust {
        Some(Trust::Authority(file)) => Some(file),
        _ => None,
    };
    let own = credentials.identity.iter().flat_map(|own| [&own.certificate, &own.key]);
    authority.into_iter().chain(own).map(|file| Stamp::of(file)).collect()
}

fn build(options: &Options, headers: HeaderMap) -> Result<reqwest::Client, Error> {
    let credentials = &options.credentials;
    let config = config(credentials.trust.as_ref(), credentials.identity.as_ref())?;
    finish(with(config, options, headers))
}

/// Without an own certificate: a service without TLS asks for none, and wherever it leads to is another server.
fn plain(options: &Options, headers: HeaderMap) -> Result<reqwest::ClientBuilder, Error> {
    Ok(with(config(None, None)?, options, headers))
}

fn with(config: ClientConfig, options: &Options, headers: HeaderMap) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(config)
        .default_headers(headers)
        .connect_timeout(options.connect_timeout)
        .read_timeout(options.read_timeout)
        .pool_idle_timeout(MAX_IDLE_TIME)
        .no_proxy()
}

fn finish(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, Error> {
    builder.build().map_err(|error| Error::Tls(error.to_string()))
}

fn config(trust: Option<&Trust>, own: Option<&CertificateFiles>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier(trust, provider)?);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => builder
            .with_client_auth_cert(read_certificates(&own.certificate)?, read_key(&own.key)?)
            .map_err(|error| FileError::content(&own.key, error))?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn verifier(
    trust: Option<&Trust>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let Some(trust) = trust else {
        return Ok(Arc::new(SystemTrust::new(provider)));
    };
    Ok(match trust {
        Trust::Pin(pin) => Arc::new(Known::new(By::Authority(*pin), provider)),
        Trust::Shown(is_it) => Arc::new(Known::new(By::Itself(Arc::clone(is_it)), provider)),
        Trust::Authority(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(file)? {
                roots.add(certificate).map_err(|error| FileError::content(file, error))?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| FileError::content(file, error))?
        }
    })
}

/// The error of that type among the causes.
pub(super) fn cause<E: std::error::Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.find_map(|cause| cause.downcast_ref::<E>())
}
