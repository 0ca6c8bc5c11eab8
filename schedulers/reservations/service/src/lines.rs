//! Reservations over plain TCP: a JSON document a line, pipelined.
//!
//! Each line is a request to the HTTP interface in other clothes, and is sent there with the token that the connection has
//! shown: so one place decides who may do what. Answers come in the order of the requests.
//!
//! Everything is bounded: connections, the length of a line, the lines of a connection that are being answered, the memory of
//! all lines together, and the time that half a line or an answer that nobody reads may take. A connection that says
//! nothing costs a socket and no buffer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use estimand_api::access::Token;
use estimand_api::problem::{FieldError, Problem};
use estimand_client::{Client, Error};
use estimand_runtime::{Stop, Tasks};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::document::MAX_DOCUMENT_BYTES;

/// The most connections at the same time.
pub const MAX_CONNECTIONS: usize = 12_000;
/// The longest line: a document, and what is around it.
const MAX_LINE_BYTES: usize = MAX_DOCUMENT_BYTES + 1024;
/// How many lines of a connection are answered at the same time.
const MAX_PENDING: usize = 64;
/// How many requests are made at the same time for all connections: each has an HTTP connection of its own, which is used
/// again.
const MAX_REQUESTS: usize = 128;
/// How many tokens have a client that is kept.
const MAX_CLIENTS: usize = 256;
/// Lines up to this length are free; longer ones share a budget, in KiB.
const SMALL_LINE_BYTES: usize = 4 * 1024;
const BUDGET_KIB: usize = 64 * 1024;
/// How long the rest of a line may take, and the reading of an answer.
const LINE_WITHIN: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 16 * 1024;

/// Makes a client of the HTTP interface that shows a token.
pub type Connect = Arc<dyn Fn(Option<Token>) -> Result<Client, Error> + Send + Sync>;

/// Serves lines on a listener until the process ends.
pub fn serve(listener: std::net::TcpListener, connect: Connect, tasks: &Tasks) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = Arc::new(TcpListener::from_std(listener)?);
    let shared = Arc::new(Lines {
        connect,
        seats: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        budget: Arc::new(Semaphore::new(BUDGET_KIB)),
        requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
        clients: Mutex::default(),
    });
    tasks.spawn("reservations-lines", move |stop| {
        let (listener, shared) = (Arc::clone(&listener), Arc::clone(&shared));
        async move { shared.accept(&listener, &stop).await }
    });
    Ok(())
}

struct Lines {
    connect: Connect,
    seats: Arc<Semaphore>,
    budget: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    /// By token: clients of the same one share their connections.
    clients: Mutex<HashMap<String, Client>>,
}

impl Lines {
    fn client(&self, token: Option<&Token>) -> Result<Client, Error> {
        let key = token.map(Token::expose).unwrap_or_default();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(key) {
            return Ok(client.clone());
        }
        let client = (self.connect)(token.cloned())?;
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        clients.insert(key.to_owned(), client.clone());
        Ok(client)
    }

    async fn accept(self: Arc<Self>, listener: &TcpListener, stop: &Stop) {
        loop {
            let accepted = tokio::select! {
                () = stop.requested() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // There are too many open files, for a while.
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else {
                let problem = Problem::unavailable(format!("{MAX_CONNECTIONS} are connected already"), 5);
                // It fits into the buffer of a new socket, or nobody hears it.
                let _ = stream.try_write(rendered(&Value::Null, &Err(problem)).as_bytes());
                continue;
            };
            let (shared, stop) = (Arc::clone(&self), stop.clone());
            tokio::spawn(async move {
                let _seat = seat;
                let mut connection = Connection { shared, stream, token: None, rest: Vec::new() };
                tokio::select! {
                    () = stop.requested() => {}
                    () = connection.run() => {}
                }
            });
        }
    }
}

struct Connection {
    shared: Arc<Lines>,
    stream: TcpStream,
    token: Option<Token>,
    /// Bytes that were read and are no whole line yet.
    rest: Vec<u8>,
}

/// Why no further line is read.
enum End {
    /// The other side is gone, or has said all.
    Closed,
    Told(Problem),
}

type Answer = futures_util::future::BoxFuture<'static, String>;

impl Connection {
    async fn run(&mut self) {
        let mut pending: FuturesOrdered<Answer> = FuturesOrdered::new();
        let mut budget: Option<OwnedSemaphorePermit> = None;
        let mut since: Option<Instant> = None;
        loop {
            if pending.len() < MAX_PENDING
                && let Some(line) = take_line(&mut self.rest)
            {
                (budget, since) = (None, None);
                pending.push_back(self.answer(&line));
                continue;
            }
            // A long line is either whole or waits for its end here.
            if self.rest.is_empty() {
                self.rest = Vec::new();
                since = None;
            } else if since.is_none() {
                since = Some(Instant::now());
            }
            let may_read = pending.len() < MAX_PENDING;
            let until =
                since.map_or_else(|| Instant::now() + Duration::from_secs(3_600), |at| at + LINE_WITHIN);
            tokio::select! {
                Some(answer) = pending.next() => {
                    if !self.write(&answer).await {
                        return;
                    }
                }
                read = timeout_at(until, read(&self.stream, &mut self.rest)), if may_read => {
                    let outcome = match read {
                        Err(_) if since.is_some() => Err(End::Told(late())),
                        Err(_) => Ok(()),
                        Ok(read) => read,
                    };
                    let outcome = outcome.and_then(|()| self.check_length(&mut budget));
                    if let Err(end) = outcome {
                        return self.finish(pending, end).await;
                    }
                }
            }
        }
    }

    /// A line that is not whole yet is no longer than it may be, and has its part of the budget.
    fn check_length(&self, budget: &mut Option<OwnedSemaphorePermit>) -> Result<(), End> {
        let length = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        if length > MAX_LINE_BYTES {
            let detail = format!("the line is longer than {MAX_LINE_BYTES} bytes, the limit here");
            return Err(End::Told(Problem::too_large(detail)));
        }
        if length > SMALL_LINE_BYTES && budget.is_none() {
            let kibibytes = u32::try_from(MAX_LINE_BYTES / 1024 + 1).unwrap_or(u32::MAX);
            let taken = Arc::clone(&self.shared.budget).try_acquire_many_owned(kibibytes);
            let refused = |_| End::Told(Problem::unavailable("too many long lines are being read", 1));
            *budget = Some(taken.map_err(refused)?);
        }
        Ok(())
    }

    /// Answers what was asked before the end.
    async fn finish(&mut self, mut pending: FuturesOrdered<Answer>, end: End) {
        while let Some(answer) = pending.next().await {
            if !self.write(&answer).await {
                return;
            }
        }
        let problem = match end {
            End::Told(problem) => problem,
            End::Closed if self.rest.is_empty() => return,
            End::Closed => wrong("line", "ends in its middle", "a whole line, with a line feed at its end"),
        };
        self.write(&rendered(&Value::Null, &Err(problem))).await;
    }

    async fn write(&mut self, text: &str) -> bool {
        matches!(timeout(LINE_WITHIN, self.stream.write_all(text.as_bytes())).await, Ok(Ok(())))
    }

    fn answer(&mut self, line: &[u8]) -> Answer {
        let (id, request) = match request(line) {
            Ok((id, Request::Token(token))) => {
                self.token = Some(token);
                let text = rendered(&id, &Ok((200, json!({}))));
                return Box::pin(async move { text });
            }
            Ok(request) => request,
            Err(problem) => {
                let text = rendered(&Value::Null, &Err(problem));
                return Box::pin(async move { text });
            }
        };
        let client = match self.shared.client(self.token.as_ref()) {
            Ok(client) => client,
            Err(error) => {
                let text = rendered(&id, &Err(problem_of(error)));
                return Box::pin(async move { text });
            }
        };
        let requests = Arc::clone(&self.shared.requests);
        Box::pin(async move {
            let _turn = requests.acquire_owned().await;
            rendered(&id, &perform(&client, request).await)
        })
    }
}

/// Waits until there is something to read, and only then makes room for it.
async fn read(stream: &TcpStream, rest: &mut Vec<u8>) -> Result<(), End> {
    loop {
        stream.ready(Interest::READABLE).await.map_err(|_| End::Closed)?;
        rest.reserve(READ_BYTES);
        return match stream.try_read_buf(rest) {
            Ok(0) => Err(End::Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => Err(End::Closed),
        };
    }
}

/// The first whole line that is not empty.
fn take_line(rest: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = rest.drain(..=end).collect();
        while line.last().is_some_and(u8::is_ascii_whitespace) {
            line.pop();
        }
        if !line.is_empty() {
            return Some(line);
        }
    }
}

enum Request {
    Token(Token),
    Quote(Map<String, Value>),
    QuoteList(Map<String, Value>),
    Reserve(Map<String, Value>, String),
    ReserveList(Map<String, Value>, String),
    Change(String, Map<String, Value>),
    Bid(String, String),
    Show(String),
    Cancel(String),
}

/// The forms of a line.
const EXPECTED: &str = "one of {\"token\": …}, {\"quote\": {…}}, {\"reserve\": {…}, \"key\": …}, {\"quoteList\": {…}}, \
                        {\"reserveList\": {…}, \"key\": …}, {\"show\": \"r1\"}, {\"change\": \"r1\", \"to\": {…}}, \
                        {\"bid\": \"r1\", \"value\": …}, {\"cancel\": \"r1\"}, each with an `id` if you like";

fn request(line: &[u8]) -> Result<(Value, Request), Problem> {
    let mut map = estimand_api::json::parse_object(line)?;
    let id = map.remove("id").unwrap_or(Value::Null);
    let (key, to, value) = (map.remove("key"), map.remove("to"), map.remove("value"));
    let mut fields = map.into_iter();
    let (Some((name, about)), None) = (fields.next(), fields.next()) else {
        return Err(wrong("line", "has not exactly one request", EXPECTED));
    };
    let new_key = crate::desk::new_key;
    let request = match (name.as_str(), about, key, to, value) {
        ("token", Value::String(token), None, None, None) => {
            let token =
                Token::parse(&token).map_err(|error| wrong("token", &error.to_string(), "a token"))?;
            Request::Token(token)
        }
        ("quote", Value::Object(document), None, None, None) => Request::Quote(document),
        ("quoteList", Value::Object(list), None, None, None) => Request::QuoteList(list),
        ("reserve", Value::Object(document), None, None, None) => Request::Reserve(document, new_key()),
        ("reserve", Value::Object(document), Some(Value::String(key)), None, None) => {
            Request::Reserve(document, key)
        }
        ("reserveList", Value::Object(list), None, None, None) => Request::ReserveList(list, new_key()),
        ("reserveList", Value::Object(list), Some(Value::String(key)), None, None) => {
            Request::ReserveList(list, key)
        }
        ("show", Value::String(id), None, None, None) => Request::Show(id),
        ("change", Value::String(id), None, Some(Value::Object(to)), None) => Request::Change(id, to),
        ("bid", Value::String(id), None, None, Some(Value::String(value))) => Request::Bid(id, value),
        ("bid", Value::String(id), None, None, Some(Value::Number(value))) => {
            Request::Bid(id, value.to_string())
        }
        ("cancel", Value::String(id), None, None, None) => Request::Cancel(id),
        _ => return Err(wrong(&name, "is no request", EXPECTED)),
    };
    Ok((id, request))
}

/// A request that only asks for the price.
fn is_dry(map: &Map<String, Value>) -> bool {
    map.get("dryRun") == Some(&Value::Bool(true))
}

async fn perform(client: &Client, request: Request) -> Result<(u16, Value), Problem> {
    let request = match request {
        Request::Reserve(document, _) if is_dry(&document) => Request::Quote(document),
        Request::ReserveList(list, _) if is_dry(&list) => Request::QuoteList(list),
        request => request,
    };
    let done = match request {
        Request::Token(_) => return Ok((200, json!({}))),
        Request::Quote(document) => client.quote(&document).await.map(|quote| (200, json!(quote))),
        Request::Reserve(document, key) => {
            client.reserve(&document, &key).await.map(|reservation| (201, json!(reservation)))
        }
        Request::QuoteList(list) => client.quote_list(&list).await.map(|quotes| (200, json!(quotes))),
        Request::ReserveList(list, key) => {
            client.reserve_list(&list, &key).await.map(|made| (201, json!(made)))
        }
        Request::Change(id, to) if is_dry(&to) => {
            client.quote_change(&id, &to).await.map(|quote| (200, json!(quote)))
        }
        Request::Change(id, to) => {
            client.change_reservation(&id, &to).await.map(|reservation| (200, json!(reservation)))
        }
        Request::Bid(id, value) => client.rebid(&id, &value).await.map(|one| (200, json!(one))),
        Request::Show(id) => client.reservation(&id).await.map(|reservation| (200, json!(reservation))),
        Request::Cancel(id) => client.cancel_reservation(&id).await.map(|one| (200, json!(one))),
    };
    done.map_err(problem_of)
}

fn problem_of(error: Error) -> Problem {
    match error {
        Error::Problem(problem) => *problem,
        error => Problem::outcome_unknown(format!("the service gave no answer: {error}"), 1),
    }
}

fn rendered(id: &Value, outcome: &Result<(u16, Value), Problem>) -> String {
    let (status, body) = match outcome {
        Ok((status, body)) => (*status, body.clone()),
        Err(problem) => (problem.status, json!(problem)),
    };
    let mut text = json!({ "id": id, "status": status, "body": body }).to_string();
    text.push('\n');
    text
}

fn wrong(field: &str, message: &str, expected: &str) -> Problem {
    Problem::invalid_field(FieldError::new(field, message).expected(expected))
}

fn late() -> Problem {
    let detail = format!("the rest of the line did not come within {} seconds", LINE_WITHIN.as_secs());
    Problem::new(408, estimand_api::problem::kind::TIMEOUT, "The request took too long to arrive", detail)
}
