//! Everything that exists only while this process leads: its view of the cluster, and everything that waits
//! on it.
//!
//! It begins with the stored state and ends with its term; a later leadership begins anew. One lock is around
//! all of it and is never held across a wait. Invariant: no answer is given unless the leadership is still
//! valid after the answer was worked out. [`Leadership::answer`] ensures that, and is the only way to answer
//! a request.

mod node_tasks;
mod removals;
mod runs;
mod term;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::RegistrationRecord;
use estimand_runtime::{Rounds, Ticket};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::timeout;

use crate::core::Cluster;
use crate::desired::RenderedAssignments;

pub use node_tasks::NodeTaskLists;
pub use removals::{RemovalError, Removals};
pub use runs::{ManualRuns, RunResult, TooManyRuns};
pub use term::{EndReason, LeadershipTerm};

/// All registrations, as they were read last.
pub type Registrations = BTreeMap<DataName, Arc<RegistrationRecord>>;

/// This process does not lead, or does not any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeadershipError {
    /// Where the leader can be reached, if that is known.
    pub leader: Option<String>,
}

pub struct Leadership {
    term: Arc<LeadershipTerm>,
    state: Mutex<LeadershipState>,
    /// Reads of the registry.
    pub reads: Rounds,
    /// Looks at the cluster, each done when its outcome is stored.
    pub looks: Rounds,
    /// Updates of the data service.
    pub updates: Rounds,
    /// Reads of the labels that follow from values.
    pub label_reads: Rounds,
    heartbeats: Notify,
}

/// Everything that the lock protects.
pub struct LeadershipState {
    pub cluster: Cluster,
    pub rendered: RenderedAssignments,
    pub runs: ManualRuns,
    pub removals: Removals,
    /// The tasks of each node, as the task service told them.
    pub tasks: NodeTaskLists,
    /// None until the registry was read.
    pub registrations: Option<Arc<Registrations>>,
    /// True once the registrations that were read first have become desired states.
    pub settled: bool,
    /// For each node, the bell that its agent's requests wait for.
    doorbells: HashMap<NodeName, Arc<Notify>>,
    ended: bool,
}

impl Leadership {
    pub fn new(term: Arc<LeadershipTerm>, cluster: Cluster) -> Self {
        let state = LeadershipState {
            cluster,
            rendered: RenderedAssignments::default(),
            runs: ManualRuns::new(term.epoch()),
            removals: Removals::default(),
            tasks: NodeTaskLists::default(),
            registrations: None,
            settled: false,
            doorbells: HashMap::new(),
            ended: false,
        };
        Leadership {
            term,
            state: Mutex::new(state),
            reads: Rounds::new(),
            looks: Rounds::new(),
            updates: Rounds::new(),
            label_reads: Rounds::new(),
            heartbeats: Notify::new(),
        }
    }

    pub fn term(&self) -> &LeadershipTerm {
        &self.term
    }

    /// For the task that looks at the cluster: no look is asked for.
    pub fn state(&self) -> MutexGuard<'_, LeadershipState> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // Something panicked in the middle of a change. The store is right: begin anew from it.
            self.term.end(EndReason::GivenUp);
            poisoned.into_inner()
        })
    }

    /// Works with the state, and asks for a look if that has become necessary. The result is not for others: they are
    /// answered by [`Leadership::answer`].
    pub fn with<T>(&self, work: impl FnOnce(&mut LeadershipState) -> T) -> T {
        let mut state = self.state();
        let wanted = state.cluster.wants_reconcile();
        let done = work(&mut state);
        state.forget_tasks_of_lost();
        if !wanted && state.cluster.wants_reconcile() {
            self.looks.ask();
        }
        done
    }

    /// The same for a request: the result is given only if the leadership is valid afterwards.
    pub fn answer<T>(&self, work: impl FnOnce(&mut LeadershipState) -> T) -> Result<T, LeadershipError> {
        let done = self.with(work);
        if self.term.is_valid() { Ok(done) } else { Err(LeadershipError::default()) }
    }

    /// Waits for `work` on behalf of a request; at most so long, and no longer than the leadership.
    pub async fn wait<T>(
        &self,
        most: Duration,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, LeadershipError> {
        tokio::select! {
            done = timeout(most, work) => Ok(done.ok()),
            _ = self.term.ended() => Err(LeadershipError::default()),
        }
    }

    /// Asks that the cluster be looked at, also if nothing seems to have changed.
    pub fn ask_look(&self) -> Ticket {
        self.looks.ask()
    }

    /// An agent was heard of: those that wait for its confirmation look again.
    pub fn announce_heartbeat(&self) {
        self.heartbeats.notify_waiters();
    }

    pub fn heartbeats(&self) -> &Notify {
        &self.heartbeats
    }

    /// The end: wakes all requests that wait.
    pub fn end(&self) {
        self.with(|state| {
            state.ended = true;
            for (_, doorbell) in state.doorbells.drain() {
                doorbell.notify_waiters();
            }
        });
        self.announce_heartbeat();
    }
}

impl LeadershipState {
    pub fn ring(&self, node: &NodeName) {
        if let Some(doorbell) = self.doorbells.get(node) {
            doorbell.notify_waiters();
        }
    }

    /// Ends at the next ring for the node, also if that comes before it is awaited; none once all is over.
    pub fn await_ring(&mut self, node: &NodeName) -> Option<OwnedNotified> {
        if self.ended {
            return None;
        }
        let doorbell = self.doorbells.entry(node.clone()).or_default();
        // It is woken by any ring after it was made, not only after it was polled first.
        Some(Arc::clone(doorbell).notified_owned())
    }

    /// Its tasks may be placed elsewhere from now on: a node that is lost is told of them anew when it is back.
    pub fn forget_tasks_of_lost(&mut self) {
        for node in self.cluster.take_newly_lost() {
            self.tasks.forget(&node);
        }
    }

    /// A node that is gone needs no doorbell.
    pub fn forget(&mut self, node: &NodeName) {
        self.tasks.forget(node);
        if let Some(doorbell) = self.doorbells.remove(node) {
            doorbell.notify_waiters();
        }
    }
}
