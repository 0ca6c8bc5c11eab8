//! A small blocking HTTP/1.1 client that does what it is told and no more.
//!
//! For tests of the wire: malformed requests, exact headers, streams cut in the middle. It never
//! retries, follows or decodes anything, so what a test asserts is what the server did; each request
//! has a deadline. Connections are kept alive and used again, except by `raw` and `sse`, which have
//! their own. The `try_` forms return errors, for tests that take servers away; the others panic.

mod body;
mod events;
mod wire;

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use events::{Event, EventReader};

use body::Body;
use wire::Wire;

/// Long enough for a machine that also compiles, short enough to name the hanging request.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
const MAX_IDLE: usize = 64;
/// A service closes a connection that was idle for 75 seconds. A request that is sent on it in that moment would be lost.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);

/// A client of one server. May be shared by threads; each request in flight has its own connection.
pub struct Http {
    authority: String,
    deadline: Duration,
    /// Shown with each request that shows nothing by itself.
    token: Option<String>,
    /// Each with the time of its last response.
    idle: Mutex<Vec<(Instant, Wire)>>,
}

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    /// As sent, in the order sent.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Http {
    /// `base` is `http://HOST:PORT`; no path, no TLS.
    pub fn new(base: &str) -> Self {
        let authority = base.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        match authority {
            Some(authority) if !authority.contains('/') => {
                let (authority, token) = (authority.to_owned(), Some(crate::TOKEN.to_owned()));
                Self { authority, deadline: REQUEST_DEADLINE, token, idle: Mutex::default() }
            }
            _ => panic!("{base:?} is not http://HOST:PORT"),
        }
    }

    /// Another time for each whole request than 30 seconds.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// `HOST:PORT`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Shows another token than the one that everything under test is started with, or none.
    pub fn showing(mut self, token: Option<&str>) -> Self {
        self.token = token.map(str::to_owned);
        self
    }

    /// The token that it shows.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    #[track_caller]
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        match self.try_request(method, path, headers, body) {
            Ok(response) => response,
            Err(error) => panic!("{method} http://{}{path}: {error}", self.authority),
        }
    }

    /// Sends `value` as `application/json`.
    #[track_caller]
    pub fn send_json(&self, method: &str, path: &str, value: &serde_json::Value) -> Response {
        self.request(method, path, &[("Content-Type", "application/json")], value.to_string().as_bytes())
    }

    pub fn try_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let end = Instant::now() + self.deadline;
        let kept = self.idle_wire();
        let idle = kept.as_ref().map(|(since, _)| since.elapsed());
        let mut wire = match kept {
            Some((_, wire)) => wire,
            None => Wire::connect(&self.authority, end)?,
        };
        let mut request = self.head(method, path, headers);
        if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
            request.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        let response = exchange(&mut wire, &request, method == "HEAD", end).map_err(|error| match idle {
            Some(idle) => {
                io::Error::new(error.kind(), format!("{error}, on a connection that was idle for {idle:?}"))
            }
            None => error,
        })?;
        self.keep(wire, &response);
        Ok(response)
    }

    /// Asks, and connects again, once, if the connection is closed: among too many a new one may be, if this machine was busy for a
    /// second.
    #[track_caller]
    pub fn ask_again(&self, method: &str, path: &str, body: &serde_json::Value) -> Response {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let ask = || self.try_request(method, path, &[], body.as_bytes());
        ask().or_else(|_| ask()).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Sends exactly `bytes` on a connection of their own, and reads one response.
    #[track_caller]
    pub fn raw(&self, bytes: &[u8]) -> Response {
        match self.try_raw(bytes) {
            Ok(response) => response,
            Err(error) => {
                let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
                panic!("{} answered nothing that is HTTP to {sent:?}: {error}", self.authority)
            }
        }
    }

    pub fn try_raw(&self, bytes: &[u8]) -> io::Result<Response> {
        let end = Instant::now() + self.deadline;
        exchange(&mut Wire::connect(&self.authority, end)?, bytes, false, end)
    }

    /// Opens a stream of server-sent events. Panics unless it is answered by 200 and `text/event-stream`.
    #[track_caller]
    pub fn sse(&self, path: &str, headers: &[(&str, &str)]) -> EventReader {
        let opened = self.try_sse(path, headers);
        opened.unwrap_or_else(|error| panic!("GET http://{}{path} as events: {error}", self.authority))
    }

    pub fn try_sse(&self, path: &str, headers: &[(&str, &str)]) -> io::Result<EventReader> {
        let end = Instant::now() + self.deadline;
        let mut wire = Wire::connect(&self.authority, end)?;
        let mut request = self.head("GET", path, headers);
        request.extend_from_slice(b"Accept: text/event-stream\r\n\r\n");
        wire.send(&request, end)?;
        let (mut response, mut body) = read_head(&mut wire, false, end)?;
        let kind = response.header("content-type").unwrap_or_default();
        if response.status != 200 || !kind.starts_with("text/event-stream") {
            body.read_all(&mut wire, &mut response.body, end)?;
            return Err(io::Error::other(format!("answered {response}")));
        }
        Ok(EventReader::new(wire, body))
    }

    fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.authority);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(token) = &self.token
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        head.into_bytes()
    }

    /// A connection that the server has not closed as far as can be known, there are no retries, and the time of its last response.
    fn idle_wire(&self) -> Option<(Instant, Wire)> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((since, wire)) = idle.pop() {
            if since.elapsed() < MAX_IDLE_TIME && wire.is_reusable() {
                return Some((since, wire));
            }
        }
        None
    }

    fn keep(&self, wire: Wire, response: &Response) {
        let delimited =
            response.header("content-length").is_some() || response.header("transfer-encoding").is_some();
        // The services' HTTP library closes the connection of a malformed request, and may not say so. All other refusals have a body.
        let is_malformed = response.status >= 400 && response.body.is_empty();
        let closing = is_malformed
            || response.header("connection").is_some_and(|word| word.eq_ignore_ascii_case("close"));
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if (delimited || response.status == 204) && !closing && idle.len() < MAX_IDLE {
            idle.push((Instant::now(), wire));
        }
    }
}

impl Response {
    /// The first header of that name, in whatever case it was sent.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_else(|error| panic!("not UTF-8 ({error}): {self}"))
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {self}"))
    }

    /// Passes the response on if its status is `status`, and shows it if not.
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self}");
        self
    }

    /// The problem document of a response with this status.
    #[track_caller]
    pub fn expect_problem(self, status: u16) -> serde_json::Value {
        let response = self.expect_status(status);
        assert_eq!(response.header("content-type"), Some("application/problem+json"), "{response}");
        response.json()
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 2_000;
        writeln!(out, "status {}", self.status)?;
        for (name, value) in &self.headers {
            writeln!(out, "{name}: {value}")?;
        }
        write!(out, "\n{}", String::from_utf8_lossy(&self.body[..self.body.len().min(SHOWN)]))?;
        if self.body.len() > SHOWN { write!(out, "… ({} bytes)", self.body.len()) } else { Ok(()) }
    }
}

fn exchange(wire: &mut Wire, request: &[u8], to_head: bool, end: Instant) -> io::Result<Response> {
    let sent = wire.send(request, end);
    // A server may answer and close before it has read all, for instance what is too large.
    match (sent, read_response(wire, to_head, end)) {
        (_, Ok(response)) => Ok(response),
        (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(error),
    }
}

fn read_response(wire: &mut Wire, to_head: bool, end: Instant) -> io::Result<Response> {
    let (mut response, mut body) = read_head(wire, to_head, end)?;
    body.read_all(wire, &mut response.body, end)?;
    Ok(response)
}

/// Reads a status line and headers, past any interim response, and says how the body will end.
fn read_head(wire: &mut Wire, to_head: bool, end: Instant) -> io::Result<(Response, Body)> {
    loop {
        let line = wire.line(end)?;
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        let Some(status) = status else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a status line like {line:?}")));
        };
        let mut headers = Vec::new();
        loop {
            let line = wire.line(end)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let response = Response { status, headers, body: Vec::new() };
        if status >= 200 {
            let body = Body::of(&response, to_head)?;
            return Ok((response, body));
        }
    }
}
