//! The events of tasks, in one order over all of them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::labels::LabelMap;
use crate::task::TaskEnding;

/// The `to` of the event that says that a task was deleted.
pub const DELETED: &str = "DELETED";

/// Something that happened to a task: its submission, a change of its state, or that it was deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskEvent {
    /// Of events of all tasks together each has one more than the one before.
    pub revision: u64,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    pub id: String,
    /// The number of the task, which is never given again; an id may be, once its task is deleted.
    pub number: u64,
    /// The state before; none at its submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The state from then on, or `DELETED`.
    pub to: String,
    /// How often it was placed.
    #[serde(default)]
    pub attempt: u32,
    /// The node where the attempt is or was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How the last attempt that ended did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<TaskEnding>,
    /// Its cause. That of a submission has the task's `resources` (`cpu` in thousandths, `memory` in bytes) and
    /// `priority`.
    #[schema(value_type = Object)]
    pub cause: Value,
    /// `"scheduler"`, or an agent or a user by name: `{"agent": "node-1"}`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub actor: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "LabelMap::is_empty")]
    pub labels: LabelMap,
}

/// A page of events, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskEventPage {
    pub events: Vec<TaskEvent>,
    /// The value of `after` that gives what follows.
    pub next: u64,
    /// The newest revision there is.
    pub revision: u64,
}
