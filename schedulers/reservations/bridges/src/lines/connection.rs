//! One connection: reads lines, has them answered, writes the answers in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_reservation_service::MAX_DOCUMENT_BYTES;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::Lines;
use super::caller::{Caller, Counted};
use super::request::{Line, Request, answered, late, refusal, wrong};

/// The longest line: a document, and what is around it.
const MAX_LINE_BYTES: usize = MAX_DOCUMENT_BYTES + 1024;
/// How many lines of a connection are answered at the same time.
const MAX_PENDING: usize = 64;
/// Lines up to this length are free; longer ones share a budget, and come on connections that are welcome alone.
const SMALL_LINE_BYTES: usize = 4 * 1024;
/// The part of the budget that a longer line takes.
pub(super) const LONG_LINE_KIB: usize = MAX_LINE_BYTES / 1024 + 1;
/// How long a connection may take until it has shown that it may be here: a token, or a request that is open to it.
const WELCOME_WITHIN: Duration = Duration::from_secs(10);
/// How long the rest of a line may take, and the reading of an answer.
const LINE_WITHIN: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(3_600);
const READ_BYTES: usize = 16 * 1024;

pub(super) struct Connection {
    shared: Arc<Lines>,
    stream: TcpStream,
    /// The caller whose token was shown last; none until the first line.
    caller: Option<Arc<Caller>>,
    /// Its place among the connections of that caller.
    place: Option<Counted>,
    /// A request was answered with anything but 401 or 403.
    is_welcome: Arc<AtomicBool>,
    welcome_by: Instant,
    /// Bytes that were read and are no whole line yet.
    rest: Vec<u8>,
}

/// Why no further line is read.
enum End {
    /// The other side is gone, or has said all.
    Closed,
    Told(Problem),
}

/// An answer, and its part of its token's memory until it is written.
struct Reply {
    text: String,
    _room: Option<OwnedSemaphorePermit>,
}

type Replying = BoxFuture<'static, Reply>;
/// The answers that are awaited, in the order of the lines.
type Pending = FuturesOrdered<Replying>;
/// Room for a long line, and its place among those of its caller.
type LineRoom = (OwnedSemaphorePermit, Counted);

impl Connection {
    pub fn new(shared: Arc<Lines>, stream: TcpStream) -> Self {
        let welcome_by = Instant::now() + WELCOME_WITHIN;
        Connection {
            shared,
            stream,
            caller: None,
            place: None,
            is_welcome: Arc::default(),
            welcome_by,
            rest: Vec::new(),
        }
    }

    pub async fn run(&mut self) {
        let mut pending = Pending::new();
        let mut room: Option<LineRoom> = None;
        let mut since: Option<Instant> = None;
        loop {
            if !self.is_welcome.load(Ordering::Relaxed) && Instant::now() >= self.welcome_by {
                let end = End::Told(late("a token that the service knows", WELCOME_WITHIN));
                return self.finish(pending, end).await;
            }
            if pending.len() < MAX_PENDING
                && let Some(line) = take_line(&mut self.rest)
            {
                room = None;
                since = None;
                let Some(replying) = self.answer(&line, &mut pending).await else { return };
                pending.push_back(replying);
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
            tokio::select! {
                Some(reply) = pending.next() => {
                    if !self.write(&reply.text).await {
                        return;
                    }
                }
                read = timeout_at(self.read_until(since), read(&self.stream, &mut self.rest)), if may_read => {
                    let outcome = match read {
                        Err(_) if since.is_some_and(|since| since.elapsed() >= LINE_WITHIN) => {
                            Err(End::Told(late("the rest of the line", LINE_WITHIN)))
                        }
                        Err(_) => Ok(()),
                        Ok(read) => read,
                    };
                    let outcome = outcome.and_then(|()| self.check_length(&mut room));
                    if let Err(end) = outcome {
                        return self.finish(pending, end).await;
                    }
                }
            }
        }
    }

    /// When to look at the deadlines again if nothing arrives.
    fn read_until(&self, since: Option<Instant>) -> Instant {
        let line = since.map_or_else(|| Instant::now() + IDLE, |since| since + LINE_WITHIN);
        if self.is_welcome.load(Ordering::Relaxed) { line } else { line.min(self.welcome_by) }
    }

    /// A line that is not whole yet is no longer than it may be, and has its part of the budget.
    fn check_length(&self, room: &mut Option<LineRoom>) -> Result<(), End> {
        let length = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        if length <= SMALL_LINE_BYTES {
            return Ok(());
        }
        let is_welcome = self.is_welcome.load(Ordering::Relaxed);
        let Some(caller) = self.caller.as_ref().filter(|_| is_welcome) else {
            let detail =
                format!("a line before a token is longer than {SMALL_LINE_BYTES} bytes, the limit there");
            return Err(End::Told(Problem::too_large(detail)));
        };
        if length > MAX_LINE_BYTES {
            let detail = format!("the line is longer than {MAX_LINE_BYTES} bytes, the limit here");
            return Err(End::Told(Problem::too_large(detail)));
        }
        if room.is_none() {
            *room =
                Some(self.shared.room_of(caller).ok_or_else(|| {
                    End::Told(Problem::unavailable("too many long lines are being read", 1))
                })?);
        }
        Ok(())
    }

    /// Answers what was asked before the end.
    async fn finish(&mut self, mut pending: Pending, end: End) {
        while let Some(reply) = pending.next().await {
            if !self.write(&reply.text).await {
                return;
            }
        }
        let problem = match end {
            End::Told(problem) => problem,
            End::Closed if self.rest.is_empty() => return,
            End::Closed => wrong("line", "ends in its middle", "a whole line, with a line feed at its end"),
        };
        self.write(&refusal(None, &problem)).await;
    }

    async fn write(&mut self, text: &str) -> bool {
        matches!(timeout(LINE_WITHIN, self.stream.write_all(text.as_bytes())).await, Ok(Ok(())))
    }

    /// The answer to a line, to be awaited behind those before it; none if the connection ended meanwhile. A token is checked
    /// before the lines behind it are read.
    async fn answer(&mut self, line: &[u8], pending: &mut Pending) -> Option<Replying> {
        let (id, line) = match Line::parse(line) {
            Ok(parsed) => parsed,
            Err(problem) => return Some(at_once(refusal(None, &problem))),
        };
        let done = match line {
            Line::Token(token) => {
                self.show(token).await.map(|()| at_once(answered(&id, &(200, "{}".into()))))
            }
            Line::Request(request) => match self.caller_of_request() {
                Ok(caller) => {
                    let room = self.room(&caller, pending).await?;
                    Ok(self.request(caller, room, id.clone(), request))
                }
                Err(problem) => Err(problem),
            },
        };
        Some(done.unwrap_or_else(|problem| at_once(refusal(Some(&id), &problem))))
    }

    /// Room for one more answer. If there is none, the answers before it are written first, since each makes room: so a
    /// connection that is read waits behind one answer of each that isn't, and not behind all of theirs.
    async fn room(&mut self, caller: &Caller, pending: &mut Pending) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Some(room) = caller.try_room() {
                return Some(room);
            }
            let Some(reply) = pending.next().await else { return caller.room().await };
            if !self.write(&reply.text).await {
                return None;
            }
        }
    }

    async fn show(&mut self, token: estimand_api::access::Token) -> Result<(), Problem> {
        self.caller = None;
        self.place = None;
        let caller = self.shared.callers.of_token(token).await?;
        self.admit(caller)?;
        self.is_welcome.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a place among the connections of a caller. A connection for which there is none is closed once this is told.
    fn admit(&mut self, caller: Arc<Caller>) -> Result<Arc<Caller>, Problem> {
        let Some(place) = self.shared.place_of(&caller) else {
            self.is_welcome = Arc::default();
            self.welcome_by = Instant::now();
            return Err(Problem::unavailable(
                "too many connections with this token are open, or without any",
                5,
            ));
        };
        self.place = Some(place);
        Ok(Arc::clone(self.caller.insert(caller)))
    }

    fn caller_of_request(&mut self) -> Result<Arc<Caller>, Problem> {
        match &self.caller {
            Some(caller) => Ok(Arc::clone(caller)),
            None => self.admit(self.shared.callers.stranger()?),
        }
    }

    /// Makes the request in a task of its own: it ends, and gives its turn to others, while an answer before it isn't read.
    fn request(
        &self,
        caller: Arc<Caller>,
        room: OwnedSemaphorePermit,
        id: Value,
        request: Request,
    ) -> Replying {
        let is_welcome = Arc::clone(&self.is_welcome);
        let shared = Arc::clone(&self.shared);
        let unanswered = id.clone();
        let answering = AbortOnDropHandle::new(tokio::spawn(async move {
            let turn = shared.requests.acquire().await;
            let outcome = request.perform(&caller.client).await;
            drop(turn);
            let text = match &outcome {
                Ok(answer) => answered(&id, answer),
                Err(problem) => refusal(Some(&id), problem),
            };
            let status = outcome.map_or_else(|problem| problem.status, |(status, _)| status);
            if !matches!(status, 401 | 403) {
                is_welcome.store(true, Ordering::Relaxed);
            }
            match caller.fit(room, text.len()) {
                Some(room) => Reply { text, _room: Some(room) },
                None => {
                    let detail = "the answer is longer than the answers of this token may be until they are read; \
                                  the request may have taken effect";
                    Reply { text: refusal(Some(&id), &Problem::outcome_unknown(detail, 1)), _room: None }
                }
            }
        }));
        Box::pin(async move {
            answering.await.unwrap_or_else(|error| {
                let problem =
                    Problem::outcome_unknown(format!("the request ended without an answer: {error}"), 1);
                Reply { text: refusal(Some(&unanswered), &problem), _room: None }
            })
        })
    }
}

fn at_once(text: String) -> Replying {
    Box::pin(async move { Reply { text, _room: None } })
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
