//! The effect on promises of a change of capacity, or of time that has passed.

use serde::Serialize;

use crate::ids::PromiseId;

/// A claim that is on another node from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Move {
    pub promise: PromiseId,
    /// Its place among the claims of the promise.
    pub claim: usize,
    pub from: String,
    pub to: String,
}

/// The consequences of capacity that has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replan {
    pub moved: Vec<Move>,
    /// Promised, and no longer: they are out of the ledger.
    pub broken: Vec<PromiseId>,
    /// Ran on capacity that is gone: they are out of the ledger.
    pub ended: Vec<PromiseId>,
    /// Promised on a node that is cordoned, with no other place to go.
    pub stranded: Vec<PromiseId>,
}

impl Replan {
    pub(crate) fn join(&mut self, other: Replan) {
        self.moved.extend(other.moved);
        self.broken.extend(other.broken);
        self.ended.extend(other.ended);
        self.stranded.extend(other.stranded);
    }
}

/// The consequences of time having passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    /// They ended without ever having run.
    pub expired: Vec<PromiseId>,
    /// They run on past their end; each has the present tick, too.
    pub overrunning: Vec<PromiseId>,
    /// The effect of the overruns on promises.
    pub replan: Replan,
}
