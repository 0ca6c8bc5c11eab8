//! Promises of capacity: the part of the client for those who plan ahead.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;

use crate::{Client, Error, Payload, Repeat};
use estimand_api::headers::IDEMPOTENCY_KEY_HEADER;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::promise::{
    CapacityTimeline, PromiseBatch, PromisePage, PromiseRecord, PromiseReleases, PromiseResize, PromisesMade,
    PromisesReleased,
};

/// A part of the timeline.
#[derive(Debug, Clone, Default)]
pub struct TimelineQuery {
    /// None: all classes.
    pub class: Option<String>,
    /// None: from now on.
    pub from: Option<u64>,
    pub until: u64,
    /// How many ticks each number stands for.
    pub step: u64,
}

impl Client {
    pub async fn capacity_timeline(&self, query: &TimelineQuery) -> Result<CapacityTimeline, Error> {
        let (until, step) = (query.until.to_string(), query.step.max(1).to_string());
        let from = query.from.map(|from| from.to_string());
        let mut pairs = vec![("until", until.as_str()), ("step", step.as_str())];
        pairs.extend(from.as_deref().map(|from| ("from", from)));
        pairs.extend(query.class.as_deref().map(|class| ("class", class)));
        let answer = self.get(self.url(&["api", "capacity", "timeline"], &pairs)).await?;
        self.read(&answer)
    }

    /// Has all of these promised, or none. Sent again with the same key they are the same promises, so it is sent until there
    /// is an answer. A refusal is a problem that has `room`.
    pub async fn promise(&self, batch: &PromiseBatch, key: &str) -> Result<PromisesMade, Error> {
        let wrong = |_| {
            let error = FieldError::new("Idempotency-Key", "is no key");
            Box::new(Problem::invalid_field(error.expected("visible ASCII characters")))
        };
        let key = HeaderValue::from_str(key).map_err(wrong)?;
        let body = Value::Object(batch.to_map()).to_string();
        let header = Some((HeaderName::from_static(IDEMPOTENCY_KEY_HEADER), key));
        let payload = Payload { header, ..Payload::json(Bytes::from(body)) };
        let url = self.url(&["api", "capacity", "promises"], &[]);
        let answer = self.send_payload(Method::POST, url, Some(payload), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// The promises that changed after a revision, in that order; the answer comes when there is one, or after `wait`, or
    /// what the deadlines here allow.
    pub async fn promises(&self, after: u64, limit: u32, wait: Duration) -> Result<PromisePage, Error> {
        let (after, limit, wait_ms) = (after.to_string(), limit.to_string(), self.bounded(wait));
        let pairs = [("after", after.as_str()), ("limit", &limit), ("waitMs", &wait_ms)];
        let answer = self.get(self.url(&["api", "capacity", "promises"], &pairs)).await?;
        self.read(&answer)
    }

    /// The same at once, also if promises that changed after the revision are not kept any more: a page of all there are.
    pub async fn promises_with_gaps(&self, after: u64, limit: u32) -> Result<PromisePage, Error> {
        let (after, limit) = (after.to_string(), limit.to_string());
        let mut pairs = vec![("after", after.as_str()), ("limit", &limit)];
        // Services of before know no other pages than those that follow without a gap.
        pairs.extend((after != "0").then_some(("gaps", "true")));
        let answer = self.get(self.url(&["api", "capacity", "promises"], &pairs)).await?;
        self.read(&answer)
    }

    /// All promises in these states, with commas between them; all there are if empty.
    pub async fn all_promises(&self, states: &str) -> Result<PromisePage, Error> {
        let mut all = PromisePage::default();
        loop {
            let after = all.next.to_string();
            let mut pairs = vec![("after", after.as_str()), ("limit", "1000")];
            pairs.extend(Some(("state", states)).filter(|(_, states)| !states.is_empty()));
            let answer = self.get(self.url(&["api", "capacity", "promises"], &pairs)).await?;
            let page: PromisePage = self.read(&answer)?;
            let is_last = page.next >= page.revision;
            (all.next, all.revision) = (page.next, page.revision);
            all.promises.extend(page.promises);
            if is_last {
                return Ok(all);
            }
        }
    }

    pub async fn promise_of(&self, id: &str) -> Result<PromiseRecord, Error> {
        let answer = self.get(self.url(&["api", "capacity", "promises", id], &[])).await?;
        self.read(&answer)
    }

    /// Gives a promise another end, or another window and width.
    pub async fn resize_promise(&self, id: &str, to: &PromiseResize) -> Result<PromiseRecord, Error> {
        let url = self.url(&["api", "capacity", "promises", id, "resize"], &[]);
        let body = serde_json::to_vec(to).unwrap_or_default();
        let answer = self.send(Method::POST, url, Some(Bytes::from(body)), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Gives promises back in one step; those that are over or not known are passed over.
    pub async fn release_promises(&self, ids: Vec<String>) -> Result<PromisesReleased, Error> {
        let url = self.url(&["api", "capacity", "releases"], &[]);
        let body = serde_json::to_vec(&PromiseReleases { ids }).unwrap_or_default();
        let answer = self.send(Method::POST, url, Some(Bytes::from(body)), Repeat::Safe).await?;
        self.read(&answer)
    }
}
