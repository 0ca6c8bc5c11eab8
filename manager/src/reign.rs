//! What exists only while this process leads: the cluster as it knows it, and everything that waits on it.
//!
//! It begins with what is stored and ends with the lead; a later lead begins anew. One lock is around all of
//! it and is never held across a wait. What must hold: nothing is given to anybody unless the lead is still
//! valid after it was worked out; that is what [`Reign::answer`] is for, and why there is no other way to
//! answer a request.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;
use estimand_api::registration::Registered;
use estimand_runtime::{Rounds, Ticket};
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::desired::Rendered;
use crate::refusal;
use crate::runs::Runs;
use crate::term::{End, Term};

/// What is registered, as it was read last.
pub type Book = BTreeMap<DataName, Arc<Registered>>;

pub struct Reign {
    term: Arc<Term>,
    held: Mutex<Held>,
    /// Reads of the registry.
    pub reads: Rounds,
    /// Looks at the cluster that have been stored.
    pub looks: Rounds,
    /// What the data service is to be told.
    pub upkeep: Rounds,
    /// Some agent said how it is.
    heard: Notify,
}

/// What the lock is around.
pub struct Held {
    pub cluster: Cluster,
    pub rendered: Rendered,
    pub runs: Runs,
    /// Nodes that are to be removed as soon as their values are deleted, and who waits for that.
    pub removals: BTreeMap<NodeName, Vec<oneshot::Sender<Result<(), Problem>>>>,
    /// None until the registry was read.
    pub book: Option<Arc<Book>>,
    /// Whether what was read first has become what is desired.
    pub settled: bool,
    /// Where the questions of a node's agent wait for something new.
    doorbells: HashMap<NodeName, Arc<Notify>>,
    ended: bool,
}

impl Reign {
    pub fn new(term: Arc<Term>, cluster: Cluster) -> Self {
        let held = Held {
            cluster,
            rendered: Rendered::default(),
            runs: Runs::new(term.epoch()),
            removals: BTreeMap::new(),
            book: None,
            settled: false,
            doorbells: HashMap::new(),
            ended: false,
        };
        Reign {
            term,
            held: Mutex::new(held),
            reads: Rounds::new(),
            looks: Rounds::new(),
            upkeep: Rounds::new(),
            heard: Notify::new(),
        }
    }

    pub fn term(&self) -> &Term {
        &self.term
    }

    /// Works with what is held. What comes of it is not for others: they are answered by [`Reign::answer`].
    pub fn with<T>(&self, work: impl FnOnce(&mut Held) -> T) -> T {
        let mut held = self.held.lock().unwrap_or_else(|poisoned| {
            // Something panicked in the middle of a change. What is stored is right: begin anew from it.
            self.term.end(End::GivenUp);
            poisoned.into_inner()
        });
        let done = work(&mut held);
        if held.cluster.wants_reconcile() {
            self.looks.ask();
        }
        done
    }

    /// The same for a request: what comes of it is given only if the lead is valid afterwards.
    pub fn answer<T>(&self, work: impl FnOnce(&mut Held) -> Result<T, Problem>) -> Result<T, Problem> {
        let done = self.with(work);
        if self.term.is_valid() { done } else { Err(refusal::standing_by(None)) }
    }

    /// Waits for `work` on behalf of a request; at most so long, and no longer than the lead.
    pub async fn wait<T>(&self, most: Duration, work: impl Future<Output = T>) -> Result<Option<T>, Problem> {
        tokio::select! {
            done = work => Ok(Some(done)),
            _ = self.term.ended() => Err(refusal::standing_by(None)),
            () = sleep(most) => Ok(None),
        }
    }

    /// Asks that the cluster be looked at, also if nothing seems to have changed.
    pub fn ask_look(&self) -> Ticket {
        self.looks.ask()
    }

    /// Some agent was heard of: whoever waits for what it confirms looks again.
    pub fn hear(&self) {
        self.heard.notify_waiters();
    }

    pub fn heard(&self) -> &Notify {
        &self.heard
    }

    /// The end: wakes everybody who waits.
    pub fn end(&self) {
        self.with(|held| {
            held.ended = true;
            for (_, doorbell) in held.doorbells.drain() {
                doorbell.notify_waiters();
            }
        });
        self.hear();
    }
}

impl Held {
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
        // What `notify_waiters` wakes begins with the making of this, not with its first poll.
        Some(Arc::clone(doorbell).notified_owned())
    }

    /// Tells those who wait what became of a removal.
    pub fn settle_removal(&mut self, node: &NodeName, outcome: &Result<(), Problem>) {
        for waiting in self.removals.remove(node).into_iter().flatten() {
            // Whoever has gone away does not wait.
            let _ = waiting.send(outcome.clone());
        }
    }

    /// A node that is gone needs no doorbell.
    pub fn forget(&mut self, node: &NodeName) {
        if let Some(doorbell) = self.doorbells.remove(node) {
            doorbell.notify_waiters();
        }
    }
}
