//! The typed client of the REST interface; schedulers, the command line and the services themselves use it.
//!
//! Every request has a deadline for connecting, for the next byte and for the whole. A request that is safe to
//! repeat (a read, or a change with the same effect twice) is retried with a growing, jittered pause, at most
//! [`Options::attempts`] times; a plain POST is sent again only when it certainly was not taken: the service
//! could not be connected to, or answered that nothing was done.

mod access;
mod address;
mod events;
mod facts;
mod files;
mod health;
mod images;
mod listener;
mod manager;
mod options;
mod pages;
mod peer;
mod promises;
mod registry;
mod reservations;
mod several;
mod studies;
mod task_events;
mod task_files;
mod tasks;
pub mod tls;
mod tunnels;
mod uploads;
mod users;
mod values;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::{Response, StatusCode, header};
use url::Url;

use address::is_private;
use estimand_api::access::{TOKEN_VARIABLE, Token, TokenError};
use estimand_api::headers::{FILE_GRANT_HEADER, HINT_HEADER, REVISION_HEADER, SENT_AT_HEADER};
use estimand_api::instant::to_rfc3339;
use estimand_api::problem::{MEDIA_TYPE, Problem, kind};
use estimand_runtime::BackOff;
use tls::Http;

pub use address::is_here;
pub use estimand_runtime::pem::FileError;
pub use estimand_runtime::tcp_sockets::{TcpSocket, tcp_sockets};
pub use facts::Facts;
pub use files::{FileQuery, FileToSend};
pub use health::Health;
pub use listener::SERVER_USER_VARIABLE;
pub use manager::DesiredQuery;
pub use options::{Credentials, Options, SenderClock};
pub use pages::PageQuery;
pub use peer::{PeerError, within};
pub use promises::TimelineQuery;
pub use registry::{ChangedRegistry, RegistryChange};
pub use reqwest::Method;
pub use reservations::PriceQuery;
pub use studies::TrialQuery;
pub use task_events::{TaskEventQuery, TaskWatch};
pub use task_files::GrantedFiles;
pub use tasks::{LogQuery, TaskQuery};
pub use tls::{CertificateFiles, Objection, Trust};
pub use tunnels::{Tunnel, TunnelQuery, is_of_this_user};
pub use values::{HistoryQuery, Query, Rebound};
pub use watch::{Event, Watch};

/// The pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(75);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Why a request brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service understood and said no.
    #[error(transparent)]
    Problem(#[from] Box<Problem>),
    /// The service could not be reached, or did not answer in time.
    #[error("{url} does not answer: {cause}")]
    Unreachable { url: String, cause: String },
    /// The server that answered does not speak the interface.
    #[error("{url} answered what no Estimand service answers: {cause}")]
    Unexpected { url: String, cause: String },
    /// The address is invalid.
    #[error(
        "`{0}` is not the address of a service; expected e.g. http://127.0.0.1:7070, or unix:/run/estimand.sock"
    )]
    Address(String),
    /// A server answers, but cannot show that it is the service.
    #[error("{url} is not trusted: {cause}")]
    Untrusted { url: String, cause: String, objection: Objection },
    #[error(transparent)]
    Files(#[from] FileError),
    #[error("the token in {TOKEN_VARIABLE} is not valid: {0}")]
    Token(TokenError),
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

impl Error {
    /// The problem's status, if it is one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Problem(problem) => Some(problem.status),
            _ => None,
        }
    }
}

/// Speaks to one Estimand service. Clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: Http,
    base: Url,
    /// The socket in the file system at which the service is, if it is at one; then nobody is connected to at `base`.
    socket: Option<PathBuf>,
    options: Options,
    /// Clients of further services, which are asked for what this one does not serve.
    others: Arc<[Client]>,
}

/// An answer that is not an error.
pub(crate) struct Answer {
    pub status: StatusCode,
    pub revision: Option<u64>,
    /// Advice that came with it, for people.
    pub hint: Option<String>,
    pub body: Bytes,
}

/// The body of a request, and headers of its own.
#[derive(Clone, Default)]
pub(crate) struct Payload {
    /// With its media type.
    pub body: Option<(&'static str, Bytes)>,
    pub header: Option<(header::HeaderName, header::HeaderValue)>,
    /// The right to the file that it is about.
    pub grant: Option<header::HeaderValue>,
}

impl Payload {
    pub fn json(body: Bytes) -> Self {
        Payload { body: Some(("application/json", body)), ..Payload::default() }
    }

    pub fn binary(body: Bytes) -> Self {
        Payload { body: Some(("application/octet-stream", body)), ..Payload::default() }
    }
}

/// The condition under which a request may be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Safe,
    OnlyIfNotTaken,
}

impl Client {
    /// A client of the service at an address such as `http://127.0.0.1:7070`.
    pub fn new(address: &str) -> Result<Self, Error> {
        Self::with_options(address, Options::default())
    }

    pub fn with_options(address: &str, options: Options) -> Result<Self, Error> {
        let (base, socket) = address::read(address).ok_or_else(|| Error::Address(address.to_owned()))?;
        let mut headers = header::HeaderMap::new();
        if let Some(token) = options.credentials.token.as_ref().filter(|_| is_private(&base))
            && let Ok(mut value) = header::HeaderValue::try_from(format!("Bearer {}", token.expose()))
        {
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let http = Http::new(&base, socket.as_deref(), &options, headers)?;
        Ok(Client { http, base, socket, options, others: Arc::default() })
    }

    /// A client that shows the token in ESTIMAND_TOKEN, if there is one.
    pub fn of_environment(address: &str) -> Result<Self, Error> {
        let credentials = Credentials::of_environment()?;
        Self::with_options(address, Options { credentials, ..Options::default() })
    }

    /// A client that shows a token.
    pub fn with_token(address: &str, token: Option<Token>) -> Result<Self, Error> {
        let credentials = Credentials { token, ..Credentials::default() };
        Self::with_options(address, Options { credentials, ..Options::default() })
    }

    pub(crate) async fn get(&self, url: Url) -> Result<Answer, Error> {
        self.send(Method::GET, url, None, Repeat::Safe).await
    }

    /// Sends a request, whose body is JSON.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<Bytes>,
        repeat: Repeat,
    ) -> Result<Answer, Error> {
        self.send_payload(method, url, body.map(Payload::json), repeat).await
    }

    /// Sends a request until there is an answer or it makes no sense to go on.
    pub(crate) async fn send_payload(
        &self,
        method: Method,
        url: Url,
        body: Option<Payload>,
        repeat: Repeat,
    ) -> Result<Answer, Error> {
        let mut back_off = BackOff::new(FIRST_PAUSE, MAX_PAUSE);
        let mut attempt = 1;
        let began = Instant::now();
        loop {
            let shown = self.number();
            let failure = match self.send_to_one(&method, &url, body.as_ref(), repeat).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let RequestFailure { error, taken, unread } = failure;
            let again = repeat == Repeat::Safe || !taken;
            // The certificate ended while the request waited for its answer, and has been replaced: send the new one.
            if error.status() == Some(401) && self.number() != shown {
                continue;
            }
            let hopeless = match &error {
                Error::Problem(problem) => problem.status != 503,
                Error::Unreachable { .. } => false,
                _ => true,
            };
            // A busy service says so after waiting for the request for as long as an outage may take.
            let outage = if unread { Duration::ZERO } else { began.elapsed() };
            let is_late = outage >= self.options.retry_within;
            if hopeless || !again || is_late || attempt >= self.options.attempts {
                return Err(error);
            }
            tokio::time::sleep(back_off.pause()).await;
            attempt += 1;
        }
    }

    async fn send_once(
        &self,
        method: Method,
        url: Url,
        body: Option<Payload>,
    ) -> Result<Answer, RequestFailure> {
        let shown = self.shown(&url);
        let unreachable = |e: &reqwest::Error| RequestFailure {
            taken: !(e.is_connect() || was_unsent(e)),
            unread: false,
            error: self.no_answer(shown.clone(), e),
        };
        let mut request = self.http.client().request(method, url).timeout(self.options.total_timeout);
        let Payload { body, header, grant } = body.unwrap_or_default();
        if let Some(grant) = grant {
            request = request.header(FILE_GRANT_HEADER, grant);
        }
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        if let Some((content_type, body)) = body {
            request = request.header(header::CONTENT_TYPE, content_type).body(body);
            // For each attempt anew, so that it says how the clocks differ.
            request = request.header(SENT_AT_HEADER, to_rfc3339(self.options.clock.now_micros()));
        }
        let response = request.send().await.map_err(|e| unreachable(&e))?;
        let (status, revision, hint) = (response.status(), revision_of(&response), hint_of(&response));
        let is_problem = is_problem(&response);
        let body = response.bytes().await.map_err(|e| unreachable(&e))?;
        if status.is_success() {
            return Ok(Answer { status, revision, hint, body });
        }
        Err(match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) if is_problem => RequestFailure {
                taken: status != StatusCode::SERVICE_UNAVAILABLE || problem.kind == kind::OUTCOME_UNKNOWN,
                unread: false,
                error: Error::Problem(Box::new(problem)),
            },
            // A server ends a connection so on which no request came in time. It has not read the one that was sent at that moment.
            _ if status == StatusCode::REQUEST_TIMEOUT => RequestFailure {
                taken: false,
                unread: true,
                error: Error::Unreachable { url: shown.clone(), cause: format!("status {status}") },
            },
            _ => RequestFailure {
                taken: true,
                unread: false,
                error: Error::Unexpected { url: shown.clone(), cause: format!("status {status}") },
            },
        })
    }

    /// The error for a request without an answer: the failure in words for people, with advice.
    fn no_answer(&self, url: String, error: &reqwest::Error) -> Error {
        let found = tls::Trouble::of(error);
        let advice = found.as_ref().and_then(tls::Trouble::advice);
        let more = advice.into_iter().chain(self.http.trouble());
        let text = more.fold(chain(error), |text, more| format!("{text}; {more}"));
        let objection = match tls::cause::<listener::Stranger>(error) {
            Some(stranger) => (!stranger.may_pass()).then_some(Objection::Other),
            None => found.as_ref().and_then(tls::Trouble::objection),
        };
        match objection {
            Some(objection) => Error::Untrusted { url, cause: text, objection },
            None => Error::Unreachable { url, cause: text },
        }
    }

    /// Reads the body of an answer as JSON.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, answer: &Answer) -> Result<T, Error> {
        serde_json::from_slice(&answer.body)
            .map_err(|e| Error::Unexpected { url: self.base.to_string(), cause: e.to_string() })
    }
}

/// A request that brought no good answer.
struct RequestFailure {
    error: Error,
    /// True if the service may have acted on it.
    taken: bool,
    /// True if the service says that no request came, after waiting for one.
    unread: bool,
}

/// True if the connection had ended before the request was written to it, as a server ends it that waited for one in vain.
fn was_unsent(error: &reqwest::Error) -> bool {
    // The library has no other name for an answer that came while nothing was asked.
    let was_idle = |error: &hyper::Error| error.to_string() == "received unexpected message from connection";
    tls::cause::<hyper::Error>(error).is_some_and(|error| error.is_canceled() || was_idle(error))
}

fn is_problem(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(MEDIA_TYPE))
}

fn hint_of(response: &Response) -> Option<String> {
    response.headers().get(HINT_HEADER)?.to_str().ok().map(str::to_owned)
}

fn revision_of(response: &Response) -> Option<u64> {
    response.headers().get(REVISION_HEADER)?.to_str().ok()?.parse().ok()
}

/// A failure with its causes. The URL, which reqwest repeats, is left to the caller.
fn chain(error: &reqwest::Error) -> String {
    let kind = match () {
        () if error.is_timeout() => "no answer in time",
        () if error.is_connect() => "cannot connect",
        () => "the connection failed",
    };
    let mut text = kind.to_owned();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
