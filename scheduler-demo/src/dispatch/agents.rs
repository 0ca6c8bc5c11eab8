//! Work through the plane itself: parts are values, workers are registrations, progress is watched.
//!
//! Agents start, supervise and end the workers, as they do with anything registered; nothing is asked of the plane
//! that others could not ask. What was made is ended again by [`Dispatch::stop`], also when `start` was given up in
//! the middle: a registration is ended only if it carries this run's mark, since its name may be another's.

use std::time::{Duration, Instant};

use estimand_api::names::{DataName, NodeName};
use estimand_api::slot::Instance;
use estimand_api::value::{State, Value};
use estimand_api::write::Write;
use estimand_client::{self as client, Client, Query, Watch};
use serde_json::Value as Json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Dispatch, Error, Event, Parts};
use crate::job::{Job, Progress};

/// Whoever watches waits while this many events are unheard.
const UNHEARD: usize = 256;
/// What agents had sent already may arrive after the end of the registration.
const CLEAN_PAUSE: Duration = Duration::from_millis(50);
const CLEAN_ATTEMPTS: u32 = 100;

/// Runs jobs through the agents of a plane.
pub struct ThroughAgents {
    client: Client,
    began: Instant,
    /// Tells what this run registered from what others did.
    mark: String,
    /// What was registered, or may have been.
    work: Vec<DataName>,
    part: Option<DataName>,
    events: Option<mpsc::Receiver<Result<Event, Error>>>,
    /// The watch, which ends with this.
    watching: JoinSet<()>,
}

impl ThroughAgents {
    /// `mark` has to be another one for every run.
    pub fn new(client: Client, mark: String) -> Self {
        ThroughAgents {
            client,
            began: Instant::now(),
            mark,
            work: Vec::new(),
            part: None,
            events: None,
            watching: JoinSet::new(),
        }
    }

    async fn register(&mut self, job: &Job) -> Result<(), Error> {
        for group in &job.groups {
            let name = job.names.work_of(group)?;
            let registration = job.registration(group, &self.mark)?;
            // Noted before: if this is given up in the middle, it may be registered all the same.
            self.work.push(name.clone());
            match self.client.register_map(registration).await {
                Err(error) if error.status() == Some(409) && !self.is_mine(&name).await? => {
                    self.work.pop();
                    return Err(Error::Taken { name: name.to_string() });
                }
                // A first try may have been taken although nothing was heard of it.
                Err(error) if error.status() == Some(409) => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    async fn is_mine(&self, name: &DataName) -> Result<bool, client::Error> {
        match self.client.registration(name).await {
            Ok(found) => Ok(found.registration.params.get("run").and_then(Json::as_str) == Some(&self.mark)),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn watch(&mut self) {
        let (tell, events) = mpsc::channel(UNHEARD);
        let watch = self.client.watch(self.work.clone());
        self.watching.spawn(follow(watch, tell));
        self.events = Some(events);
    }

    /// Deletes the values of a name of which nothing gives any more, until none come again.
    async fn clean(&self, name: &DataName) -> Result<(), Error> {
        for _ in 0..CLEAN_ATTEMPTS {
            self.client.delete(name, None).await?;
            sleep(CLEAN_PAUSE).await;
            if self.client.values(&Query::of(name.clone())).await?.0.is_empty() {
                return Ok(());
            }
        }
        Err(Error::Left { name: name.to_string() })
    }
}

impl Dispatch for ThroughAgents {
    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    async fn start(&mut self, job: &Job) -> Result<(), Error> {
        self.register(job).await?;
        // What a scheduler that was killed may have left; the names are this one's from now on. A worker that has
        // said something already says it again.
        let part = job.names.part().clone();
        for name in self.work.iter().chain([&part]) {
            self.client.delete(name, None).await?;
        }
        self.part = Some(part);
        self.watch();
        Ok(())
    }

    async fn write(&mut self, parts: &Parts) -> Result<(), Error> {
        let Some(name) = &self.part else { return Ok(()) };
        let mut writes = Vec::with_capacity(parts.len());
        for (node, part) in parts {
            let value = serde_json::to_value(part).unwrap_or_default();
            writes.push(Write::plain(name.clone(), NodeName::parse(node)?, &value));
        }
        self.client.write_batch(&writes).await?;
        Ok(())
    }

    async fn next(&mut self, until: f64) -> Result<Option<Event>, Error> {
        let deaf = || Error::Deaf { name: self.work.first().map(DataName::to_string).unwrap_or_default() };
        let left = Duration::from_secs_f64((until - self.now()).clamp(0.0, 86_400.0));
        let Some(events) = &mut self.events else { return Err(deaf()) };
        match timeout(left, events.recv()).await {
            Err(_) => Ok(None),
            Ok(None) => Err(deaf()),
            Ok(Some(event)) => event.map(Some),
        }
    }

    async fn look(&mut self, node: &str) -> Result<Option<Event>, Error> {
        let node = NodeName::parse(node)?;
        let query = Query { names: self.work.clone(), node: Some(node.clone()), ..Query::default() };
        let (values, _) = self.client.values(&query).await?;
        if let Some(value) = values.iter().max_by_key(|value| value.collected_at) {
            return Ok(events_of(value).into_iter().last());
        }
        // It never said anything: its agent may know why.
        for name in &self.work {
            let instances = self.client.instances(Some(name), query.node.as_ref()).await?;
            if let Some(why) = instances.iter().find_map(Instance::trouble) {
                return Ok(Some(Event::Trouble { node: node.to_string(), why }));
            }
        }
        Ok(None)
    }

    async fn stop(&mut self) -> Result<Option<String>, Error> {
        self.watching.abort_all();
        self.events = None;
        let mut hints = Vec::new();
        // What is left to do stays noted, so that this can be tried again.
        while let Some(name) = self.work.last().cloned() {
            let is_mine = self.is_mine(&name).await?;
            if is_mine {
                match self.client.unregister(&name).await {
                    Err(error) if error.status() == Some(404) => {}
                    answer => hints.extend(answer?),
                }
            }
            if is_mine || self.part.is_some() {
                self.clean(&name).await?;
            }
            self.work.pop();
        }
        if let Some(part) = &self.part {
            self.clean(part).await?;
            self.part = None;
        }
        Ok((!hints.is_empty()).then(|| hints.join("; ")))
    }
}

/// Tells what is watched, until nobody listens.
async fn follow(mut watch: Watch, tell: mpsc::Sender<Result<Event, Error>>) {
    loop {
        let events = match watch.next().await {
            Ok(client::Event::Snapshot { values, .. }) => values.iter().flat_map(events_of).collect(),
            Ok(client::Event::Change(value)) => events_of(&value),
            // Only whoever stops the job deletes its values.
            Ok(client::Event::Delete { .. }) => Vec::new(),
            Err(error) => {
                let _ = tell.send(Err(error.into())).await;
                return;
            }
        };
        for event in events {
            if tell.send(Ok(event)).await.is_err() {
                return;
            }
        }
    }
}

/// The line that a value is, and what its state adds: a value that failed is the last good one, which may not have
/// been seen before.
fn events_of(value: &Value) -> Vec<Event> {
    let node = value.node_name.to_string();
    let trouble = |why: &str| Event::Trouble { node: node.clone(), why: why.to_owned() };
    let mut events = Vec::with_capacity(2);
    match serde_json::from_value::<Progress>(value.data_value.clone()) {
        Ok(progress) => {
            let said_at = value.collected_at.timestamp_micros() as f64 / 1e6;
            events.push(Event::Line { node: node.clone(), said_at, progress });
        }
        Err(error) => events.push(trouble(&format!("its worker says what is no progress: {error}"))),
    }
    match value.state {
        State::Fresh | State::Stale => {}
        State::Failed => events.push(trouble("its worker ended")),
        State::NodeLost => events.push(trouble("it is not heard of")),
    }
    events
}
