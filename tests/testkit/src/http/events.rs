//! Reads server-sent events from a response, one at a time.
//!
//! Events are yielded as they were sent: an id belongs to the event that carried it, and no reader
//! reconnects by itself. Comments only keep a stream alive: they are passed over, and don't extend
//! the deadline.

use std::io;
use std::time::{Duration, Instant};

use super::body::Body;
use super::wire::Wire;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub id: Option<String>,
    /// `message` where the server gave none.
    pub event: String,
    pub data: String,
}

impl Event {
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }
}

pub struct EventReader {
    wire: Wire,
    body: Body,
    /// Received, but not yet a complete event.
    pending: Vec<u8>,
}

impl EventReader {
    pub(super) fn new(wire: Wire, body: Body) -> Self {
        Self { wire, body, pending: Vec::new() }
    }

    /// The next event. Panics if none comes within `deadline`, or if the stream ends.
    #[track_caller]
    pub fn next_event(&mut self, deadline: Duration) -> Event {
        match self.try_next(deadline) {
            Ok(Some(event)) => event,
            Ok(None) => panic!("the stream ended where an event was expected"),
            Err(error) => {
                let pending = String::from_utf8_lossy(&self.pending);
                panic!("no event within {deadline:?}: {error}; received so far: {pending:?}")
            }
        }
    }

    /// The next event that says what is new: one that is not `settled`.
    #[track_caller]
    pub fn next_news(&mut self, deadline: Duration) -> Event {
        let end = Instant::now() + deadline;
        loop {
            let event = self.next_event(end.saturating_duration_since(Instant::now()));
            if event.event != "settled" {
                return event;
            }
        }
    }

    /// The next event, or `None` if the stream ended in good order. After `ErrorKind::TimedOut` the
    /// stream may be read further; nothing is lost.
    pub fn try_next(&mut self, deadline: Duration) -> io::Result<Option<Event>> {
        let end = Instant::now() + deadline;
        loop {
            while let Some(block) = take_block(&mut self.pending) {
                if let Some(event) = parse(&block) {
                    return Ok(Some(event));
                }
            }
            match self.body.piece(&mut self.wire, end)? {
                Some(piece) => self.pending.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }
}

/// Takes the lines up to the first empty one.
fn take_block(pending: &mut Vec<u8>) -> Option<String> {
    let mut line_start = 0;
    for at in 0..pending.len() {
        if pending[at] != b'\n' {
            continue;
        }
        if matches!(pending[line_start..at], [] | [b'\r']) {
            let block: Vec<u8> = pending.drain(..=at).collect();
            return Some(String::from_utf8_lossy(&block).into_owned());
        }
        line_start = at + 1;
    }
    None
}

/// `None` for a block without data, such as a comment.
fn parse(block: &str) -> Option<Event> {
    let mut found = Event { id: None, event: "message".to_owned(), data: String::new() };
    let mut data: Option<String> = None;
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut data) {
            ("id", _) => found.id = Some(value.to_owned()),
            ("event", _) => found.event = value.to_owned(),
            ("data", None) => data = Some(value.to_owned()),
            ("data", Some(before)) => {
                before.push('\n');
                before.push_str(value);
            }
            _ => {}
        }
    }
    found.data = data?;
    Some(found)
}
