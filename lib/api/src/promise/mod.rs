//! Capacity over time: what is free, and what is promised to somebody for a time to come.
//!
//! All numbers are whole. An instant is a *tick*, the seconds since 1970; amounts are as in `GET /api/capacity`: `cpu` in
//! thousandths of a processor, `memory` in bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod end;
mod request;

pub use crate::problem::Room;
pub use end::{BY_TIME, PromiseEnd};
pub use request::{
    FIELDS, MAX_BATCH, MAX_PROMISES_BYTES, MAX_WIDTH, PromiseBatch, PromiseReleases, PromiseRequest,
    PromiseResize,
};

/// The nodes without a label `class` are of this one.
pub const DEFAULT_CLASS: &str = "default";
/// The label of a node that says its class.
pub const CLASS_LABEL: &str = "class";
/// The last second of the year 9999.
pub const LAST_TICK: u64 = 253_402_300_799;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum PromiseState {
    /// Given for a time to come.
    Promised,
    /// Its time has come.
    Active,
    /// Its time is over.
    Over,
    /// It was given back.
    Released,
    /// The capacity for it was lost.
    Broken,
}

impl PromiseState {
    pub const ALL: [PromiseState; 5] = [
        PromiseState::Promised,
        PromiseState::Active,
        PromiseState::Over,
        PromiseState::Released,
        PromiseState::Broken,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            PromiseState::Promised => "PROMISED",
            PromiseState::Active => "ACTIVE",
            PromiseState::Over => "OVER",
            PromiseState::Released => "RELEASED",
            PromiseState::Broken => "BROKEN",
        }
    }

    /// It has capacity.
    pub fn is_live(self) -> bool {
        matches!(self, PromiseState::Promised | PromiseState::Active)
    }
}

/// A promise as readers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromiseRecord {
    pub id: String,
    pub state: PromiseState,
    /// Of each unit.
    pub resources: BTreeMap<String, u64>,
    pub class: String,
    /// The first tick, and the first one after it.
    pub from: u64,
    pub until: u64,
    pub value: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The node of each unit.
    pub units: Vec<String>,
    /// Why it is in its state, or on other nodes than before.
    pub cause: String,
    /// The tasks on it; absent from services of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<PromiseTasks>,
    /// The revision of the ledger with which it changed last.
    pub revision: u64,
    pub made_at: u64,
    pub made_by: String,
}

/// The tasks on a promise, and the part of its window that they had so far, all together. Deleted ones count, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromiseTasks {
    /// How many are not over.
    pub open: u32,
    /// How many of them are on a node that is not heard of, and are over when their lease is; 0 from services of before.
    #[serde(default)]
    pub silent: u32,
    /// How many are over.
    pub over: u32,
    /// The time that they were on a node.
    pub had_milliseconds: u64,
    /// The time from the beginning of the window on in which they could have begun and did not. Less than a second is nothing.
    pub missed_milliseconds: u64,
    /// The first tick after the last one's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
}

/// The promises that were made, and the revision of the ledger since then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromisesMade {
    pub revision: u64,
    pub promises: Vec<PromiseRecord>,
}

/// The promises that were given back, and the revision of the ledger since then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromisesReleased {
    pub revision: u64,
    /// Those that were live until now.
    pub released: Vec<String>,
}

/// Promises in the order in which they changed last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromisePage {
    pub promises: Vec<PromiseRecord>,
    /// The value of `after` that goes on from here.
    pub next: u64,
    /// The revision of the ledger.
    pub revision: u64,
}

/// Free and promised capacity over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityTimeline {
    /// The revision of the ledger; an order that is based on this names it.
    pub revision: u64,
    /// The present tick.
    pub now: u64,
    pub from: u64,
    /// How many ticks each number of the lists stands for.
    pub step: u64,
    /// How many more promises can be made before some have to be over; absent from services of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promises_left: Option<u64>,
    pub classes: Vec<ClassTimeline>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassTimeline {
    pub class: String,
    /// How many nodes take promises.
    pub nodes: u64,
    pub capacity: BTreeMap<String, u64>,
    /// By resource: the least that is free in each step, over all nodes together. A unit needs its amounts on one node.
    pub free: BTreeMap<String, Vec<u64>>,
    /// The most that is promised in each step.
    pub promised: BTreeMap<String, Vec<u64>>,
}
