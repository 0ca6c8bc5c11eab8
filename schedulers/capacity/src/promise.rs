//! A promise: capacity given for a time to come, or running already.

use serde::{Deserialize, Serialize};

use crate::amounts::Shape;
use crate::ids::NodeId;
use crate::window::{Tick, Window};

/// Amounts of one node in one window. A promise has one or more of them, and all or none are granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub node: NodeId,
    pub shape: Shape,
    pub window: Window,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Given for a time to come.
    Promised,
    /// In use: it cannot move.
    Running,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    pub claims: Vec<Claim>,
    /// The worth of keeping it: where something must break, the least value breaks first.
    pub value: u64,
    pub stage: Stage,
}

impl Promise {
    pub fn start(&self) -> Tick {
        self.claims.iter().map(|claim| claim.window.start()).min().unwrap_or_default()
    }

    pub fn end(&self) -> Tick {
        self.claims.iter().map(|claim| claim.window.end()).max().unwrap_or_default()
    }
}
