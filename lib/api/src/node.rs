//! Nodes, and the protocol between the manager and the agent of a node.
//!
//! An agent opens no port. It asks for its desired state ([`DesiredState`]) with a request that waits until there is a new
//! one, and reports with a [`Heartbeat`]. The answer says when the next one is due and for how long the slots that must
//! run once in the cluster may go on without another answer.
//!
//! Agent and manager may be of different versions: each ignores fields that it does not know. A registration and the
//! work of a task are the exceptions; see [`assignment`](crate::assignment) and [`task`](crate::task).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::assignment::AssignedRegistration;
use crate::is_zero;
use crate::labels::{LabelSource, MAX_LABELS};
use crate::names::{DataName, NodeName};
pub use crate::node_state::NodeState;
use crate::registration::Registration;
use crate::schema;
use crate::selector::{KEY_PATTERN, VALUE_PATTERN};
use crate::slot::Status;
use crate::task::TaskAssignment;

/// The longest that a request for the desired state waits.
pub const MAX_WAIT_MS: u64 = 60_000;

/// A description of the machine, as its agent found it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    pub hostname: String,
    /// Cores that the agent may use.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
    pub arch: String,
    pub kernel: String,
    /// The agent's own version.
    pub version: String,
    /// How processes that escape are caught: `cgroup v1`, `cgroup v2` or `subreaper`.
    pub containment: String,
    /// The folders whose executables may run.
    pub allow: Vec<String>,
    /// How processes of users' tasks run there; absent: its agent says nothing of it, and runs them as all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users_tasks: Option<UsersTasks>,
}

impl Facts {
    /// The agent runs no process for a task that has a user.
    pub fn refuses_users(&self) -> bool {
        self.users_tasks == Some(UsersTasks::Refused)
    }
}

/// The user of the machine as whom a node runs the processes of tasks that have a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum UsersTasks {
    /// None: its agent runs things as itself, and a task could read all that it can.
    Refused,
    /// The agent's own, as its operator allows.
    AsAgent,
    /// One for all of them, which is not the agent's.
    Together,
    /// One for each user of the cluster.
    Apart,
}

/// A node as the manager knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub node_name: NodeName,
    pub state: NodeState,
    /// Its agent, by the name under which that speaks; absent if the manager does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Lost since its agent said that it leaves, when nothing ran there any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// If true, it gets no further instances of registrations that run on a number of nodes.
    pub cordoned: bool,
    /// All of its labels; of the same key that which counts.
    pub labels: BTreeMap<String, String>,
    /// The source of each label.
    #[serde(default)]
    pub label_sources: BTreeMap<String, LabelSource>,
    pub facts: Facts,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub last_heartbeat: DateTime<Utc>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub known_since: DateTime<Utc>,
    /// How many instances belong there.
    pub instances: u64,
    pub delivery: Delivery,
    /// By how many milliseconds its clock is ahead of the manager's, as its agent found; values are corrected by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_ms: Option<i64>,
}

/// A clock that is off by less is as good as any.
const CLOCK_IS_OFF_MS: u64 = 1_000;

impl Node {
    /// By how many milliseconds its clock is ahead of the manager's, if that is worth telling.
    pub fn clock_off_ms(&self) -> Option<i64> {
        self.clock_ahead_ms.filter(|ahead| ahead.unsigned_abs() >= CLOCK_IS_OFF_MS)
    }
}

/// How an agent's deliveries to the data service go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Delivery {
    pub delivered: u64,
    /// Values that wait.
    pub waiting: u64,
    /// Bytes of them on the agent's disk.
    pub spooled_bytes: u64,
    /// Values given up because more waited than is kept.
    pub dropped: u64,
    /// Values that the data service did not take.
    pub refused: u64,
    /// Why the last delivery failed; none if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
}

/// The name under which an agent speaks.
#[derive(Debug)]
pub enum AgentName {}

crate::described!(AgentName, [], schema::text("1 to 128 visible ASCII characters", "^[!-~]{1,128}$", "a-1"));

/// The number of an agent's start.
#[derive(Debug)]
pub enum Boot {}

crate::described!(Boot, [], json!({ "type": "integer", "minimum": 1, "maximum": i64::MAX }));

/// The labels of a node, by which registrations choose it.
#[derive(Debug)]
pub enum Labels {}

crate::described!(
    Labels,
    [],
    json!({
        "description": "The labels of a node, by which registrations choose it",
        "type": "object",
        "propertyNames": { "pattern": KEY_PATTERN },
        "maxProperties": MAX_LABELS,
        "additionalProperties": { "type": "string", "pattern": VALUE_PATTERN },
    })
);

/// The most of the reason that a delivery failed for.
const MAX_FAILING_BYTES: usize = 4 * 1024;

impl Heartbeat {
    /// Cuts every text to what an agent has use for.
    pub fn bound(&mut self) {
        self.statuses.iter_mut().for_each(Status::bound);
        if let Some(reason) = &mut self.delivery.failing {
            crate::slot::cut(reason, MAX_FAILING_BYTES);
        }
    }
}

/// How an agent is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// Names the agent's data folder; two agents under one node name are told apart by it.
    #[schema(value_type = AgentName)]
    pub agent: String,
    /// Grows with each start of that agent.
    #[schema(value_type = Boot)]
    pub boot: u64,
    #[serde(default)]
    #[schema(value_type = Labels)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub facts: Facts,
    #[serde(default)]
    pub delivery: Delivery,
    /// The revision of the desired state that its slots follow; 0 if it has none yet. Whatever is not in it has
    /// been told to end, and has ended unless `stopping` names it.
    pub applied: u64,
    /// Slots whose processes are not gone yet.
    #[serde(default)]
    pub stopping: Vec<DataName>,
    /// If true, `statuses` are all there are; else those that have changed since the last answered heartbeat.
    #[serde(default)]
    pub full: bool,
    #[serde(default)]
    pub statuses: Vec<Status>,
    /// It ends: all its slots have ended, and nothing more will be heard of it.
    #[serde(default)]
    pub leaving: bool,
    /// By how many milliseconds the machine's clock is ahead of the manager's; absent: that is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_ms: Option<i64>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatAnswer {
    /// When the next one is due, in milliseconds.
    pub interval_ms: u64,
    /// How long leased slots may run on, in milliseconds from when this heartbeat was sent.
    pub lease_ms: u64,
    /// The next one should bring all statuses.
    pub resend: bool,
    /// The manager's clock when it answered.
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub now: Option<DateTime<Utc>>,
}

/// The desired state of an agent: everything that it should run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DesiredState {
    pub revision: u64,
    /// Where values are written; absent if that is where this was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_server: Option<String>,
    /// Where tasks are reported; absent if that is where this was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_server: Option<String>,
    pub slots: Vec<Assignment>,
    /// Runs that somebody waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunRequest>,
    /// The tasks that belong on the node; absent: those that it was told last, since the manager does not know them yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<TaskAssignment>>,
    /// How long ago the tasks were told, in milliseconds: by so much less is left of their time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tasks_age_ms: u64,
}

/// One registration that belongs on the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The epoch of the values that it writes.
    pub epoch: u64,
    /// If true, it may run only while heartbeats are answered, because it must not run twice in the cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leased: bool,
    /// The registration as the registry gives it.
    #[schema(value_type = Registration)]
    pub registration: AssignedRegistration,
}

/// A run that somebody asked for by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    pub id: u64,
    #[schema(value_type = Registration)]
    pub registration: AssignedRegistration,
}
