//! A watch: the snapshot first, then each change, over server-sent events.
//!
//! A broken connection is made again from where it broke off; when the service no longer has the missed changes
//! it sends a fresh snapshot with the reason. The caller sees one stream that ends only when it is dropped or
//! the service refuses it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header;
use serde::Deserialize;
use url::Url;

use crate::{Client, Error, chain, values::name_list};
use estimand_api::names::{DataName, NamePattern, NodeName};
use estimand_api::pointer::Pointer;
use estimand_api::problem::Problem;
use estimand_api::selector::Selector;
use estimand_api::value::Value;
use estimand_runtime::BackOff;

/// The pauses before it connects again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Longer than the pause in which the service sends a comment to show that it is there.
const SILENCE: Duration = Duration::from_secs(40);
/// The comment by which a service of an earlier version says that the events so far are all of one snapshot. One of
/// today sends it together with the event `settled`.
const SETTLED: &[u8] = b": settled";
/// The longest event: a snapshot of very many values.
const MAX_EVENT_BYTES: usize = 1 << 30;

/// An event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// All values there are; earlier events are void.
    Snapshot { revision: u64, reason: String, values: Vec<Value> },
    /// A value is new or changed, or its state did.
    Change(Box<Value>),
    /// A value is gone.
    Delete { data_name: DataName, node_name: NodeName, revision: u64 },
}

/// A stream of events.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    names: Vec<DataName>,
    patterns: Vec<NamePattern>,
    node: Option<NodeName>,
    nodes: Option<Selector>,
    field: Option<Pointer>,
    last_id: Option<String>,
    response: Option<reqwest::Response>,
    /// The place of the service that is asked, among those of the client.
    service: usize,
    buffer: BytesMut,
    /// Up to where the buffer is known to have no end of an event.
    scanned: usize,
    back_off: BackOff,
}

impl Client {
    /// Watches names; all of them if none is given.
    pub fn watch(&self, names: Vec<DataName>) -> Watch {
        Watch {
            client: self.clone(),
            names,
            patterns: Vec::new(),
            node: None,
            nodes: None,
            field: None,
            last_id: None,
            response: None,
            service: 0,
            buffer: BytesMut::new(),
            scanned: 0,
            back_off: BackOff::new(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }
}

impl Watch {
    /// The next event. Connects, and connects again, as needed; an error is a refusal by the service.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.heard().await? {
                return Ok(event);
            }
        }
    }

    /// The next event, or none: then the events so far are all of one snapshot, and nothing that was written together
    /// with them is still to come. A snapshot is that by itself.
    pub async fn heard(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.take_event()? {
                self.back_off.reset();
                return Ok(event);
            }
            if let Err(error) = self.fill().await {
                match error {
                    Error::Problem(problem) if problem.status != 503 => return Err(Error::Problem(problem)),
                    Error::Address(_) | Error::Files(_) | Error::Tls(_) | Error::Unexpected { .. } => {
                        return Err(error);
                    }
                    _ => self.wait_before_retry().await,
                }
            }
        }
    }

    /// Only the values of this node.
    pub fn of_node(mut self, node: NodeName) -> Self {
        self.node = Some(node);
        self
    }

    /// Names that match these patterns as well.
    pub fn patterns(mut self, patterns: Vec<NamePattern>) -> Self {
        self.patterns = patterns;
        self
    }

    /// Only the values of nodes with these labels.
    pub fn of_nodes(mut self, selector: Selector) -> Self {
        self.nodes = Some(selector);
        self
    }

    /// Only this part of each value. A value without it is not there: it is left out of snapshots, and a change
    /// to it is a [`Event::Delete`].
    pub fn field(mut self, field: Pointer) -> Self {
        self.field = Some(field);
        self
    }

    /// Starts where another watch ended.
    pub fn resume_from(mut self, id: impl Into<String>) -> Self {
        self.last_id = Some(id.into());
        self
    }

    async fn wait_before_retry(&mut self) {
        (self.response, self.buffer, self.scanned) = (None, BytesMut::new(), 0);
        tokio::time::sleep(self.back_off.pause()).await;
    }

    fn url(&self) -> Url {
        let names = name_list(&self.names, &self.patterns);
        let nodes = self.nodes.as_ref().map(Selector::to_string);
        let mut pairs = vec![("dataName", names.as_str())];
        pairs.extend(self.node.as_ref().map(|node| ("dataNode", node.as_str())));
        pairs.extend(nodes.as_ref().map(|nodes| ("nodes", nodes.as_str())));
        pairs.extend(self.field.as_ref().map(|field| ("field", field.as_str())));
        self.client.url(&["api", "data", "watch"], &pairs)
    }

    /// Reads more bytes, over a new connection if there is none.
    async fn fill(&mut self) -> Result<(), Error> {
        let first = self.url();
        let service = self.client.services().nth(self.service).unwrap_or(&self.client).clone();
        let url = service.rebased(&self.client, &first);
        let lost = |cause: String| Error::Unreachable { url: url.to_string(), cause };
        let response = match &mut self.response {
            Some(response) => response,
            None => {
                // The client's own deadlines are for requests that end; this one has only that of silence.
                let mut request =
                    service.http.client().get(url.clone()).header(header::ACCEPT, "text/event-stream");
                if let Some(id) = &self.last_id {
                    request = request.header("Last-Event-ID", id);
                }
                let response = request.send().await.map_err(|e| service.no_answer(url.to_string(), &e));
                let response = match response {
                    Ok(response) => accepted(response).await,
                    Err(error) => Err(error),
                };
                let services = self.client.services().count();
                if let Err(error) = &response
                    && error.is_for_another()
                {
                    self.service = (self.service + 1) % services;
                    // Without another one the answer is the same again.
                    if error.status() == Some(404) && self.service != 0 {
                        return Ok(());
                    }
                }
                (self.buffer, self.scanned) = (BytesMut::new(), 0);
                self.response.insert(response?)
            }
        };
        match tokio::time::timeout(SILENCE, response.chunk()).await {
            Ok(Ok(Some(chunk))) => self.buffer.extend_from_slice(&chunk),
            Ok(Ok(None)) => return Err(lost("the stream ended".to_owned())),
            Ok(Err(e)) => return Err(lost(chain(&e))),
            Err(_) => return Err(lost("the stream went silent".to_owned())),
        }
        match self.buffer.len() > MAX_EVENT_BYTES {
            true => Err(Error::Unexpected { url: url.to_string(), cause: "an endless event".to_owned() }),
            false => Ok(()),
        }
    }

    /// Takes the next whole event out of the buffer; `settled`, which says that a snapshot is complete, is an inner
    /// none. Comments and unknown events are passed over.
    fn take_event(&mut self) -> Result<Option<Option<Event>>, Error> {
        while let Some(end) = find_blank_line(&self.buffer, &mut self.scanned) {
            let block = self.buffer.split_to(end + 2).freeze();
            self.scanned = 0;
            if block.starts_with(SETTLED) {
                return Ok(Some(None));
            }
            let block = Block::parse(&block);
            let read = match block.event.as_str() {
                "snapshot" => serde_json::from_slice::<Snapshot>(&block.data).map(Event::from),
                "change" => serde_json::from_slice::<Value>(&block.data).map(|v| Event::Change(Box::new(v))),
                "delete" => serde_json::from_slice::<Gone>(&block.data).map(Event::from),
                "settled" => return Ok(Some(None)),
                _ => continue,
            };
            let event = read.map_err(|e| Error::Unexpected {
                url: self.client.base.to_string(),
                cause: format!("event `{}`: {e}", block.event),
            })?;
            if let Some(id) = block.id {
                self.last_id = Some(id);
            }
            return Ok(Some(Some(event)));
        }
        Ok(None)
    }
}

async fn accepted(response: reqwest::Response) -> Result<reqwest::Response, Error> {
    if response.status().is_success() {
        return Ok(response);
    }
    let (url, status) = (response.url().to_string(), response.status());
    let body = response.bytes().await.unwrap_or_default();
    Err(match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => Error::Problem(Box::new(problem)),
        Err(_) => Error::Unexpected { url, cause: format!("status {status}") },
    })
}

/// A large event arrives in many pieces; each byte is looked at once.
fn find_blank_line(buffer: &[u8], scanned: &mut usize) -> Option<usize> {
    let found = buffer[*scanned..].windows(2).position(|pair| pair == b"\n\n").map(|at| *scanned + at);
    *scanned = buffer.len().saturating_sub(1);
    found
}

#[derive(Deserialize)]
struct Snapshot {
    revision: u64,
    reason: String,
    values: Vec<Value>,
}

impl From<Snapshot> for Event {
    fn from(Snapshot { revision, reason, values }: Snapshot) -> Self {
        Event::Snapshot { revision, reason, values }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gone {
    data_name: DataName,
    node_name: NodeName,
    revision: u64,
}

impl From<Gone> for Event {
    fn from(Gone { data_name, node_name, revision }: Gone) -> Self {
        Event::Delete { data_name, node_name, revision }
    }
}

/// The lines of one event.
#[derive(Default)]
struct Block {
    id: Option<String>,
    event: String,
    data: Vec<u8>,
}

impl Block {
    fn parse(block: &Bytes) -> Self {
        let mut parsed = Block::default();
        for line in block.split(|b| *b == b'\n') {
            let (name, value) = match line.iter().position(|b| *b == b':') {
                Some(colon) => (&line[..colon], &line[colon + 1..]),
                None => (line, &[][..]),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            let text = || String::from_utf8_lossy(value).into_owned();
            match name {
                b"id" => parsed.id = Some(text()),
                b"event" => parsed.event = text(),
                b"data" => parsed.data.extend_from_slice(value),
                _ => {}
            }
        }
        parsed
    }
}
