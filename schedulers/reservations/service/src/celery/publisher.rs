//! Publishes the start of each reservation for Celery when its time has come, and not before.
//!
//! A little before, the broker is connected to and the mark of the message is looked for. At its time the ledger is asked
//! whether the capacity is free already; then the message is published, confirmed, and stored as published. Where anything of
//! that fails, it all begins anew, and the reservation's record says why it waits.

mod unread;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::task_record::NodeCapacity;
use estimand_client::PeerError;
use estimand_runtime::single_writer::Writer;
use estimand_runtime::{CallError, Calls, Next, Work};
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::{Instant, timeout};

use super::broker::{BrokerError, CeleryBroker, Link};
use super::message::{Message, micros};
use super::standing::Standing;
use crate::requests::StartKnown;
use crate::reservation::Reservation;
use crate::shared::Shared;
use crate::writer::ReservationsState;

/// How long a call to the broker may take.
pub const WITHIN: Duration = Duration::from_secs(10);
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

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Call(#[from] CallError<BrokerError>),
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("{0}")]
    Some(String),
}

/// Starts of which each has something wrong with it.
type Failures = Vec<(Arc<Reservation>, String)>;

pub struct Publisher {
    shared: Arc<Shared>,
    writer: Writer<ReservationsState>,
    broker: CeleryBroker,
    calls: Arc<Calls>,
    link: Option<Link>,
    /// The ids of those whose message has no mark. They keep that as long as nobody publishes it.
    prepared: HashMap<u64, String>,
    /// Marks of starts that are stored.
    stored: Vec<String>,
}

impl Publisher {
    pub fn new(
        shared: Arc<Shared>,
        writer: Writer<ReservationsState>,
        broker: CeleryBroker,
        calls: Arc<Calls>,
    ) -> Self {
        let (link, prepared, stored) = (None, HashMap::new(), Vec::new());
        Publisher { shared, writer, broker, calls, link, prepared, stored }
    }

    fn now(&self) -> i64 {
        self.shared.clock.now_micros()
    }

    /// Those that are to be published, the first to begin first.
    fn due(&self) -> Vec<Arc<Reservation>> {
        let mut due: Vec<Arc<Reservation>> = self.shared.table(|table| {
            // With a change that is being made it may begin at another time.
            let due = table.unpublished().filter(|one| one.progress.celery.is_due());
            due.filter(|one| one.progress.change.is_none()).cloned().collect()
        });
        due.sort_by_key(|one| (one.progress.offer.start, one.number));
        due
    }

    /// Has each of these prepared; those that are found to be published are stored as such. What is wrong with one of them does
    /// not keep the others.
    async fn prepare(&mut self, near: &[Arc<Reservation>]) -> Result<Failures, PublishError> {
        let Publisher { calls, link, broker, prepared, .. } = self;
        let used = link.take();
        let call = async {
            let mut link = match used {
                Some(link) => link,
                None => Link::open(broker).await?,
            };
            let (mut found, mut failures) = (Vec::new(), Failures::new());
            for reservation in near {
                let Some(start) = &reservation.document.celery else { continue };
                if prepared.contains_key(&reservation.number) {
                    continue;
                }
                let id = super::id(&reservation.promise_id());
                match link.prepare(&id, &start.queue, seconds(reservation)).await {
                    Ok(Some(at)) => found.push((Arc::clone(reservation), at)),
                    Ok(None) => drop(prepared.insert(reservation.number, id)),
                    Err(error) => {
                        failures.push((Arc::clone(reservation), error.to_string()));
                        link = Link::open(broker).await?;
                    }
                }
            }
            Ok((link, found, failures))
        };
        match calls.call(call).await {
            Ok((link, found, failures)) => {
                self.link = Some(link);
                for (reservation, at) in found {
                    tracing::info!(reservation = reservation.id, "its start had been published already");
                    self.store(&reservation, at).await?;
                }
                Ok(failures)
            }
            Err(error) => Err(self.tell_late(near, error).await),
        }
    }

    /// Notes why those wait whose time has come.
    async fn tell_late(&mut self, near: &[Arc<Reservation>], error: CallError<BrokerError>) -> PublishError {
        self.link = None;
        // That the breaker is open is no reason of its own.
        if !matches!(error, CallError::Open { .. }) {
            let (now, reason) = (self.now(), error.to_string());
            for reservation in near.iter().filter(|one| begins(one) <= now) {
                if let Err(error) = self.wait_for(reservation, &reason).await {
                    return error;
                }
            }
        }
        error.into()
    }

    /// Notes what is wrong with each of those whose time has come.
    async fn tell_failures(&self, failures: Failures) -> PublishError {
        let (now, mut first) = (self.now(), None);
        for (reservation, reason) in failures {
            if begins(&reservation) <= now
                && let Err(error) = self.wait_for(&reservation, &reason).await
            {
                return error;
            }
            first.get_or_insert(reason);
        }
        PublishError::Some(first.unwrap_or_default())
    }

    async fn wait_for(&self, reservation: &Reservation, reason: &str) -> Result<(), PublishError> {
        let is_known = matches!(
            &reservation.progress.celery,
            Standing::Due { waits_for: Some(known), .. } if known == reason
        );
        if is_known {
            return Ok(());
        }
        tracing::warn!(reservation = reservation.id, reason, "its start is not published yet");
        let known = StartKnown::Waits { number: reservation.number, reason: reason.to_owned() };
        Ok(self.writer.submit(known).await.map_err(PeerError::of_write)?)
    }

    async fn store(&mut self, reservation: &Reservation, at: i64) -> Result<(), PublishError> {
        let known = StartKnown::Published { number: reservation.number, at };
        self.writer.submit(known).await.map_err(PeerError::of_write)?;
        self.shared.figures.published(at.saturating_sub(begins(reservation)));
        self.prepared.remove(&reservation.number);
        self.stored.push(super::id(&reservation.promise_id()));
        Ok(())
    }

    async fn miss(&mut self, reservation: &Reservation, reason: &str) -> Result<(), PublishError> {
        tracing::error!(reservation = reservation.id, reason, "its start was not published in its time");
        let known = StartKnown::Missed { number: reservation.number, reason: reason.to_owned() };
        self.prepared.remove(&reservation.number);
        Ok(self.writer.submit(known).await.map_err(PeerError::of_write)?)
    }

    /// Those whose time is over were found not to be published.
    async fn miss_past(&mut self, due: &[Arc<Reservation>]) -> Result<(), PublishError> {
        let now = self.now();
        for reservation in due.iter().filter(|one| ends(one) <= now) {
            if self.prepared.contains_key(&reservation.number) {
                self.miss(reservation, "its time was over before its start could be published").await?;
            } else if ends(reservation) + LOOK_BACK <= now {
                self.miss(
                    reservation,
                    "it is not known whether its start was published: the broker was away",
                )
                .await?;
            }
        }
        Ok(())
    }

    /// Those of them for which there is room now. The others wait, and are told so.
    async fn with_room(&self, due: Vec<Arc<Reservation>>) -> Result<Vec<Arc<Reservation>>, PublishError> {
        let client = self.shared.ledger.borrow().clone();
        let asked = async {
            match client {
                Some(client) => timeout(ROOM_WITHIN, client.capacity()).await.ok()?.ok(),
                None => None,
            }
        };
        let awaited = asked.await.map(|nodes| awaited(&nodes));
        let now = self.now();
        let mut free = Vec::new();
        for reservation in due {
            let reason = match &awaited {
                Some(awaited) => reservation.awaits(awaited),
                None if begins(&reservation) + BLIND_AFTER <= now => None,
                None => Some("the task service, which knows what is free".to_owned()),
            };
            match reason {
                Some(reason) => self.wait_for(&reservation, &reason).await?,
                None => free.push(reservation),
            }
        }
        Ok(free)
    }

    /// Publishes those whose time has come and that have room.
    async fn publish(&mut self, due: Vec<Arc<Reservation>>) -> Result<Failures, PublishError> {
        let Some(link) = self.link.take() else { return Ok(Failures::new()) };
        // From now on nobody knows whether they have a mark, until it is told.
        due.iter().for_each(|one| drop(self.prepared.remove(&one.number)));
        let (shared, calls) = (&self.shared, Arc::clone(&self.calls));
        let used = &link;
        let call = async {
            let publish = |reservation: Arc<Reservation>| async move {
                let at = shared.clock.now_micros();
                let Some(start) = &reservation.document.celery else { return Ok((reservation, at)) };
                let message = Message::new(&reservation, start, at);
                match used.publish(&message, at, seconds(&reservation)).await {
                    Ok(at) => Ok((reservation, at)),
                    Err(error) => Err((reservation, error)),
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
                for (reservation, at) in done {
                    self.store(&reservation, at).await?;
                }
                Ok(failures)
            }
            Err(error) => Err(self.tell_late(&due, error).await),
        }
    }

    /// Removes the marks of what is stored. One that stays goes by itself.
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
    fn next(&self, due: &[Arc<Reservation>]) -> Next {
        let now = self.now();
        let at = |reservation: &Arc<Reservation>| match self.prepared.contains_key(&reservation.number) {
            true => begins(reservation),
            false => begins(reservation).saturating_sub(AHEAD),
        };
        match due.iter().map(at).min() {
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
        let now = self.now();
        let near: Vec<Arc<Reservation>> =
            due.iter().filter(|one| begins(one).saturating_sub(AHEAD) <= now).cloned().collect();
        if near.is_empty() {
            return Ok(self.next(&due));
        }
        let prepared = self.prepare(&near).await;
        self.miss_past(&near).await?;
        let mut failures = prepared?;
        let now = self.now();
        let begun = |one: &&Arc<Reservation>| {
            begins(one) <= now && now < ends(one) && self.prepared.contains_key(&one.number)
        };
        let begun: Vec<Arc<Reservation>> = near.iter().filter(begun).cloned().collect();
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

impl Reservation {
    /// The nodes of its promise on which not all is free yet, in words; none: all is free.
    fn awaits(&self, awaited: &BTreeMap<String, BTreeMap<String, u64>>) -> Option<String> {
        let mut nodes: Vec<&str> = self
            .progress
            .nodes
            .iter()
            .filter(|node| {
                let awaited = awaited.get(*node);
                awaited.is_some_and(|awaited| {
                    self.document.resources.keys().any(|resource| awaited.contains_key(resource))
                })
            })
            .map(String::as_str)
            .collect();
        nodes.dedup();
        (!nodes.is_empty())
            .then(|| format!("room on {}, which tasks without a promise leave", nodes.join(", ")))
    }
}

fn awaited(nodes: &[NodeCapacity]) -> BTreeMap<String, BTreeMap<String, u64>> {
    nodes.iter().map(|node| (node.node.clone(), node.awaited.clone())).collect()
}

fn begins(reservation: &Reservation) -> i64 {
    micros(reservation.progress.offer.start)
}

fn ends(reservation: &Reservation) -> i64 {
    micros(reservation.progress.offer.end)
}

/// How long a reservation lasts.
fn seconds(reservation: &Reservation) -> u64 {
    reservation.progress.offer.end - reservation.progress.offer.start
}
