//! Server-sent events over a connection that is made again from where it broke off.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header;
use url::Url;

use crate::{Client, Error, chain};
use estimand_api::problem::Problem;
use estimand_runtime::BackOff;

/// The pauses before it connects again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Longer than the pause in which the service sends a comment to show that it is there.
const SILENCE: Duration = Duration::from_secs(40);
/// The longest event: a snapshot of very many values.
const MAX_EVENT_BYTES: usize = 1 << 30;

/// The events of one URL.
#[derive(Debug)]
pub(crate) struct EventStream {
    client: Client,
    /// The id of the last event that was read, after which it goes on.
    pub last_id: Option<String>,
    response: Option<reqwest::Response>,
    /// The place of the service that is asked, among those of the client.
    service: usize,
    buffer: BytesMut,
    /// Up to where the buffer is known to have no end of an event.
    scanned: usize,
    back_off: BackOff,
}

impl EventStream {
    pub fn new(client: Client) -> Self {
        EventStream {
            client,
            last_id: None,
            response: None,
            service: 0,
            buffer: BytesMut::new(),
            scanned: 0,
            back_off: BackOff::new(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }

    /// The lines of the next event or comment. Connects, and connects again, as needed; an error is a refusal by the
    /// service.
    pub async fn next(&mut self, url: &Url) -> Result<Bytes, Error> {
        loop {
            if let Some(end) = find_blank_line(&self.buffer, &mut self.scanned) {
                self.scanned = 0;
                self.back_off.reset();
                return Ok(self.buffer.split_to(end + 2).freeze());
            }
            if let Err(error) = self.fill(url).await {
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

    async fn wait_before_retry(&mut self) {
        (self.response, self.buffer, self.scanned) = (None, BytesMut::new(), 0);
        tokio::time::sleep(self.back_off.pause()).await;
    }

    /// Reads more bytes, over a new connection if there is none.
    async fn fill(&mut self, first: &Url) -> Result<(), Error> {
        let service = self.client.services().nth(self.service).unwrap_or(&self.client).clone();
        let url = service.rebased(&self.client, first);
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

/// The lines of one event.
#[derive(Default)]
pub(crate) struct Block {
    pub id: Option<String>,
    pub event: String,
    pub data: Vec<u8>,
}

impl Block {
    pub fn parse(block: &Bytes) -> Self {
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
