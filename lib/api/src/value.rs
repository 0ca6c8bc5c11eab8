//! A value as it is read, and the states it can be in.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::names::{DataName, NodeName};
use crate::pointer::Pointer;

/// The largest value, as compact JSON text.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The validity of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Younger than it is valid for.
    Fresh,
    /// Older than it is valid for.
    Stale,
    /// The last run that should have renewed it failed; it is the last good one.
    Failed,
    /// Its node is not heard of any more.
    NodeLost,
}

impl State {
    pub const ALL: [State; 4] = [State::Fresh, State::Stale, State::Failed, State::NodeLost];

    pub fn as_str(self) -> &'static str {
        match self {
            State::Fresh => "fresh",
            State::Stale => "stale",
            State::Failed => "failed",
            State::NodeLost => "node-lost",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        State::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a state: one of fresh, stale, failed, node-lost"))
    }
}

/// The nodes on which each name is produced, as the manager tells the data service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Producers {
    /// For how many seconds a value is kept that nothing renews any more.
    pub time_to_live: u64,
    /// All nodes.
    pub nodes: Vec<NodeName>,
    pub names: BTreeMap<DataName, Place>,
}

/// Where a name is produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// On all nodes.
    All,
    /// By a slot that answers for nodes which only it knows.
    Anywhere,
    #[serde(untagged)]
    Nodes(Vec<NodeName>),
}

/// The latest answer for a data name on a node; `D` is how its JSON is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Value<D = serde_json::Value> {
    pub data_name: DataName,
    pub node_name: NodeName,
    /// Any JSON.
    #[schema(value_type = serde_json::Value)]
    pub data_value: D,
    /// When it was measured, by the clock of whoever measured it.
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub collected_at: DateTime<Utc>,
    /// When the data service took it.
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub received_at: DateTime<Utc>,
    /// For how many seconds after `collectedAt` it holds; null: for ever.
    pub valid_for: Option<f64>,
    pub state: State,
    /// Grows with every change of any value; orders all of them.
    pub revision: u64,
    /// A remark of the run that gave it: what it was denied, records that were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// With `?explain=1`: what produced it, or null for a plain write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub provenance: Option<serde_json::Value>,
}

/// One kept value of the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastValue<D = serde_json::Value> {
    pub data_name: DataName,
    pub node_name: NodeName,
    #[schema(value_type = serde_json::Value)]
    pub data_value: D,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub collected_at: DateTime<Utc>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub received_at: DateTime<Utc>,
    pub revision: u64,
}

/// A name that serves values, and how they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameSummary {
    pub data_name: DataName,
    /// The data name whose values it serves, if it is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<DataName>,
    /// How many nodes have a value.
    pub values: u64,
    pub states: StateCounts,
    /// When the last of them came.
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub changed_at: Option<DateTime<Utc>>,
}

/// How many values are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct StateCounts {
    pub fresh: u64,
    pub stale: u64,
    pub failed: u64,
    pub node_lost: u64,
}

impl StateCounts {
    pub fn count(&mut self, state: State) {
        let counted = match state {
            State::Fresh => &mut self.fresh,
            State::Stale => &mut self.stale,
            State::Failed => &mut self.failed,
            State::NodeLost => &mut self.node_lost,
        };
        *counted += 1;
    }
}

/// A stable name that serves another one's values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    pub data_name: DataName,
    /// The data name whose values it serves.
    pub to: DataName,
    /// The part of each value that it serves, a JSON pointer; absent: the whole value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Pointer>,
    /// Since when.
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub since: DateTime<Utc>,
    pub revision: u64,
    /// The target of a rollback: the one that it served before; absent if it never served anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BindingTarget>,
}

/// The target that a bound name serves, or served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BindingTarget {
    /// The data name whose values are served.
    pub to: DataName,
    /// The part of each value, a JSON pointer; absent: the whole value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Pointer>,
}

/// A change of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwapAction {
    /// It was bound, for the first time or to something else.
    Bound,
    /// It was bound to what it served before.
    RolledBack,
    /// It was bound no more.
    Unbound,
}

impl SwapAction {
    pub const ALL: [SwapAction; 3] = [SwapAction::Bound, SwapAction::RolledBack, SwapAction::Unbound];

    pub fn as_str(self) -> &'static str {
        match self {
            SwapAction::Bound => "bound",
            SwapAction::RolledBack => "rolled-back",
            SwapAction::Unbound => "unbound",
        }
    }
}

/// One change of a binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Swap {
    /// The target that it serves from then on; the one that it served until then if it was unbound.
    #[serde(flatten)]
    pub served: BindingTarget,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    pub revision: u64,
    /// The author of the change.
    pub by: String,
    pub action: SwapAction,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// There was none before.
    Created,
    /// It replaced the one before.
    Replaced,
    /// A newer one was there already, which stays.
    Superseded,
    /// A report of failure about a value that there is none of.
    NoValue,
}

/// The answer to a write of one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WriteReceipt {
    pub outcome: Outcome,
    /// The value's revision now.
    pub revision: u64,
}

/// The answer to a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchReceipt {
    pub created: usize,
    pub replaced: usize,
    pub superseded: usize,
    /// The places in the batch of writes that were older than what is stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<usize>,
    /// The snapshot in which all of it is visible.
    pub revision: u64,
}

/// The answer to a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DeletionReceipt {
    pub deleted: usize,
    pub revision: u64,
}

/// The answer to a change of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StateReceipt {
    pub changed: usize,
    pub revision: u64,
}
