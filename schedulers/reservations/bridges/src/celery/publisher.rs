//! Publishes the start of each reservation for Celery when its time has come, and not before.
//!
//! A little before, the broker is connected to and the mark of the message is looked for. At its time the ledger is asked
//! whether the capacity is free already; then the message is published, confirmed, and stored as published. Where anything of
//! that fails, it all begins anew, and the reservation's record says why it waits.

mod unread;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::task_record::NodeCapacity;
use estimand_client::PeerError;
use estimand_reservation_service::{DueStarts, Start, StartNews, Starts};
use estimand_runtime::{CallError, Calls, Loop, Next, Tasks, Work};
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::{Instant, timeout};

use super::broker::{BrokerError, CeleryBroker, Link};
use super::message::Message;

/// How long a call to the broker may take.
const WITHIN: Duration = Duration::from_secs(10);
/// So long before its time a start is prepared, in microseconds.
const AHEAD: i64 = 3_000_000;
/// How many messages are under way at once.
const AT_ONCE: usize = 64;
/// The ledger's answer is waited for so long.
const ROOM_WITHIN: Duration = Duration::from_secs(2);
/// A start whose room is not known is published so long after its time, in microseconds: room is made before it.
const BLIND_AFTER: i64 = 5_000_000;
/// The ledger is asked for free capacity this often.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(250);
/// After the end of a reservation the broker is asked for so long whether it was published, in microseconds.
const LOOK_BACK: i64 = 600_000_000;
/// How often starts are looked at although nothing was announced.
const PUBLISH_EVERY: Duration = Duration::from_secs(5);
/// After failures: the first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Publishes starts until the process ends.
pub fn publish(starts: Starts, broker: &CeleryBroker, tasks: &Tasks) {
    let (broker, calls) = (broker.clone(), tasks.calls("celery-broker", WITHIN));
    let publisher = move |starts| Publisher::new(starts, broker.clone(), Arc::clone(&calls));
    let publishing = Loop {
        name: "reservations-celery",
        activity: "publishing starts for Celery",
        every: PUBLISH_EVERY,
        pauses: PAUSES,
    };
    publishing.spawn(tasks, &Arc::new(starts), Starts::rounds, publisher);
}

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Call(#[from] CallError<BrokerError>),
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("{0}")]
    Some(String),
}

/// Starts that failed, each with the reason.
type Failures = Vec<(Start, String)>;

struct Publisher {
    starts: Arc<Starts>,
    broker: CeleryBroker,
    calls: Arc<Calls>,
    link: Option<Link>,
    /// The numbers of starts whose message has no mark, which stays so as long as nobody publishes it.
    prepared: HashSet<u64>,
    /// The ids of messages whose start is stored, so that their marks can go.
    stored: Vec<String>,
}

impl Publisher {
    fn new(starts: Arc<Starts>, broker: CeleryBroker, calls: Arc<Calls>) -> Self {
        Publisher { starts, broker, calls, link: None, prepared: HashSet::new(), stored: Vec::new() }
    }

    fn now(&self) -> i64 {
        self.starts.now()
    }

    /// The starts that are to be prepared or published now.
    fn due(&self) -> DueStarts {
        self.starts.due(self.now().saturating_add(AHEAD))
    }

    /// Prepares starts; a start that is found to be published is stored as such. A failure of one does not keep the others.
    async fn prepare(&mut self, near: &[Start]) -> Result<Failures, PublishError> {
        let Publisher { calls, link, broker, prepared, .. } = self;
        let used = link.take();
        let call = async {
            let mut link = match used {
                Some(link) => link,
                None => Link::open(broker).await?,
            };
            let (mut found, mut failures) = (Vec::new(), Failures::new());
            for start in near {
                if prepared.contains(&start.number) {
                    continue;
                }
                match link.prepare(&start.id, &start.celery.queue, start.seconds()).await {
                    Ok(Some(at)) => found.push((start.clone(), at)),
                    Ok(None) => {
                        prepared.insert(start.number);
                    }
                    Err(error) => {
                        failures.push((start.clone(), error.to_string()));
                        link = Link::open(broker).await?;
                    }
                }
            }
            Ok((link, found, failures))
        };
        match calls.call(call).await {
            Ok((link, found, failures)) => {
                self.link = Some(link);
                for (start, at) in found {
                    tracing::info!(reservation = start.reservation, "its start had been published already");
                    self.store(&start, at).await?;
                }
                Ok(failures)
            }
            Err(error) => Err(self.tell_late(near, error).await),
        }
    }

    /// Notes why starts wait whose time has come.
    async fn tell_late(&mut self, near: &[Start], error: CallError<BrokerError>) -> PublishError {
        self.link = None;
        // That the breaker is open is no reason of its own.
        if !matches!(error, CallError::Open { .. }) {
            let (now, reason) = (self.now(), error.to_string());
            for start in near.iter().filter(|start| start.begin <= now) {
                if let Err(error) = self.wait_for(start, &reason).await {
                    return error;
                }
            }
        }
        error.into()
    }

    /// Notes the reasons of starts whose time has come.
    async fn tell_failures(&self, failures: Failures) -> PublishError {
        let (now, mut first) = (self.now(), None);
        for (start, reason) in failures {
            if start.begin <= now
                && let Err(error) = self.wait_for(&start, &reason).await
            {
                return error;
            }
            first.get_or_insert(reason);
        }
        PublishError::Some(first.unwrap_or_default())
    }

    async fn wait_for(&self, start: &Start, reason: &str) -> Result<(), PublishError> {
        if start.waits_for.as_deref() == Some(reason) {
            return Ok(());
        }
        tracing::warn!(reservation = start.reservation, reason, "its start is not published yet");
        Ok(self.starts.tell(start, StartNews::Waits(reason.to_owned())).await?)
    }

    async fn store(&mut self, start: &Start, at: i64) -> Result<(), PublishError> {
        self.starts.tell(start, StartNews::Published(at)).await?;
        self.prepared.remove(&start.number);
        self.stored.push(start.id.clone());
        Ok(())
    }

    async fn miss(&mut self, start: &Start, reason: &str) -> Result<(), PublishError> {
        tracing::error!(reservation = start.reservation, reason, "its start was not published in its time");
        self.prepared.remove(&start.number);
        Ok(self.starts.tell(start, StartNews::Missed(reason.to_owned())).await?)
    }

    /// Gives up starts whose time is over and that were found not to be published.
    async fn miss_past(&mut self, due: &[Start]) -> Result<(), PublishError> {
        let now = self.now();
        for start in due.iter().filter(|start| start.end <= now) {
            if self.prepared.contains(&start.number) {
                self.miss(start, "its time was over before its start could be published").await?;
            } else if start.end + LOOK_BACK <= now {
                self.miss(start, "it is not known whether its start was published: the broker was away")
                    .await?;
            }
        }
        Ok(())
    }

    /// The starts for which there is room now. The others wait, and their records say so.
    async fn with_room(&self, due: Vec<Start>) -> Result<Vec<Start>, PublishError> {
        let client = self.starts.task_service();
        let asked = async {
            match client {
                Some(client) => timeout(ROOM_WITHIN, client.capacity()).await.ok()?.ok(),
                None => None,
            }
        };
        let awaited = asked.await.map(|nodes| awaited(&nodes));
        let now = self.now();
        let mut free = Vec::new();
        for start in due {
            let reason = match &awaited {
                Some(awaited) => missing_room(&start, awaited),
                None if start.begin + BLIND_AFTER <= now => None,
                None => Some("the task service, which knows what is free".to_owned()),
            };
            match reason {
                Some(reason) => self.wait_for(&start, &reason).await?,
                None => free.push(start),
            }
        }
        Ok(free)
    }

    /// Publishes starts whose time has come and that have room.
    async fn publish(&mut self, due: Vec<Start>) -> Result<Failures, PublishError> {
        let Some(link) = self.link.take() else { return Ok(Failures::new()) };
        // From now on nobody knows whether they have a mark, until it is told.
        for start in &due {
            self.prepared.remove(&start.number);
        }
        let (starts, calls) = (&self.starts, Arc::clone(&self.calls));
        let used = &link;
        let call = async {
            let publish = |start: Start| async move {
                let at = starts.now();
                let message = Message::new(&start, at);
                match used.publish(&message, at, start.seconds()).await {
                    Ok(at) => Ok((start, at)),
                    Err(error) => Err((start, error)),
                }
            };
            let all = stream::iter(due.clone()).map(publish).buffer_unordered(AT_ONCE);
            let outcomes: Vec<_> = all.collect().await;
            let (mut done, mut failed) = (Vec::new(), Vec::new());
            for outcome in outcomes {
                match outcome {
                    Ok(published) => done.push(published),
                    Err(failure) => failed.push(failure),
                }
            }
            match failed.pop() {
                Some((_, error)) if done.is_empty() => Err(error),
                last => {
                    failed.extend(last);
                    let told = failed.into_iter().map(|(one, error)| (one, error.to_string()));
                    Ok((done, told.collect::<Failures>()))
                }
            }
        };
        match calls.call(call).await {
            Ok((done, failures)) => {
                self.link = failures.is_empty().then_some(link);
                for (start, at) in done {
                    self.store(&start, at).await?;
                }
                Ok(failures)
            }
            Err(error) => Err(self.tell_late(&due, error).await),
        }
    }

    /// Removes the marks of what is stored. A mark that stays goes by itself.
    async fn forget(&mut self) {
        let (Some(link), calls) = (self.link.take(), Arc::clone(&self.calls)) else { return };
        let ids = std::mem::take(&mut self.stored);
        let call = async {
            for id in &ids {
                link.forget(id).await?;
            }
            Ok::<_, BrokerError>(())
        };
        match calls.call(call).await {
            Ok(()) => self.link = Some(link),
            Err(error) => {
                tracing::debug!(%error, "marks of published starts are left to the broker");
            }
        }
    }

    /// When there is something to be done for the first of these.
    fn next(&self, due: &DueStarts) -> Next {
        let now = self.now();
        let prepare_at = |begin: i64| begin.saturating_sub(AHEAD);
        let near = due.near.iter().map(|start| {
            if self.prepared.contains(&start.number) { start.begin } else { prepare_at(start.begin) }
        });
        match near.chain(due.next.map(prepare_at)).min() {
            // Its time has come, and it waits for room.
            Some(at) if at <= now => Next::At(Instant::now() + LOOK_FOR_ROOM),
            Some(at) => {
                let pause = u64::try_from(at - now).unwrap_or(0);
                Next::At(Instant::now() + Duration::from_micros(pause))
            }
            None => Next::Period,
        }
    }
}

impl Work for Publisher {
    type Error = PublishError;

    async fn round(&mut self) -> Result<Next, PublishError> {
        // A failure with these does not keep the others.
        let looked = self.look_for_unread().await;
        let next = self.publish_due().await?;
        looked.map(|()| next)
    }
}

impl Publisher {
    async fn publish_due(&mut self) -> Result<Next, PublishError> {
        let due = self.due();
        if due.near.is_empty() {
            return Ok(self.next(&due));
        }
        let prepared = self.prepare(&due.near).await;
        self.miss_past(&due.near).await?;
        let mut failures = prepared?;
        let now = self.now();
        let has_begun =
            |start: &&Start| start.begin <= now && now < start.end && self.prepared.contains(&start.number);
        let begun: Vec<Start> = due.near.iter().filter(has_begun).cloned().collect();
        if !begun.is_empty() {
            let free = self.with_room(begun).await?;
            if !free.is_empty() {
                failures.extend(self.publish(free).await?);
                self.forget().await;
            }
        }
        match failures.pop() {
            None => Ok(self.next(&self.due())),
            last => Err(self.tell_failures(failures.into_iter().chain(last).collect()).await),
        }
    }
}

/// The nodes of a start's promise on which not all is free yet, in words; none: all is free.
fn missing_room(start: &Start, awaited: &BTreeMap<String, BTreeMap<String, u64>>) -> Option<String> {
    let is_full = |node: &&String| {
        let awaited = awaited.get(*node);
        awaited.is_some_and(|awaited| start.resources.iter().any(|resource| awaited.contains_key(resource)))
    };
    let mut nodes: Vec<&str> = start.nodes.iter().filter(is_full).map(String::as_str).collect();
    nodes.dedup();
    (!nodes.is_empty()).then(|| format!("room on {}, which tasks without a promise leave", nodes.join(", ")))
}

fn awaited(nodes: &[NodeCapacity]) -> BTreeMap<String, BTreeMap<String, u64>> {
    nodes.iter().map(|node| (node.node.clone(), node.awaited.clone())).collect()
}
