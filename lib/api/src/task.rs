//! A task between the task service, the manager and the agent of its node.
//!
//! The task service chooses the node and says what the node is to run; the manager carries that to the agent beside the
//! slots, without looking into it; the agent reports what becomes of it, and its log, to the task service. A report
//! names the attempt that it is about, so that one which is late or repeated changes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::image::ImageDigest;
use crate::json_text::JsonText;
use crate::names::NodeName;
use crate::promise::PromiseEnd;
use crate::task_files::{OutputPattern, TaskInput, TaskOutputs};
use crate::task_log::{OpenLines, TaskLog};
use crate::task_stop::StopOrder;
use crate::task_usage::TaskUsage;

/// The label that agents claim which run containers: tasks with an image are placed on no other node.
pub const CONTAINERS_LABEL: &str = "docker";

/// The variable that says at which port a task is to listen.
pub const PORT_VARIABLE: &str = "ESTIMAND_TASK_PORT";

/// The variable that has the parameters of a trial as JSON. Of all that begin with `ESTIMAND_` it alone is given by whoever submits a
/// task; every node lets it through.
pub const PARAMETERS_VARIABLE: &str = "ESTIMAND_TASK_PARAMETERS";

/// How long a task may go on while its node is not heard of, at least and at most.
pub const LEASES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(7 * 86_400);
/// The form of such a lease, for messages.
pub const LEASE_EXPECTED: &str = "a duration from 1s to 7d, such as \"10m\"";

/// An attempt at a task that belongs on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskAssignment {
    pub id: String,
    /// Counts from 1.
    pub attempt: u32,
    /// The user whose task it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// It must end when its lease is over, since it may be started elsewhere then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leased: bool,
    /// How long it may go on after the last heartbeat of its node that was answered with a lease, in milliseconds; absent, or
    /// shorter than that lease: as long as a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// It is to end now; it stays assigned until its end is reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop: bool,
    /// With `stop`: it is asked to save its work before it is ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// With `stop`: the milliseconds until it is killed, from when its agent hears of it; 0: at once. Absent: 10 s, with
    /// `checkpoint` 20 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// The end of the promise on which it runs; absent: it has none, or its end is told by `stop` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<PromiseEnd>,
    #[schema(value_type = TaskWork)]
    pub work: AssignedWork,
}

impl TaskAssignment {
    /// The order to end it, if it is to end.
    pub fn stop_order(&self) -> Option<StopOrder> {
        self.stop.then_some(StopOrder { grace_ms: self.grace_ms, checkpoint: self.checkpoint })
    }
}

/// The work of an assignment. One that this version cannot read is decoded all the same, so that it stops neither the
/// others nor the conversation, and is written back to the letter.
#[derive(Clone, PartialEq, Eq)]
pub enum AssignedWork {
    Supported(Box<TaskWork>),
    Unsupported {
        /// The field that is not known or not right.
        reason: String,
        work: JsonText,
    },
}

impl AssignedWork {
    pub fn supported(&self) -> Result<&TaskWork, &str> {
        match self {
            AssignedWork::Supported(work) => Ok(work),
            AssignedWork::Unsupported { reason, .. } => Err(reason),
        }
    }
}

impl Default for AssignedWork {
    fn default() -> Self {
        TaskWork::default().into()
    }
}

/// Without what was not understood, which may have secrets.
impl fmt::Debug for AssignedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.supported() {
            Ok(work) => work.fmt(f),
            Err(reason) => write!(f, "Unsupported({reason})"),
        }
    }
}

impl From<TaskWork> for AssignedWork {
    fn from(work: TaskWork) -> Self {
        AssignedWork::Supported(Box::new(work))
    }
}

impl Serialize for AssignedWork {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AssignedWork::Supported(work) => work.serialize(serializer),
            AssignedWork::Unsupported { work, .. } => work.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for AssignedWork {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let work = JsonText::deserialize(deserializer)?;
        Ok(match serde_json::from_str(work.as_str()) {
            Ok(known) => AssignedWork::Supported(known),
            Err(error) => {
                let place = format!(" at line {} column {}", error.line(), error.column());
                AssignedWork::Unsupported { reason: error.to_string().replace(&place, ""), work }
            }
        })
    }
}

/// The work of a task as its agent gets it. An agent that does not know one of its fields does not run it, because
/// the field may be a bound.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskWork {
    /// The container's image; none for a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The one content of the image that is run, whatever its name means on the node; none: what the name means there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<ImageDigest>,
    /// The program and its arguments; empty: what the image runs by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// None: a folder of the attempt's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<TaskVolume>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The variables whose values are shown to nobody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Thousandths of a processor; none: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    /// Bytes; none: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u64>,
    /// The files that lie in its folder when it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<TaskInput>,
    /// Those that are kept when it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub outputs: Vec<OutputPattern>,
    /// The port at which it listens; 0: its agent chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl TaskWork {
    pub fn has_files(&self) -> bool {
        !self.inputs.is_empty() || !self.outputs.is_empty()
    }
}

/// Without its environment, which may have secrets.
impl fmt::Debug for TaskWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskWork { image, command, .. } = self;
        write!(f, "TaskWork({image:?}, {command:?})")
    }
}

/// A folder of the node, and where the task finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskVolume {
    pub source: String,
    pub target: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// The tasks that belong on a node, as the task service tells the manager: all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTasks {
    pub tasks: Vec<TaskAssignment>,
}

/// The answer of a manager that was told the tasks of a node, or is asked of which nodes it knows them. It keeps them in
/// memory, for as long as it leads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesTold {
    /// Of its leadership; another one knows nothing of what was told before.
    pub epoch: u64,
    pub nodes: Vec<NodeName>,
}

/// The news of one attempt, from the agent of its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskReport {
    pub id: String,
    pub attempt: u32,
    /// Microseconds since 1970, by the node's clock.
    pub at: i64,
    /// Microseconds from then to this report, by the node's clock. Agents of before don't say it: it was just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ago: Option<u64>,
    pub stage: TaskStage,
    /// With its end: its outputs, which were stored before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<TaskOutputs>,
}

/// How far an attempt is. Each includes those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum TaskStage {
    /// The agent has it on its disk.
    Accepted,
    /// Its image and files are made ready.
    Preparing,
    Running,
    /// Nothing of it is left on the node, and all of its log was delivered before.
    Ended {
        ending: TaskEnding,
        /// How its program ended, where `ending` is the reason for which it was ended. Agents of before don't say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<TaskEnding>,
        /// Agents of before don't say it, and of a container there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<TaskUsage>,
    },
}

/// The end of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum TaskEnding {
    /// It ended by itself.
    Exit(i32),
    Signal(i32),
    OutOfMemory,
    /// It took longer than its `timeout`.
    TimedOut,
    Cancelled,
    /// The lease of its node was over, or the node was started anew under it.
    NodeLost,
    ImageMissing,
    /// There is no such file among those of its user.
    InputMissing(String),
    /// The node does not allow it, or has not what it needs.
    NotStarted(String),
    /// It never ran: this task, after whose success it was to run, did not succeed.
    Dependency(String),
    /// Its promise was over, released or broken before it had ended.
    Promise(String),
}

impl TaskEnding {
    pub fn is_success(&self) -> bool {
        *self == TaskEnding::Exit(0)
    }

    /// It is how a program ended, and not the reason for which it was ended.
    pub fn is_of_program(&self) -> bool {
        matches!(self, TaskEnding::Exit(_) | TaskEnding::Signal(_) | TaskEnding::OutOfMemory)
    }

    /// It began, and something of it may be there to be kept.
    pub fn leaves_outputs(&self) -> bool {
        match self {
            TaskEnding::Exit(_)
            | TaskEnding::Signal(_)
            | TaskEnding::OutOfMemory
            | TaskEnding::TimedOut
            | TaskEnding::Cancelled
            | TaskEnding::Promise(_) => true,
            TaskEnding::NodeLost
            | TaskEnding::ImageMissing
            | TaskEnding::InputMissing(_)
            | TaskEnding::NotStarted(_)
            | TaskEnding::Dependency(_) => false,
        }
    }

    /// Another run may end otherwise. An image that is missing, or a command that is not allowed, stays so.
    pub fn may_pass(&self) -> bool {
        match self {
            TaskEnding::Exit(code) => *code != 0,
            TaskEnding::Signal(_) | TaskEnding::OutOfMemory | TaskEnding::TimedOut | TaskEnding::NodeLost => {
                true
            }
            TaskEnding::Cancelled
            | TaskEnding::ImageMissing
            | TaskEnding::InputMissing(_)
            | TaskEnding::NotStarted(_)
            | TaskEnding::Dependency(_)
            | TaskEnding::Promise(_) => false,
        }
    }

    /// One word for it, as figures and lists have it.
    pub fn word(&self) -> &'static str {
        match self {
            TaskEnding::Exit(0) => "success",
            TaskEnding::Exit(_) => "exit",
            TaskEnding::Signal(_) => "signal",
            TaskEnding::OutOfMemory => "out-of-memory",
            TaskEnding::TimedOut => "timeout",
            TaskEnding::Cancelled => "cancelled",
            TaskEnding::NodeLost => "node-lost",
            TaskEnding::ImageMissing => "image-missing",
            TaskEnding::InputMissing(_) => "input-missing",
            TaskEnding::NotStarted(_) => "not-started",
            TaskEnding::Dependency(_) => "dependency",
            TaskEnding::Promise(_) => "promise",
        }
    }
}

/// The end in words, for people.
impl fmt::Display for TaskEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskEnding::Exit(code) => write!(f, "exit code {code}"),
            TaskEnding::Signal(signal) => write!(f, "signal {signal}"),
            TaskEnding::OutOfMemory => f.write_str("out of memory"),
            TaskEnding::TimedOut => f.write_str("took longer than its timeout"),
            TaskEnding::Cancelled => f.write_str("cancelled"),
            TaskEnding::NodeLost => f.write_str("its node was lost"),
            TaskEnding::ImageMissing => f.write_str("its image is missing"),
            TaskEnding::InputMissing(file) => write!(f, "its input `{file}` is missing"),
            TaskEnding::NotStarted(reason) => write!(f, "not started: {reason}"),
            TaskEnding::Dependency(task) => write!(f, "`{task}`, after which it was to run, did not succeed"),
            TaskEnding::Promise(reason) => f.write_str(reason),
        }
    }
}

/// The reports and logs of a node's tasks, sent together: logs first, so that an end is reported after its log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskNews {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<TaskLog>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<TaskReport>,
    /// The unfinished lines of attempts, where they changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenLines>,
}
