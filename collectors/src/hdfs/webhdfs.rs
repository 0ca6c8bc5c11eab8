//! Asks a NameNode over HTTP, and says in a sentence why there is no answer.
//!
//! Nothing is retried, no redirect is followed, and what is held of bodies at one time is bounded. How long anything
//! may take is up to the caller, who drops what takes too long.

use std::cell::Cell;

use estimand_runtime::SystemTrust;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};

use super::answers::{self, Block, Cluster, Coding, Refusal};
use super::kerberos;

/// Of all bodies that are read at one time.
const MOST_HELD_BYTES: usize = 64 << 20;
/// Of what a server says instead of an answer.
const MOST_SHOWN: usize = 300;

/// The NameNode that is active.
pub(super) struct WebHdfs {
    client: Client,
    base: Url,
    user: String,
    /// True once the server has turned out not to know `GETFILEBLOCKLOCATIONS`.
    is_old: Cell<bool>,
    held_bytes: Cell<usize>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum WebError {
    /// There is no such file any more.
    Gone,
    /// In safe mode a NameNode says nothing about a file of which it misses a block.
    Missing,
    /// This user may not look at it.
    Denied(String),
    /// The server doesn't know the operation.
    Unknown(String),
    Failed(String),
}

impl WebError {
    pub(super) fn text(self) -> String {
        match self {
            WebError::Gone => "it is gone".into(),
            WebError::Missing => "a block of it is missing".into(),
            WebError::Denied(text) | WebError::Unknown(text) | WebError::Failed(text) => text,
        }
    }
}

pub(super) fn client() -> Result<Client, String> {
    let trust = SystemTrust::client_config().map_err(|error| format!("no HTTP client: {error}"))?;
    let client = Client::builder().tls_backend_preconfigured(trust).no_proxy().redirect(Policy::none());
    let client = client.user_agent(concat!("estimand/", env!("CARGO_PKG_VERSION")));
    client.build().map_err(|error| format!("no HTTP client: {error}"))
}

impl WebHdfs {
    /// The first of these addresses at which a NameNode answers that is not a standby; else why none did.
    pub(super) async fn active(client: &Client, bases: &[String], user: &str) -> Result<WebHdfs, String> {
        let try_one = |base: String| async move {
            let url = Url::parse(&base).map_err(|error| format!("{base}: {error}"))?;
            let (is_old, held_bytes) = (Cell::new(false), Cell::new(0));
            let server =
                WebHdfs { client: client.clone(), base: url, user: user.to_owned(), is_old, held_bytes };
            match server.coding("/").await {
                // A server that can deny this is the active one.
                Ok(_) | Err(WebError::Denied(_)) => Ok(server),
                Err(no) => Err(no.text()),
            }
        };
        let mut tries: FuturesUnordered<_> = bases.iter().cloned().map(try_one).collect();
        let mut failures = Vec::new();
        while let Some(tried) = tries.next().await {
            match tried {
                Ok(server) => return Ok(server),
                Err(failure) => failures.push(failure),
            }
        }
        failures.sort();
        Err(failures.join("; "))
    }

    /// Where the blocks of a file are.
    pub(super) async fn blocks(&self, path: &str) -> Result<Vec<Block>, WebError> {
        if !self.is_old.get() {
            match self.operation("GETFILEBLOCKLOCATIONS", path).await {
                Err(WebError::Unknown(_)) => self.is_old.set(true),
                other => return self.parsed(&other?, answers::blocks, path),
            }
        }
        self.parsed(&self.operation("GET_BLOCK_LOCATIONS", path).await?, answers::blocks, path)
    }

    /// How a file is erasure-coded; none if it is not.
    pub(super) async fn coding(&self, path: &str) -> Result<Option<Coding>, WebError> {
        self.parsed(&self.operation("GETFILESTATUS", path).await?, answers::coding, path)
    }

    /// The DataNodes; none if this server does not list them, which an operator may choose.
    pub(super) async fn cluster(&self) -> Result<Option<Cluster>, String> {
        let mut url = self.base.clone();
        url.set_path("/jmx");
        url.set_query(Some("qry=Hadoop:service=NameNode,name=NameNodeInfo"));
        match self.get(url).await {
            Ok(body) => self.parsed(&body, answers::cluster, "/jmx").map_err(WebError::text),
            Err(WebError::Denied(_)) => Ok(None),
            Err(no) => Err(no.text()),
        }
    }

    async fn operation(&self, operation: &str, path: &str) -> Result<Vec<u8>, WebError> {
        let mut url = self.base.clone();
        url.set_path(&format!("/webhdfs/v1{}", escaped(path)));
        url.query_pairs_mut().append_pair("op", operation).append_pair("user.name", &self.user);
        self.get(url).await
    }

    fn parsed<T>(
        &self,
        body: &[u8],
        parse: fn(&[u8]) -> Result<T, String>,
        path: &str,
    ) -> Result<T, WebError> {
        let parsed =
            parse(body).map_err(|why| WebError::Failed(format!("{}: of {path}: {why}", self.shown())));
        self.held_bytes.set(self.held_bytes.get() - body.len());
        parsed
    }

    /// The body of an answer; it counts as held until it is [`parsed`](Self::parsed).
    async fn get(&self, url: Url) -> Result<Vec<u8>, WebError> {
        let is_webhdfs = url.path().starts_with("/webhdfs/");
        let unreachable =
            |error: reqwest::Error| WebError::Failed(format!("{}: {}", self.shown(), causes(&error)));
        let mut response = self.client.get(url).send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if self.held_bytes.get() + chunk.len() > MOST_HELD_BYTES {
                let most = MOST_HELD_BYTES >> 20;
                return Err(WebError::Failed(format!(
                    "{}: its answers have more than {most} MiB",
                    self.shown()
                )));
            }
            self.held_bytes.set(self.held_bytes.get() + chunk.len());
            body.extend_from_slice(&chunk);
        }
        if response.status() == StatusCode::OK {
            return Ok(body);
        }
        self.held_bytes.set(self.held_bytes.get() - body.len());
        Err(self.no(&response, &body, is_webhdfs))
    }

    /// The meaning of another status than 200. Pages beside WebHDFS may be closed.
    fn no(&self, response: &Response, body: &[u8], is_webhdfs: bool) -> WebError {
        let (status, shown) = (response.status(), self.shown());
        let message = format!("{shown}: status {status}: {}", first_words(body));
        if !is_webhdfs {
            return if status.is_client_error() {
                WebError::Denied(message)
            } else {
                WebError::Failed(message)
            };
        }
        let mut ways = response.headers().get_all("www-authenticate").iter();
        if status == StatusCode::UNAUTHORIZED && ways.any(|way| way.as_bytes().starts_with(b"Negotiate")) {
            return WebError::Failed(kerberos(&format!("{shown} answers 401 and asks to negotiate")));
        }
        match answers::refusal(body) {
            Some(refusal) => self.refused(&refusal),
            None if status == StatusCode::NOT_FOUND => WebError::Failed(format!(
                "{shown} offers no WebHDFS: either it is no NameNode, or dfs.webhdfs.enabled is false there"
            )),
            None => WebError::Failed(message),
        }
    }

    fn refused(&self, refusal: &Refusal) -> WebError {
        let Refusal { exception, message } = refusal;
        match exception.as_str() {
            "FileNotFoundException" => WebError::Gone,
            "SafeModeException" if message.starts_with("Zero blocklocations") => WebError::Missing,
            "AccessControlException" => WebError::Denied(first_words(message.as_bytes())),
            "StandbyException" => WebError::Failed(format!("{} is a standby NameNode", self.shown())),
            "SecurityException" if message.contains("Security enabled") => {
                WebError::Failed(kerberos(&format!("{} knows only users with a ticket", self.shown())))
            }
            _ => {
                let text = format!("{}: {exception}: {}", self.shown(), first_words(message.as_bytes()));
                if refusal.is_unknown_operation() { WebError::Unknown(text) } else { WebError::Failed(text) }
            }
        }
    }

    fn shown(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }
}

/// A path in which no server mistakes a letter of a name for part of the address.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.' | b'_' | b'~');
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The first line; what follows it is where in the server's code that happened.
pub(super) fn first_words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    line.chars().take(MOST_SHOWN).collect()
}

/// An error down to its cause: the outer ones say only that something went wrong.
fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
