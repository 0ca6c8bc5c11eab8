//! How a client asks: its deadlines and attempts, and what it shows and trusts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::access::{TOKEN_VARIABLE, Token};
use estimand_runtime::{Clock, SystemClock};

use crate::Error;
use crate::tls::{self, CertificateFiles, Trust};

/// Deadlines and attempts.
#[derive(Debug, Clone)]
pub struct Options {
    /// For making the connection.
    pub connect_timeout: Duration,
    /// For the next byte of an answer; a watch has its own, longer than the service's keep-alive.
    pub read_timeout: Duration,
    /// For a whole request, retries aside.
    pub total_timeout: Duration,
    /// How often a request is sent at most.
    pub attempts: u32,
    /// No further attempt begins after this long: a service that takes its time to say no would be waited for each time.
    pub retry_within: Duration,
    pub credentials: Credentials,
    pub clock: SenderClock,
}

/// The clock by which a client says when it sends, and so how old what it sends is.
#[derive(Clone)]
pub struct SenderClock(Arc<dyn Clock>);

impl SenderClock {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        SenderClock(clock)
    }

    pub(crate) fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }
}

impl Default for SenderClock {
    fn default() -> Self {
        SenderClock(Arc::new(SystemClock))
    }
}

impl fmt::Debug for SenderClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SenderClock")
    }
}

/// Credentials of a client, and its trust in services.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Shown with each request; not over plain HTTP to another machine, where others could read it on the way.
    pub token: Option<Token>,
    /// The services that it trusts, over TLS; none: those that the system trusts.
    pub trust: Option<Trust>,
    /// Its own certificate, over TLS.
    pub identity: Option<CertificateFiles>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connect_timeout: Duration::from_secs(3),
            read_timeout: Duration::from_secs(15),
            total_timeout: Duration::from_secs(30),
            attempts: 4,
            retry_within: Duration::from_secs(5),
            credentials: Credentials::default(),
            clock: SenderClock::default(),
        }
    }
}

impl Credentials {
    /// The token in ESTIMAND_TOKEN, the authorities in the file ESTIMAND_AUTHORITY and the certificate in the file
    /// ESTIMAND_CERTIFICATE, as far as they are given.
    pub fn of_environment() -> Result<Self, Error> {
        let text = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
        let token = Some(text).filter(|text| !text.is_empty()).map(|text| Token::parse(&text));
        let file = |variable| std::env::var_os(variable).filter(|file| !file.is_empty()).map(PathBuf::from);
        Ok(Credentials {
            token: token.transpose().map_err(Error::Token)?,
            trust: file(tls::AUTHORITY_VARIABLE).map(Trust::Authority),
            identity: file(tls::CERTIFICATE_VARIABLE).map(CertificateFiles::beside),
        })
    }
}
