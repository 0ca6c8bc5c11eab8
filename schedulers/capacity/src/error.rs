//! The reasons for which the ledger refuses something. Nothing is changed then.

use crate::amounts::Resource;
use crate::ids::PromiseId;
use crate::node::Standing;
use crate::window::{EmptyWindow, Tick};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    #[error(transparent)]
    EmptyWindow(#[from] EmptyWindow),
    #[error("tick {at} is over: it is {now} now")]
    Past { at: Tick, now: Tick },
    #[error("a promise must claim something, and this one claims nothing")]
    NoClaims,
    #[error("the ledger has no node `{0}`")]
    UnknownNode(String),
    #[error("node `{node}` is {standing}, so nothing new may be claimed on it")]
    Closed { node: String, standing: Standing },
    #[error("node `{node}` has {free} of {resource} free in that window, which is less than {asked}")]
    NoRoom { node: String, resource: Resource, asked: u64, free: u64 },
    #[error("there is no promise {0}: it was released, has passed or was broken")]
    UnknownPromise(PromiseId),
    #[error("promise {promise} begins at {start}, and it is {now} now")]
    NotDue { promise: PromiseId, start: Tick, now: Tick },
    #[error(
        "node `{0}` is not lost, or something is still promised or lent on it: only a lost node is forgotten"
    )]
    InUse(String),
    #[error("the stored ledger contradicts itself: {0}")]
    Inconsistent(String),
}
