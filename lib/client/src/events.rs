//! Server-sent events over a connection that is made again from where it broke off.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header;
use tokio::time::timeout;
use url::Url;

use crate::{Client, Error, Options, chain};
use estimand_api::problem::Problem;
use estimand_runtime::BackOff;

/// The pauses before it connects again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Longer than the pause in which the service sends a comment to show that it is there.
const QUIET: Duration = Duration::from_secs(20);
/// So long a silence ends a connection.
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
    /// The client of that service, whose deadline for the next byte is that of a stream.
    patient: Option<(usize, Client)>,
    buffer: BytesMut,
    /// Up to where the buffer is known to have no end of an event.
    scanned: usize,
    back_off: BackOff,
    /// Called once, with the address, when nothing has come for longer than the service ever is silent.
    pub on_silence: Option<fn(&str)>,
}

impl EventStream {
    pub fn new(client: Client) -> Self {
        EventStream {
            client,
            last_id: None,
            response: None,
            service: 0,
            patient: None,
            buffer: BytesMut::new(),
            scanned: 0,
            back_off: BackOff::new(FIRST_PAUSE, LONGEST_PAUSE),
            on_silence: None,
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
            if let Err(error) = self.heard(url).await {
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

    /// Reads more bytes; gives a connection up over which none come.
    async fn heard(&mut self, url: &Url) -> Result<(), Error> {
        let tell = self.on_silence;
        let address = self.client.address().to_string();
        let mut is_told = false;
        // On the heap, or everything that watches would be large.
        let filling = Box::pin(self.fill(url));
        let filled = unless_silent(filling, || {
            is_told = true;
            tell.into_iter().for_each(|tell| tell(&address));
        })
        .await;
        if is_told {
            self.on_silence = None;
        }
        filled.unwrap_or_else(|| {
            Err(Error::Unreachable { url: url.to_string(), cause: "the stream went silent".to_owned() })
        })
    }

    /// The client's own deadlines are for requests that end; a stream has only that of silence, which is not its client's.
    fn patient(&mut self) -> Result<Client, Error> {
        if let Some((place, patient)) = &self.patient
            && *place == self.service
        {
            return Ok(patient.clone());
        }
        let service = self.client.services().nth(self.service).unwrap_or(&self.client);
        let options = Options { read_timeout: 2 * SILENCE, ..service.options.clone() };
        let patient = Client::with_options(service.base.as_str(), options)?;
        self.patient = Some((self.service, patient.clone()));
        Ok(patient)
    }

    /// Reads more bytes, over a new connection if there is none.
    async fn fill(&mut self, first: &Url) -> Result<(), Error> {
        let service = self.patient()?;
        let url = service.rebased(&self.client, first);
        let lost = |cause: String| Error::Unreachable { url: url.to_string(), cause };
        let response = match &mut self.response {
            Some(response) => response,
            None => {
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
        match response.chunk().await {
            Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
            Ok(None) => return Err(lost("the stream ended".to_owned())),
            Err(e) => return Err(lost(chain(&e))),
        }
        match self.buffer.len() > MAX_EVENT_BYTES {
            true => Err(Error::Unexpected { url: url.to_string(), cause: "an endless event".to_owned() }),
            false => Ok(()),
        }
    }
}

/// The outcome of a read; none if it takes too long. `tell` is called when it takes longer than the service ever is silent.
async fn unless_silent<T>(reading: impl Future<Output = T>, tell: impl FnOnce()) -> Option<T> {
    let mut reading = pin!(reading);
    if let Ok(read) = timeout(QUIET, reading.as_mut()).await {
        return Some(read);
    }
    tell();
    timeout(SILENCE - QUIET, reading).await.ok()
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

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    /// Says if a silence of so many seconds was told, and when the connection was given up.
    async fn silence_of(seconds: u64) -> (bool, Option<u64>) {
        let began = Instant::now();
        let mut is_told = false;
        let read = unless_silent(sleep(Duration::from_secs(seconds)), || is_told = true).await;
        (is_told, read.is_none().then(|| began.elapsed().as_secs()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_longer_than_the_services_is_told_before_the_connection_is_given_up() {
        assert_eq!(silence_of(15).await, (false, None));
        assert_eq!(silence_of(25).await, (true, None));
        assert_eq!(silence_of(60).await, (true, Some(40)));
    }
}
