//! A task as readers see it, and the capacity of the cluster.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::image::TaskImage;
use crate::task::TaskEnding;
use crate::task_files::TaskOutputs;
use crate::task_progress::TaskProgress;
use crate::task_usage::AttemptUsage;

/// The longest that a request for a task or its log waits.
pub const MAX_TASK_WAIT_MS: u64 = 60_000;

/// A task or an array of them, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    pub id: String,
    /// `QUEUED`, `PLACED`, `ACCEPTED`, `PREPARING`, `RUNNING`, `STOPPING`, `LOST`, `SUCCEEDED`, `FAILED` or `CANCELLED`.
    pub state: String,
    /// How often it was placed.
    pub attempt: u32,
    /// The node where the attempt is or was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How the last attempt that ended did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<TaskEnding>,
    /// How the program of that attempt ended, where `ending` is the reason for which it was ended: an exit code of 0 after a
    /// checkpoint was asked for, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<TaskEnding>,
    /// How many of its retries are used.
    #[serde(default)]
    pub failures: u32,
    /// It is not placed again before that.
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub not_before: Option<DateTime<Utc>>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub submitted_at: DateTime<Utc>,
    pub submitted_by: String,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<DateTime<Utc>>,
    /// The number of the next line of its log.
    #[serde(default)]
    pub lines: u64,
    /// How far it said it is, the last time that it did; for a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<TaskProgress>,
    /// The first line that was to be progress and is none, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_problem: Option<String>,
    /// The array that it is of, and its place there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// For an array: how many of its tasks are in each state. Its own state is over when they all are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, u32>,
    /// The tasks and arrays that it comes after and that are not over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<String>,
    /// Why it is not placed; for a single task that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The published image that its `image` named when it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<TaskImage>,
    /// As it was submitted, without the values of its secrets.
    #[schema(value_type = Object)]
    pub document: Map<String, Value>,
    /// The decision by which it is where it is: the policy, the score and the fact of the chosen node, and of others; for
    /// a single task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub why: Option<Value>,
    /// The outputs of the last attempt that ended and had any to keep; for a single task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<TaskOutputs>,
    /// The usage of its attempts that ended and were measured, the first one first; in a list only of the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<AttemptUsage>,
    /// Everything that happened to it; for a single task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<TaskTransition>,
}

impl TaskRecord {
    /// It is an array rather than one task.
    pub fn is_array(&self) -> bool {
        !self.states.is_empty()
    }

    /// Nothing more happens to it.
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "SUCCEEDED" | "FAILED" | "CANCELLED")
    }
}

/// A change of a task's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskTransition {
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    pub from: String,
    pub to: String,
    /// The event that caused it, with the attempt that it is about.
    #[schema(value_type = Object)]
    pub cause: Value,
    /// `"scheduler"`, or an agent or a user by name: `{"agent": "node-1"}`.
    #[schema(value_type = serde_json::Value)]
    pub actor: Value,
}

/// A page of tasks, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskPage {
    pub tasks: Vec<TaskRecord>,
    /// The value of `before` that gives the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A node with its capacity, as the ledger of the task service has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCapacity {
    pub node: String,
    /// `up`, `cordoned` (nothing new is placed there) or `lost`.
    pub standing: String,
    /// `cpu` in thousandths of a processor, `memory` in bytes, and a count of each countable label.
    pub capacity: BTreeMap<String, u64>,
    /// The part of it that no task has.
    pub free: BTreeMap<String, u64>,
    /// The part that is promised now and that tasks without a promise still have; they leave it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub awaited: BTreeMap<String, u64>,
    /// How many tasks are placed there.
    pub tasks: u32,
}
