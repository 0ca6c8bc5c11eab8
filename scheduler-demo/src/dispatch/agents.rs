//! Runs jobs on the plane itself: parts are values, workers are registrations, progress is watched.
//!
//! Agents start, supervise and end the workers, as they do with every registration; only the public interface is used.
//! [`Dispatcher::stop`] removes everything again, also after a `start` that was given up in the middle. A registration
//! is removed only if it carries this run's mark, since its name may belong to another run.

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

use super::{Dispatcher, Error, Event, Parts};
use crate::job::{Job, Progress};

/// Capacity of the channel of events; the watch waits while it is full.
const UNHEARD: usize = 256;
/// Values that agents have sent already may arrive after the end of the registration.
const CLEAN_PAUSE: Duration = Duration::from_millis(50);
const CLEAN_ATTEMPTS: u32 = 100;

/// Runs jobs through the agents of a plane.
pub struct AgentDispatcher {
    client: Client,
    began: Instant,
    /// Marks the registrations of this run.
    mark: String,
    /// Names that were registered, or may have been.
    work: Vec<DataName>,
    part: Option<DataName>,
    events: Option<mpsc::Receiver<Result<Event, Error>>>,
    /// The watch, which ends with this.
    watching: JoinSet<()>,
}

impl AgentDispatcher {
    /// `mark` has to be another one for every run.
    pub fn new(client: Client, mark: String) -> Self {
        AgentDispatcher {
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
            // Recorded first: a request that is given up may still have registered it.
            self.work.push(name.clone());
            match self.client.register_map(registration).await {
                Err(error) if error.status() == Some(409) && !self.is_mine(&name).await? => {
                    self.work.pop();
                    return Err(Error::NameTaken { name: name.to_string() });
                }
                // A first attempt may have succeeded although its response was lost.
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

    /// Deletes the values of a name that has no producer any more, until no new ones arrive.
    async fn clean(&self, name: &DataName) -> Result<(), Error> {
        for _ in 0..CLEAN_ATTEMPTS {
            self.client.delete(name, None).await?;
            sleep(CLEAN_PAUSE).await;
            if self.client.values(&Query::of(name.clone())).await?.0.is_empty() {
                return Ok(());
            }
        }
        Err(Error::ValuesRemain { name: name.to_string() })
    }
}

impl Dispatcher for AgentDispatcher {
    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    async fn start(&mut self, job: &Job) -> Result<(), Error> {
        self.register(job).await?;
        // Values that a killed scheduler may have left; the names are this run's from now on. A worker repeats what it has
        // said already.
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
        let deaf =
            || Error::WatchEnded { name: self.work.first().map(DataName::to_string).unwrap_or_default() };
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
        let query = Query { names: self.work.clone(), node_names: vec![node.clone()], ..Query::default() };
        let (values, _) = self.client.values(&query).await?;
        if let Some(value) = values.iter().max_by_key(|value| value.collected_at) {
            return Ok(events_of(value).into_iter().last());
        }
        // It never said anything: its agent may know why.
        for name in &self.work {
            let instances = self.client.instances(Some(name), query.node_names.first()).await?;
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
        // Names that are not cleared yet stay recorded, so that this can be tried again.
        while let Some(name) = self.work.last().cloned() {
            let is_mine = self.is_mine(&name).await?;
            if is_mine {
                match self.client.unregister(&name, false).await {
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

/// Sends the watched events, until the receiver is gone.
async fn follow(mut watch: Watch, tell: mpsc::Sender<Result<Event, Error>>) {
    loop {
        let events = match watch.next().await {
            Ok(client::Event::Snapshot { values, .. }) => values.iter().flat_map(events_of).collect(),
            Ok(client::Event::Change(value)) => events_of(&value),
            // Values are deleted only when the job is stopped.
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
        Err(error) => events.push(trouble(&format!("its worker wrote an invalid line: {error}"))),
    }
    match value.state {
        State::Fresh | State::Stale => {}
        State::Failed => events.push(trouble("its worker ended")),
        State::NodeLost => events.push(trouble("the node is lost")),
    }
    events
}
