//! A value behind a URL: the whole body, or what a JSON pointer leads to in it.
//!
//! A collection is one GET over a fresh connection, with its redirects, within the time that it has; no more of a body
//! is read than [`MOST_READ`], however long it goes on. An answer with another status than is accepted is a failure
//! that shows its first words. A URL's user and password go to its server and are shown to nobody.

use std::time::{Duration, Instant};

use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde_json::{Value, json};

use crate::blocking::BlockingRuntime;
use crate::{Collector, CollectorKind, Failure, Param, Params, Reading, Surroundings};

mod accept;
#[cfg(test)]
mod tests;

use accept::Accept;

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "http",
    about: "the value at a URL, or at a JSON pointer in what is there",
    params: &[
        Param::required("url", "an address with http or https"),
        Param::optional("pointer", "where in the JSON body the value is, such as `/jobs/0/state`"),
        Param::optional(
            "accept_status",
            "codes that are no failure, such as `200,404` or `2xx` (the default)",
        ),
    ],
    default: None,
    make,
};

/// More of a body is a failure.
const MOST_READ: usize = 1024 * 1024;

/// The value must fit into what is kept of a collection, with what goes around it.
const MOST_VALUE: usize = 63 * 1024;

const MOST_REDIRECTS: usize = 5;

/// As much of a body is shown when it is not what was asked for.
const MOST_SHOWN: usize = 200;

fn make(params: &Params, _: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let url = params.required("url")?;
    let parsed =
        Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = parsed.ok_or("the parameter `url` is no address with http or https")?;
    let pointer = params.text("pointer").filter(|pointer| !pointer.is_empty());
    if let Some(pointer) = pointer.as_deref().filter(|pointer| !pointer.starts_with('/')) {
        return Err(format!("the parameter `pointer` is `{pointer}`; a JSON pointer begins with `/`"));
    }
    let accept = params.text("accept_status").map(|text| Accept::parse(&text)).transpose()?;
    Ok(Box::new(Http {
        client: client()?,
        url,
        pointer,
        accept: accept.unwrap_or_default(),
        runtime: BlockingRuntime::new()?,
    }))
}

fn client() -> Result<Client, String> {
    // The binary has chosen its provider long before; a program that uses this as a library may not have.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .no_proxy()
        .redirect(Policy::limited(MOST_REDIRECTS))
        // A connection that was kept says nothing of how long it takes to get one.
        .pool_max_idle_per_host(0)
        .user_agent(concat!("estimand/", env!("CARGO_PKG_VERSION")));
    client.build().map_err(|error| format!("no client: {}", causes(&error)))
}

struct Http {
    client: Client,
    url: Url,
    pointer: Option<String>,
    accept: Accept,
    runtime: BlockingRuntime,
}

impl Collector for Http {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let begun = Instant::now();
        let body = self.runtime.wait(until, self.get(until));
        let took = begun.elapsed();
        let late = || format!("{}: no whole answer within {:.1} s", self.shown(), took.as_secs_f64());
        let (status, body) = body.ok_or_else(late).and_then(|body| body).map_err(Failure::Failed)?;
        let value = self.value(status, &body).map_err(Failure::Failed)?;
        Ok(Reading::Here(json!({
            "value": value,
            "status": status,
            "seconds": (took.as_secs_f64() * 1e6).round() / 1e6,
            "bytes": body.len(),
        })))
    }
}

impl Http {
    async fn get(&self, until: Instant) -> Result<(u16, Vec<u8>), String> {
        let broken = |error: reqwest::Error| format!("{}: {}", self.shown(), causes(&error.without_url()));
        let mut response = self.client.get(self.url.clone()).send().await.map_err(broken)?;
        let status = response.status().as_u16();
        if !self.accept.accepts(status) {
            let words = first_words(&mut response, until).await;
            return Err(format!("{}: status {status}, expected {}{words}", self.shown(), self.accept));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > MOST_READ {
                return Err(format!("{}: the body has more than {MOST_READ} bytes", self.shown()));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, body))
    }

    fn value(&self, status: u16, body: &[u8]) -> Result<Value, String> {
        let json: Result<Value, _> = serde_json::from_slice(body);
        let value = match (&self.pointer, json) {
            (Some(pointer), Ok(json)) => json.pointer(pointer).cloned().ok_or_else(|| {
                format!("{}: nothing at `{pointer}` in the answer (status {status})", self.shown())
            })?,
            (Some(_), Err(error)) => {
                return Err(format!("{}: the answer is no JSON: {error}{}", self.shown(), beginning(body)));
            }
            (None, Ok(json)) => json,
            (None, Err(_)) => Value::String(String::from_utf8_lossy(body).into_owned()),
        };
        let size = value.to_string().len();
        if size > MOST_VALUE {
            let hint = if self.pointer.is_none() { "; a `pointer` takes a part of it" } else { "" };
            return Err(format!(
                "{}: the value has {size} bytes, more than {MOST_VALUE}{hint}",
                self.shown()
            ));
        }
        Ok(value)
    }

    /// The address without its user, password and query, which may be secrets.
    fn shown(&self) -> String {
        let mut url = self.url.clone();
        let _ = (url.set_username(""), url.set_password(None));
        url.set_query(None);
        url.set_fragment(None);
        url.to_string()
    }
}

/// A moment is given to the words of a refusal; it is told in any case.
async fn first_words(response: &mut Response, until: Instant) -> String {
    let a_moment = Duration::from_secs(1).min(until.saturating_duration_since(Instant::now()) / 2);
    let mut body = Vec::new();
    let _ = tokio::time::timeout(a_moment, async {
        while body.len() < MOST_SHOWN {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                _ => break,
            }
        }
    })
    .await;
    beginning(&body)
}

fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MOST_SHOWN)]);
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() { String::new() } else { format!(": {}", words.join(" ")) }
}

/// An error with its causes, each said once.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
