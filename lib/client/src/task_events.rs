//! The events of tasks: in pages, and watched. And their progress, in pages.

use std::time::Duration;

use bytes::Bytes;
use estimand_api::task_event::{TaskEvent, TaskEventPage};
use estimand_api::task_progress::TaskProgressPage;
use url::Url;

use crate::events::{Block, EventStream};
use crate::{Client, Error};

/// A selection of events; all if nothing is said.
#[derive(Debug, Clone, Default)]
pub struct TaskEventQuery {
    /// Those after this revision.
    pub after: Option<u64>,
    /// Those that lead to these states, with commas between several.
    pub states: String,
    /// A selector of the labels of their tasks.
    pub labels: String,
    pub user: Option<String>,
    /// Those of this task, or with `*` at its end of those whose ids begin so.
    pub id: Option<String>,
}

impl TaskEventQuery {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        pairs.extend(self.after.map(|after| ("after", after.to_string())));
        pairs.extend((!self.states.is_empty()).then(|| ("state", self.states.clone())));
        pairs.extend((!self.labels.is_empty()).then(|| ("labels", self.labels.clone())));
        pairs.extend(self.user.clone().map(|user| ("user", user)));
        pairs.extend(self.id.clone().map(|id| ("id", id)));
        pairs
    }

    fn url(&self, client: &Client, path: &[&str], more: &[(&'static str, String)]) -> Url {
        let pairs = self.pairs();
        let pairs: Vec<(&str, &str)> =
            pairs.iter().chain(more).map(|(name, value)| (*name, value.as_str())).collect();
        client.url(path, &pairs)
    }
}

/// A stream of events.
#[derive(Debug)]
pub struct TaskWatch {
    client: Client,
    query: TaskEventQuery,
    events: EventStream,
}

impl Client {
    /// A page of events, the oldest first; the answer comes when there is one, or after `wait`, or what the deadlines here
    /// allow.
    pub async fn task_events(
        &self,
        query: &TaskEventQuery,
        limit: u32,
        wait: Duration,
    ) -> Result<TaskEventPage, Error> {
        let more = [("limit", limit.to_string()), ("waitMs", self.bounded(wait))];
        let answer = self.get(query.url(self, &["api", "tasks", "events"], &more)).await?;
        self.read(&answer)
    }

    /// A page of how far tasks said they are, the oldest report first; so is it waited for. States are not asked for.
    pub async fn task_progress(
        &self,
        query: &TaskEventQuery,
        limit: u32,
        wait: Duration,
    ) -> Result<TaskProgressPage, Error> {
        let query = TaskEventQuery { states: String::new(), ..query.clone() };
        let more = [("limit", limit.to_string()), ("waitMs", self.bounded(wait))];
        let answer = self.get(query.url(self, &["api", "tasks", "progress"], &more)).await?;
        self.read(&answer)
    }

    /// Watches what happens to tasks, from now on or after the revision of the query.
    pub fn watch_tasks(&self, query: TaskEventQuery) -> TaskWatch {
        TaskWatch { client: self.clone(), query, events: EventStream::new(self.clone()) }
    }
}

impl TaskWatch {
    /// Has it told, once and with the address, when not even the service's sign of life comes for longer than it should.
    pub fn on_silence(mut self, tell: fn(&str)) -> Self {
        self.events.on_silence = Some(tell);
        self
    }

    /// The next event. Connects, and connects again, as needed; an error is a refusal by the service, such as that it does
    /// not keep what follows any more.
    pub async fn next(&mut self) -> Result<TaskEvent, Error> {
        loop {
            let url = self.query.url(&self.client, &["api", "tasks", "watch"], &[]);
            let block = self.events.next(&url).await?;
            if let Some(event) = self.read(&block)? {
                return Ok(event);
            }
        }
    }

    /// Reads an event. Comments and words of the watch itself are passed over, but for the revision that they tell.
    fn read(&mut self, block: &Bytes) -> Result<Option<TaskEvent>, Error> {
        let block = Block::parse(block);
        let event = match block.event.as_str() {
            "change" => Some(serde_json::from_slice(&block.data).map_err(|error| Error::Unexpected {
                url: self.client.base.to_string(),
                cause: format!("event `change`: {error}"),
            })?),
            _ => None,
        };
        if let Some(id) = block.id {
            self.events.last_id = Some(id);
        }
        Ok(event)
    }
}
