//! A decision where a task runs, with all that it was made by: it can be asked why.

use std::sync::Arc;

use estimand_capacity::{Holder, LoanId, NodeId, Shape};
use serde::{Deserialize, Serialize};

use super::policy::{Policy, Score};
use super::pressure::Pressure;
use super::queue::TaskNumber;

/// How many of the nodes that were not chosen are named, the best first.
pub const MAX_ALTERNATIVES: usize = 3;

#[derive(Debug, Clone)]
pub struct Decision {
    pub task: TaskNumber,
    pub node: NodeId,
    /// Its part of the ledger.
    pub loan: LoanId,
    pub priority: i32,
    pub shape: Shape,
    /// The processor time in thousandths that it is expected to take there.
    pub cpu: u64,
    /// The user who has its place.
    pub user: Option<Arc<str>>,
    /// The shares that its loan is counted with, if shares are counted.
    pub holder: Option<Holder>,
    pub why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    pub policy: Policy,
    /// The promise on whose capacity it is; then there was nothing to choose.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub promise: Option<String>,
    /// The version of the policies.
    pub version: u32,
    pub lot: u64,
    /// How many nodes had room.
    pub nodes: usize,
    pub chosen: Alternative,
    pub others: Vec<Alternative>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    pub node: Arc<str>,
    pub score: Score,
    /// The fact that the score was made of, if one was known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fact: Option<Pressure>,
}
