//! Tasks: the task service's part of the client, for people and for agents.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::{Client, Error, Payload, Repeat};
use estimand_api::headers::IDEMPOTENCY_KEY_HEADER;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::task::TaskNews;
use estimand_api::task_log::{TaskLogPage, TaskStream};
use estimand_api::task_record::{NodeCapacity, TaskPage, TaskRecord};
use estimand_api::task_stop::StopRequest;
use estimand_api::task_usage::UsageReport;

/// A selection of tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskQuery {
    /// With commas between several; all if empty.
    pub states: String,
    /// A selector of labels; all if empty.
    pub labels: String,
    pub user: Option<String>,
    /// Only those of this array.
    pub array: Option<String>,
    /// Those that were submitted before this one.
    pub before: Option<String>,
    pub limit: Option<u32>,
}

/// A piece of a log.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// The number of the first line.
    pub from: u64,
    pub stream: Option<TaskStream>,
    pub attempt: Option<u32>,
    /// An instant, or how long ago.
    pub since: Option<String>,
    pub until: Option<String>,
    /// A text that is in the lines.
    pub contains: Option<String>,
    /// So many of the last ones.
    pub tail: Option<u32>,
    pub limit: Option<u32>,
    /// The revision of the unfinished lines that are known: the answer comes also when they are others.
    pub open: Option<u64>,
    /// How long the service may take until there is a line.
    pub wait: Duration,
}

impl Client {
    /// Submits a task or an array. Sent again with the same key it is the same task, so it is sent until there is an answer. The hint
    /// says why no node can take it.
    pub async fn submit_task(
        &self,
        document: &Map<String, Value>,
        key: &str,
    ) -> Result<(TaskRecord, Option<String>), Error> {
        self.submit_to(&[], document, key).await
    }

    /// Submits a task on behalf of a user: it is theirs, takes from their shares, and has at most their highest priority. For operators
    /// and schedulers.
    pub async fn submit_task_on_behalf(
        &self,
        user: &str,
        document: &Map<String, Value>,
        key: &str,
    ) -> Result<(TaskRecord, Option<String>), Error> {
        self.submit_to(&[("behalf", user)], document, key).await
    }

    async fn submit_to(
        &self,
        query: &[(&str, &str)],
        document: &Map<String, Value>,
        key: &str,
    ) -> Result<(TaskRecord, Option<String>), Error> {
        let wrong = |_| {
            let error = FieldError::new("Idempotency-Key", "is no key");
            Box::new(Problem::invalid_field(error.expected("visible ASCII characters")))
        };
        let key = HeaderValue::from_str(key).map_err(wrong)?;
        let body = serde_json::to_vec(document).unwrap_or_default();
        let header = Some((HeaderName::from_static(IDEMPOTENCY_KEY_HEADER), key));
        let payload = Payload { header, ..Payload::json(Bytes::from(body)) };
        let url = self.url(&["api", "tasks"], query);
        let answer = self.send_payload(Method::POST, url, Some(payload), Repeat::Safe).await?;
        Ok((self.read(&answer)?, answer.hint))
    }

    /// A page of tasks, the newest first.
    pub async fn tasks(&self, query: &TaskQuery) -> Result<TaskPage, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        pairs.extend(Some(("state", query.states.as_str())).filter(|(_, states)| !states.is_empty()));
        pairs.extend(Some(("labels", query.labels.as_str())).filter(|(_, labels)| !labels.is_empty()));
        pairs.extend(query.user.as_deref().map(|user| ("user", user)));
        pairs.extend(query.array.as_deref().map(|array| ("array", array)));
        pairs.extend(query.before.as_deref().map(|before| ("before", before)));
        pairs.extend(limit.as_deref().map(|limit| ("limit", limit)));
        let answer = self.get(self.url(&["api", "tasks"], &pairs)).await?;
        self.read(&answer)
    }

    /// One task with everything about it, or an array; the answer comes when it is over, or after `wait`, or what the deadlines here
    /// allow.
    pub async fn task(&self, id: &str, wait: Duration) -> Result<TaskRecord, Error> {
        let wait_ms = self.bounded(wait);
        let url = self.url(&["api", "tasks", id], &[("waitMs", &wait_ms)]);
        let answer = self.get(url).await?;
        self.read(&answer)
    }

    pub async fn task_log(&self, id: &str, query: &LogQuery) -> Result<TaskLogPage, Error> {
        let (from, wait_ms) = (query.from.to_string(), self.bounded(query.wait));
        let numbers = [("attempt", query.attempt), ("tail", query.tail), ("limit", query.limit)];
        let numbers = numbers.map(|(name, number)| (name, number.map(|number| number.to_string())));
        let open = query.open.map(|revision| revision.to_string());
        let texts = [
            ("since", &query.since),
            ("until", &query.until),
            ("contains", &query.contains),
            ("open", &open),
        ];
        let mut pairs = vec![("from", from.as_str()), ("waitMs", &wait_ms)];
        pairs.extend(query.stream.map(|stream| ("stream", stream.as_str())));
        let given = numbers.iter().map(|(name, text)| (*name, text)).chain(texts);
        pairs.extend(given.filter_map(|(name, text)| Some((name, text.as_deref()?))));
        let answer = self.get(self.url(&["api", "tasks", id, "logs"], &pairs)).await?;
        self.read(&answer)
    }

    /// Cancels a task in the way that it has by default.
    pub async fn cancel_task(&self, id: &str) -> Result<TaskRecord, Error> {
        self.cancel_task_so(id, StopRequest::default()).await
    }

    pub async fn cancel_task_so(&self, id: &str, request: StopRequest) -> Result<TaskRecord, Error> {
        Ok(self.stop_task(id, "cancel", request).await?.0)
    }

    /// Sends a task back to the queue. The hint says so if it waits already.
    pub async fn yield_task(
        &self,
        id: &str,
        request: StopRequest,
    ) -> Result<(TaskRecord, Option<String>), Error> {
        self.stop_task(id, "yield", request).await
    }

    async fn stop_task(
        &self,
        id: &str,
        how: &str,
        request: StopRequest,
    ) -> Result<(TaskRecord, Option<String>), Error> {
        let url = self.url(&["api", "tasks", id, how], &[]);
        let body = request.to_body().map(|body| Bytes::from(body.to_string()));
        let answer = self.send(Method::POST, url, body, Repeat::Safe).await?;
        Ok((self.read(&answer)?, answer.hint))
    }

    /// Forgets a task that is over, with its log.
    pub async fn delete_task(&self, id: &str) -> Result<(), Error> {
        let url = self.url(&["api", "tasks", id], &[]);
        self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await.map(drop)
    }

    /// The usage of the tasks that are kept, added up by `user`, `array`, or `label:NAME`.
    pub async fn task_usage(&self, by: &str) -> Result<UsageReport, Error> {
        let answer = self.get(self.url(&["api", "usage"], &[("by", by)])).await?;
        self.read(&answer)
    }

    pub async fn capacity(&self) -> Result<Vec<NodeCapacity>, Error> {
        let answer = self.get(self.url(&["api", "capacity"], &[])).await?;
        self.read(&answer)
    }

    /// An agent's report; what it says is stored when this returns.
    pub async fn report_tasks(&self, news: &TaskNews) -> Result<(), Error> {
        let url = self.url(&["api", "tasks", "news"], &[]);
        let body = serde_json::to_vec(news)
            .map_err(|e| Error::Unexpected { url: url.to_string(), cause: e.to_string() })?;
        self.send(Method::POST, url, Some(Bytes::from(body)), Repeat::Safe).await.map(drop)
    }

    /// The longest that the service may be asked to wait, so that its answer comes within the deadlines here.
    pub(crate) fn bounded(&self, wait: Duration) -> String {
        wait.min(self.options.read_timeout * 2 / 3).as_millis().to_string()
    }
}
