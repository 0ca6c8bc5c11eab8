//! Placement policies: how a node that has room is ranked for a task.
//!
//! A policy gives each such node a [`Score`], whose fields are compared in their order; the least is chosen. It sees the
//! facts, the ledger and the task, and has no memory and no chance but the seed.

pub use estimand_api::task_document::Policy;
use estimand_capacity::{Shape, Window};
use serde::{Deserialize, Serialize};

use super::cluster::{Cluster, NodeView};

/// Changes when a policy decides otherwise than it did; it stands beside each decision.
pub const POLICY_VERSION: u32 = 2;

/// Full in the ledger's terms, in millionths.
const FULL: u64 = 1_000_000;
/// The pressure in thousandths at which the processors of a node are busy. A tenth more than they do at once: nodes have a
/// little work of their own, and a task that would fill one up exactly is welcome there.
const BUSY: u64 = 1_100;

/// The rank of a node. The least is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Score {
    /// Nothing is known of what the policy ranks by.
    pub unknown: bool,
    /// The part that is left of the fullest resource that the task asks for, in millionths; all of it where the processors
    /// are busy. 0 for policies that go by no fit, and for tasks that ask for nothing.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub left: u64,
    /// By what the policy ranks: a pressure in thousandths, or how full it is in millionths.
    pub measure: u64,
    /// Among equals the fewest tasks.
    pub tasks: u32,
    /// Makes the order total: by lot, or the nodes' own order.
    pub preference: u64,
}

/// A task to be ranked for, and the chance that it has.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub policy: Policy,
    pub shape: &'a Shape,
    pub window: Window,
    /// The task asks for more than a place.
    pub asks: bool,
    /// The processor time in thousandths that the task would take.
    pub weight: u64,
    /// The seed of this decision.
    pub lot: u64,
}

fn is_nothing(left: &u64) -> bool {
    *left == 0
}

/// Ranks a node that has room.
pub fn score(question: &Question<'_>, cluster: &Cluster, node: &NodeView) -> Score {
    let lot = mix(question.lot ^ (node.id.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let by = |measure: Option<u64>, tasks: u32, preference: u64| Score {
        unknown: measure.is_none(),
        left: 0,
        measure: measure.unwrap_or(0),
        tasks,
        preference,
    };
    let fact = || node.pressure.fact().map(|fact| fact.thousandths);
    let asked = || cluster.ledger.fullness(node.id, question.shape, question.window);
    let fullness = || asked().max(node.fullness(question.weight));
    match question.policy {
        Policy::Queue => by(Some(0), 0, node.id.index() as u64),
        Policy::Random => by(Some(0), 0, lot),
        Policy::LeastPressure | Policy::TwoChoices => by(fact(), 0, lot),
        Policy::Estimated => {
            let added = node.thousandths(question.weight);
            let pressure = node.pressure.estimate().map(|now| now.saturating_add(added));
            // Where nothing is measured, tasks take what they are expected to take.
            let is_busy = pressure.unwrap_or_else(|| node.fullness(question.weight) / 1000) > BUSY;
            let by_pressure = by(pressure, node.tasks, lot);
            if !question.asks {
                by_pressure
            } else if is_busy {
                Score { left: FULL, ..by_pressure }
            } else {
                // The first of equal nodes is taken, so that the last ones stay empty for what is large.
                let left = FULL.saturating_sub(asked());
                Score { left, ..by(pressure, 0, node.id.index() as u64) }
            }
        }
        // Fuller is better until it is full; then less is.
        Policy::Pack => {
            let full = fullness();
            by(Some(if full <= FULL { FULL - full } else { full }), 0, node.id.index() as u64)
        }
        Policy::Spread => by(Some(fullness()), node.tasks, lot),
    }
}

/// Mixes the bits of a number, the same on every machine.
pub fn mix(number: u64) -> u64 {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
