//! Keeps the data service up to date: marks the values of lost nodes and of those that are back, deletes the
//! values of removed nodes, and says which nodes answer for others, which labels nodes have and which epochs were given.
//!
//! It is level-triggered: each round sends everything that is still due, failed requests included, so that a
//! data service that was away misses nothing. Sending the same twice does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::labels::LabelMap;
use estimand_api::names::{DataName, NodeName};
use estimand_client::{Client, PeerError, Query, within};
use estimand_runtime::{Driver, Next, Rounds, Work};
use tokio::time::{Instant, timeout};

use super::LeaderWork;
use crate::leadership::Leadership;
use crate::{Peers, Shared};

/// How long one request may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long deleting all the values of a node may take.
const DELETE_WITHIN: Duration = Duration::from_secs(60);
/// How long it may look for values that nothing renews.
const PRODUCERS_WITHIN: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often it is told what has not changed: it does not store that.
const REPAIR_EVERY: Duration = Duration::from_secs(5);

/// How often it is told what runs where, so that it drops what nothing renews any more.
const PRODUCERS_EVERY: Duration = Duration::from_secs(15);
/// How long a value is kept that nothing renews any more.
const TIME_TO_LIVE: Duration = Duration::from_secs(3600);

type Speakers = BTreeMap<DataName, Vec<NodeName>>;
type Epochs = BTreeMap<DataName, u64>;
type LabelsByNode = BTreeMap<NodeName, LabelMap>;

pub struct DataServiceUpkeep {
    leadership: Arc<Leadership>,
    data_service: Client,
    /// The nodes that answer for others.
    speakers: LastAnnouncement<Speakers>,
    labels: LastAnnouncement<LabelsByNode>,
    /// Those that it gave last.
    epochs: LastAnnouncement<Epochs>,
    /// When it was told what runs where.
    producers_at: Option<Instant>,
}

impl LeaderWork for DataServiceUpkeep {
    const TASK: &'static str = "manager-data-service";
    const ACTIVITY: &'static str = "telling the data service what became of nodes";

    fn schedule(_: &Shared, driver: Driver) -> Driver {
        driver.every(REPAIR_EVERY).pauses(FIRST_PAUSE, LONGEST_PAUSE)
    }

    fn new(_: &Arc<Shared>, leadership: &Arc<Leadership>, peers: &Peers) -> Self {
        let (leadership, data_service) = (Arc::clone(leadership), peers.data_service.clone());
        DataServiceUpkeep {
            leadership,
            data_service,
            speakers: LastAnnouncement::default(),
            labels: LastAnnouncement::default(),
            epochs: LastAnnouncement::default(),
            producers_at: None,
        }
    }

    fn rounds(leadership: &Leadership) -> &Rounds {
        &leadership.updates
    }
}

impl Work for DataServiceUpkeep {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        self.update().await.map(|()| Next::Period)
    }
}

/// The last message to the data service, and its time.
struct LastAnnouncement<T>(Option<(T, Instant)>);

impl<T> Default for LastAnnouncement<T> {
    fn default() -> Self {
        LastAnnouncement(None)
    }
}

impl<T: PartialEq> LastAnnouncement<T> {
    fn is_due(&self, now: &T) -> bool {
        self.0.as_ref().is_none_or(|(known, at)| known != now || at.elapsed() >= REPAIR_EVERY)
    }

    fn done(&mut self, now: T) {
        self.0 = Some((now, Instant::now()));
    }
}

impl DataServiceUpkeep {
    async fn update(&mut self) -> Result<(), PeerError> {
        // First, because a node may wait with values until it may write them; but the rest does not wait for
        // it.
        let spoken = self.set_speakers().await;
        let labelled = self.set_labels().await;
        let marked = self.mark_nodes().await;
        let removed = self.remove_nodes().await;
        marked.and(removed)?;
        self.set_producers().await?;
        self.set_epochs().await?;
        spoken.and(labelled)
    }

    async fn mark_nodes(&self) -> Result<(), PeerError> {
        for (node, lost) in self.leadership.with(|state| state.cluster.marks()) {
            if !self.leadership.term().is_valid() {
                return Ok(());
            }
            let done = within(ANSWER_WITHIN, self.data_service.mark_node(&node, lost)).await?;
            tracing::info!(%node, lost, values = done.changed, "a node's values are marked");
            self.leadership.with(|state| state.cluster.marked(&node, lost));
        }
        Ok(())
    }

    /// Only what fails here is an answer to those who wait for a removal.
    async fn remove_nodes(&self) -> Result<(), PeerError> {
        for node in self.leadership.with(|state| state.removals.nodes()) {
            let removed = self.remove(&node).await;
            if let Err(cause) = &removed {
                self.leadership.with(|state| state.removals.postpone(&cause.to_string()));
            }
            removed?;
        }
        Ok(())
    }

    async fn set_speakers(&mut self) -> Result<(), PeerError> {
        let speakers = self.leadership.with(|state| state.settled.then(|| state.cluster.speakers()));
        let Some(speakers) = speakers else { return Ok(()) };
        if self.speakers.is_due(&speakers) {
            within(ANSWER_WITHIN, self.data_service.set_speakers(&speakers)).await?;
            self.speakers.done(speakers);
        }
        Ok(())
    }

    async fn set_labels(&mut self) -> Result<(), PeerError> {
        let labels = self.leadership.with(|state| state.cluster.labels());
        if self.labels.is_due(&labels) {
            within(ANSWER_WITHIN, self.data_service.set_labels(&labels)).await?;
            self.labels.done(labels);
        }
        Ok(())
    }

    async fn set_producers(&mut self) -> Result<(), PeerError> {
        if self.producers_at.is_some_and(|at| at.elapsed() < PRODUCERS_EVERY) {
            return Ok(());
        }
        let producers = self
            .leadership
            .with(|state| state.settled.then(|| state.cluster.producers(TIME_TO_LIVE.as_secs())).flatten());
        // One that leads no more may not know what runs where.
        let Some(producers) = producers.filter(|_| self.leadership.term().is_valid()) else { return Ok(()) };
        within(PRODUCERS_WITHIN, self.data_service.set_producers(&producers)).await?;
        self.producers_at = Some(Instant::now());
        Ok(())
    }

    async fn set_epochs(&mut self) -> Result<(), PeerError> {
        let epochs = self.leadership.with(|state| state.settled.then(|| state.cluster.epochs()).flatten());
        // One that leads no more may not know what its successor gave.
        let Some(epochs) = epochs.filter(|_| self.leadership.term().is_valid()) else { return Ok(()) };
        if self.epochs.is_due(&epochs) {
            match within(ANSWER_WITHIN, self.data_service.set_epochs(&epochs)).await {
                // An older data service has no use for them.
                Err(PeerError::Client(error)) if error.status() == Some(404) => {}
                told => told?,
            }
            self.epochs.done(epochs);
        }
        Ok(())
    }

    /// Deletes the values first: if this is cut short, the node is still there to be removed again.
    async fn remove(&self, node: &NodeName) -> Result<(), PeerError> {
        if !self.leadership.term().is_valid() {
            return Ok(());
        }
        let removable = self.leadership.with(|state| state.cluster.check_removable(node));
        if let Err(error) = removable {
            self.leadership.with(|state| state.removals.finish(node, &Err(error.into())));
            return Ok(());
        }
        let delete = timeout(DELETE_WITHIN, self.delete_values(node)).await;
        delete.map_err(|_| PeerError::Late(DELETE_WITHIN))??;
        self.leadership.with(|state| {
            let removed = state.cluster.remove(node);
            if removed.is_ok() {
                state.forget(node);
                tracing::info!(%node, "a node and its values are removed");
            }
            state.removals.finish(node, &removed.map_err(Into::into));
        });
        Ok(())
    }

    async fn delete_values(&self, node: &NodeName) -> Result<(), PeerError> {
        let query = Query { node_names: vec![node.clone()], ..Query::default() };
        let (values, _) = within(ANSWER_WITHIN, self.data_service.values(&query)).await?;
        let names: BTreeSet<_> = values.into_iter().map(|value| value.data_name).collect();
        for name in names {
            match within(ANSWER_WITHIN, self.data_service.delete(&name, Some(node))).await {
                Ok(_) => {}
                // It was bound to another name since, and has no values of its own.
                Err(PeerError::Client(error)) if error.status() == Some(409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
