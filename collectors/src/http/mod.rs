//! A value behind a URL: the whole body, or what a JSON pointer leads to in it. A body may be in a format of executables.
//!
//! A collection is one GET over a fresh connection, with its redirects, within the time that it has; no more of a body
//! is read than [`MOST_READ`], however long it goes on. An answer with another status than is accepted is a failure
//! that shows its first words. A URL's user and password go to its server and are shown to nobody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use estimand_runtime::SystemTrust;
use reqwest::header::LOCATION;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::{Value, json};

use crate::blocking::BlockingRuntime;
use crate::bounds::Bounds;
use crate::{Collector, CollectorKind, Failure, Param, Params, Reading, Surroundings};

mod accept;
mod addresses;
mod page;
#[cfg(test)]
mod tests;

use accept::Accept;
use addresses::FoundAddresses;
use page::Page;

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "http",
    about: "the value at a URL, or at a JSON pointer in what is there",
    params: &[
        Param::required("url", "an address with http or https"),
        Param::optional("pointer", "where in the JSON body the value is, such as `/jobs/0/state`"),
        Param::optional("format", "the body's format, if it is not JSON: prometheus, influx, csv or logfmt"),
        Param::optional(
            "prefix",
            "with prometheus: only samples whose names begin so, such as `node_load,node_vmstat`",
        ),
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

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let url = params.required("url")?;
    let url =
        Url::parse(&url).ok().filter(is_web).ok_or("the parameter `url` is no address with http or https")?;
    let pointer = params.text("pointer").filter(|pointer| !pointer.is_empty());
    if let Some(pointer) = pointer.as_deref().filter(|pointer| !pointer.starts_with('/')) {
        return Err(format!("the parameter `pointer` is `{pointer}`; a JSON pointer begins with `/`"));
    }
    let accept = params.text("accept_status").map(|text| Accept::parse(&text)).transpose()?;
    let page = Page::of(params)?;
    let addresses = FoundAddresses::default();
    Ok(Box::new(Http {
        client: client(addresses.clone())?,
        addresses,
        bounds: around.bounds.clone(),
        url,
        pointer,
        page,
        accept: accept.unwrap_or_default(),
        runtime: BlockingRuntime::new()?,
    }))
}

fn client(addresses: FoundAddresses) -> Result<Client, String> {
    let trust = SystemTrust::client_config().map_err(|error| format!("no client: {error}"))?;
    let client = Client::builder()
        .tls_backend_preconfigured(trust)
        .no_proxy()
        // Followed here, where the address of each is looked at.
        .redirect(Policy::none())
        .dns_resolver(Arc::new(addresses))
        // A connection that was kept says nothing of how long it takes to get one.
        .pool_max_idle_per_host(0)
        .user_agent(concat!("estimand/", env!("CARGO_PKG_VERSION")));
    client.build().map_err(|error| format!("no client: {}", causes(&error)))
}

struct Http {
    client: Client,
    /// Those that the next request may go to.
    addresses: FoundAddresses,
    bounds: Bounds,
    url: Url,
    pointer: Option<String>,
    page: Option<Page>,
    accept: Accept,
    runtime: BlockingRuntime,
}

impl Collector for Http {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let begun = Instant::now();
        let body = self.runtime.wait(until, self.get(until));
        let took = begun.elapsed();
        let late = || format!("{}: no whole answer within {:.1} s", self.shown(), took.as_secs_f64());
        let (status, body) = body.unwrap_or_else(|| Err(Failure::Failed(late())))?;
        let (value, left_out) = self.value(status, &body).map_err(Failure::Failed)?;
        let mut reading = json!({
            "value": value,
            "status": status,
            "seconds": (took.as_secs_f64() * 1e6).round() / 1e6,
            "bytes": body.len(),
        });
        if let Some(left_out) = left_out {
            reading["leftOut"] = left_out.into();
        }
        Ok(Reading::Here(reading))
    }
}

impl Http {
    async fn get(&self, until: Instant) -> Result<(u16, Vec<u8>), Failure> {
        let broken = |error: reqwest::Error| format!("{}: {}", self.shown(), causes(&error.without_url()));
        let mut url = self.url.clone();
        let mut left = MOST_REDIRECTS;
        let mut response = loop {
            let response = self.ask(&url).await?;
            let Some(next) = redirected(&url, &response) else { break response };
            url = next.map_err(|why| format!("{}: {why}", self.shown()))?;
            left = left
                .checked_sub(1)
                .ok_or_else(|| format!("{}: more than {MOST_REDIRECTS} redirects", self.shown()))?;
        };
        let status = response.status().as_u16();
        if !self.accept.accepts(status) {
            let words = first_words(&mut response, until).await;
            return Err(format!("{}: status {status}, expected {}{words}", self.shown(), self.accept).into());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > MOST_READ {
                return Err(format!("{}: the body has more than {MOST_READ} bytes", self.shown()).into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, body))
    }

    /// One request, to an address that is allowed.
    async fn ask(&self, url: &Url) -> Result<Response, Failure> {
        let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(80));
        let found = self.bounds.find_addresses(host, port).await;
        self.addresses.put(found.map_err(|barrier| barrier.failure(&self.shown()))?);
        let sent = self.client.get(url.clone()).send().await;
        Ok(sent.map_err(|error| format!("{}: {}", self.shown(), causes(&error.without_url())))?)
    }

    /// The value, and a sentence about the records of the body that are left out.
    fn value(&self, status: u16, body: &[u8]) -> Result<(Value, Option<String>), String> {
        let mut left_out = None;
        let json: Result<Value, _> = match &self.page {
            None => serde_json::from_slice(body),
            Some(page) => {
                let read = page.read(body);
                let (value, sentence) = read.map_err(|why| format!("{}: {why}", self.shown()))?;
                left_out = sentence;
                Ok(value)
            }
        };
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
        Ok((value, left_out))
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

/// Where a response leads, if it does. A user and a password go to no other server.
fn redirected(from: &Url, response: &Response) -> Option<Result<Url, String>> {
    let location = response.headers().get(LOCATION).filter(|_| {
        let status = response.status();
        status.is_redirection()
            && status != StatusCode::NOT_MODIFIED
            && status != StatusCode::MULTIPLE_CHOICES
    })?;
    let to = location.to_str().ok().and_then(|location| from.join(location).ok());
    Some(match to.filter(is_web) {
        Some(mut to) => {
            if to.origin() == from.origin() && to.username().is_empty() && to.password().is_none() {
                let _ = (to.set_username(from.username()), to.set_password(from.password()));
            }
            Ok(to)
        }
        None => Err("a redirect leads to no address with http or https".to_owned()),
    })
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
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
