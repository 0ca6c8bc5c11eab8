//! A receiver of OTLP/HTTP: requests in protobuf, sent again for as long as OTLP says that this makes sense.

use std::time::Duration;

use anyhow::Context as _;
use estimand_otlp::messages::ExportMetricsServiceRequest;
use estimand_otlp::{Encoding, Message as _, refused, taken};
use estimand_runtime::{BackOff, SystemTrust};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url};
use tokio::time::{Instant, sleep, sleep_until};

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a batch is tried, and the longest time for which a receiver can ask for a pause.
const TRY_FOR: Duration = Duration::from_secs(60);
const LONGEST_REST: Duration = Duration::from_secs(3600);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How much of an answer is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    #[error("{to} does not answer: {cause}")]
    NoAnswer { to: String, cause: String },
    #[error("{to} does not take metrics now: it answered with status {status}{reason}")]
    Busy { to: String, status: StatusCode, reason: String },
    #[error("{to} refuses metrics: it answered with status {status}{reason}")]
    Refused { to: String, status: StatusCode, reason: String },
}

/// The outcome of a batch that need not be sent again.
pub enum Sent {
    Taken,
    Refused(ReceiverError),
}

pub struct Receiver {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    /// Its address without what may be secret.
    shown: String,
    /// It asked for nothing to be sent before.
    rests_until: Option<Instant>,
    /// It took nothing the last time.
    is_failing: bool,
    /// Its last words about points that it left out.
    has_said: String,
}

impl Receiver {
    pub fn new(to: &str, headers: &[String]) -> anyhow::Result<Self> {
        let url =
            Url::parse(to).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        // It may have a password, so it is not repeated.
        let mut url = url.context("--to: the address is not valid; expected such as http://HOST:4318")?;
        if !url.path().ends_with("/v1/metrics")
            && let Ok(mut path) = url.path_segments_mut()
        {
            path.pop_if_empty().extend(["v1", "metrics"]);
        }
        let host = url.host_str().unwrap_or_default();
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        let shown = format!("{}://{host}{port}{}", url.scheme(), url.path());
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(SystemTrust::client_config()?)
            .timeout(ANSWER_WITHIN)
            .redirect(reqwest::redirect::Policy::none());
        let http = http.build().context("the HTTP client of the receiver")?;
        Ok(Receiver {
            http,
            url,
            headers: parse_headers(headers)?,
            shown,
            rests_until: None,
            is_failing: false,
            has_said: String::new(),
        })
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Sends a batch until it is taken or refused. The error says why it is neither after a minute.
    pub async fn send(&mut self, request: &ExportMetricsServiceRequest) -> Result<Sent, ReceiverError> {
        let body = request.encode_to_vec();
        if let Some(until) = self.rests_until.take() {
            sleep_until(until).await;
        }
        let (mut back_off, began) = (BackOff::new(FIRST_PAUSE, LONGEST_PAUSE), Instant::now());
        loop {
            let (error, rest) = match self.send_once(&body).await {
                Ok(answer) if answer.status().is_success() => {
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("{} takes metrics again", self.shown);
                    }
                    self.tell_what_was_left_out(answer).await;
                    return Ok(Sent::Taken);
                }
                Ok(answer) => {
                    let (status, rest) = (answer.status(), rest(&answer));
                    let reason = reason(answer).await;
                    let to = self.shown.clone();
                    if !is_passing(status) {
                        return Ok(Sent::Refused(ReceiverError::Refused { to, status, reason }));
                    }
                    (ReceiverError::Busy { to, status, reason }, rest)
                }
                Err(error) => (error, None),
            };
            let pause = back_off.pause().max(rest.unwrap_or_default());
            if began.elapsed() + pause > TRY_FOR {
                self.rests_until = rest.map(|rest| Instant::now() + rest);
                return Err(error);
            }
            match std::mem::replace(&mut self.is_failing, true) {
                false => tracing::warn!(%error, ?pause, "metrics are sent again"),
                true => tracing::debug!(%error, ?pause, "metrics are sent again"),
            }
            sleep(pause).await;
        }
    }

    async fn send_once(&self, body: &[u8]) -> Result<Response, ReceiverError> {
        let request = self.http.post(self.url.clone()).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, Encoding::Protobuf.media_type()).body(body.to_vec());
        let no_answer = |error: reqwest::Error| ReceiverError::NoAnswer {
            to: self.shown.clone(),
            cause: chain(&error.without_url()),
        };
        request.send().await.map_err(no_answer)
    }

    async fn tell_what_was_left_out(&mut self, answer: Response) {
        let Some((points, said)) = taken(&body_of(answer).await) else { return };
        if self.has_said != said {
            tracing::warn!(points, "{} left points out: {}", self.shown, shorten(&said));
            self.has_said = said;
        }
    }
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The statuses after which OTLP has a client send again.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// How long the receiver wants to be left alone. A date is none of the seconds that OTLP's servers say.
fn rest(answer: &Response) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_REST))
}

async fn reason(answer: Response) -> String {
    let is_status =
        answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == Encoding::Protobuf.media_type());
    let body = body_of(answer).await;
    let text = match is_status {
        true => refused(&body).unwrap_or_default(),
        false => String::from_utf8_lossy(&body).trim().to_owned(),
    };
    if text.is_empty() { String::new() } else { format!(": {}", shorten(&text)) }
}

/// As much of the body as is read.
async fn body_of(mut answer: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER_BYTES
        && let Ok(Some(piece)) = answer.chunk().await
    {
        body.extend_from_slice(&piece[..piece.len().min(MAX_ANSWER_BYTES - body.len())]);
    }
    body
}

fn shorten(text: &str) -> String {
    estimand_api::problem::shorten(text)
}

/// Headers as OTLP's variable has them: `name=value`, with `%20` for a blank.
fn parse_headers(given: &[String]) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for one in given.iter().map(|one| one.trim()).filter(|one| !one.is_empty()) {
        // A value may be secret, so it is not repeated.
        let (name, value) =
            one.split_once('=').context("--header: a header has no `=`; expected NAME=VALUE")?;
        let name = name.trim();
        let wrong = || format!("--header: `{}` is no header, or its value is none", shorten(name));
        let value = decoded(value.trim()).with_context(wrong)?;
        let mut value = HeaderValue::from_bytes(&value).with_context(wrong)?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).with_context(wrong)?, value);
    }
    Ok(headers)
}

/// The bytes of a text in which `%` and two digits are a byte; none if they are not.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                *hex::decode(digits).ok()?.first()?
            }
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_otlp_and_nothing_secret_is_shown() {
        // As `main` does; another test may have done it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        for (given, expected) in [
            ("http://host:4318", "http://host:4318/v1/metrics"),
            ("http://host:4318/", "http://host:4318/v1/metrics"),
            ("https://me:secret@host/api/v1/otlp/?key=secret", "https://host/api/v1/otlp/v1/metrics"),
            ("http://host/v1/metrics", "http://host/v1/metrics"),
        ] {
            assert_eq!(Receiver::new(given, &[]).unwrap().shown(), expected);
        }
        for wrong in ["host:4318", "file:///secret", "grpc://secret@host"] {
            let said = format!("{:#}", Receiver::new(wrong, &[]).err().unwrap());
            assert!(said.contains("http://HOST:4318") && !said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn headers_are_read_as_the_variable_has_them() {
        let headers = parse_headers(&[
            "authorization=Bearer%20a=b".to_owned(),
            " x-scope = 1 ".to_owned(),
            String::new(),
        ])
        .unwrap();
        assert_eq!(
            (&headers["authorization"], &headers["x-scope"]),
            (&HeaderValue::from_static("Bearer a=b"), &HeaderValue::from_static("1"))
        );
        for wrong in ["secret", "a b=secret", "a=secret%2", "a=secret%zz", "a=secret%0a"] {
            let said = format!("{:#}", parse_headers(&[wrong.to_owned()]).unwrap_err());
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
