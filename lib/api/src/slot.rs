//! Instances: the reports of an agent about its slots, and the view of them that readers get. [`RunReport`] is that of
//! a run by hand.

mod run_report;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

pub use run_report::{MAX_REPORT_OUTPUT_BYTES, RunOutcome, RunReport, RunValue};

use crate::is_zero;
use crate::names::{DataName, NodeName};
use crate::node_state::NodeState;
use crate::schema::{literal, of};

/// The most of a run's stderr that a status carries: its end.
pub const MAX_STATUS_STDERR_BYTES: usize = 4 * 1024;

/// The activity of a slot just now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SlotActivity {
    /// Nothing was heard of it yet.
    #[default]
    Pending,
    /// It waits for its time.
    Idle,
    /// It is due and waits for its turn, because as many run as may.
    Waiting,
    Running,
    /// Its process ended, and is started again after a pause.
    BackingOff,
    /// There is nothing on this machine that it could measure: `note` says what is missing.
    Unavailable,
    /// The agent does not run it: `lastError` says why.
    Refused,
    /// It may not run until the manager is heard of again.
    Unleased,
    /// It is being ended.
    Stopping,
}

impl SlotActivity {
    pub fn as_str(self) -> &'static str {
        match self {
            SlotActivity::Pending => "pending",
            SlotActivity::Idle => "idle",
            SlotActivity::Waiting => "waiting",
            SlotActivity::Running => "running",
            SlotActivity::BackingOff => "backing-off",
            SlotActivity::Unavailable => "unavailable",
            SlotActivity::Refused => "refused",
            SlotActivity::Unleased => "unleased",
            SlotActivity::Stopping => "stopping",
        }
    }
}

/// How a slot is. Counts are since the agent's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub data_name: DataName,
    /// The version of the registration that produces its values.
    pub version: u64,
    pub doing: SlotActivity,
    /// Runs that have ended; for a stream, values.
    pub runs: u64,
    /// Those of them that gave no value because something was wrong.
    pub failures: u64,
    /// Those of them that were ended because they took too long.
    pub timeouts: u64,
    /// Values that were not what the registration declares, and were kept from readers.
    #[serde(default)]
    pub quarantined: u64,
    /// Its writes that were older than what the data service has, which stays.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub superseded: u64,
    /// Times that it was due while it still ran or waited.
    pub overruns: u64,
    /// How often the process of a stream was started again.
    #[serde(default)]
    pub restarts: u64,
    /// Failures since the last good run.
    pub failing: u64,
    /// Runs since the last value that ended well and gave none.
    #[serde(default)]
    pub without_value: u64,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_start: Option<DateTime<Utc>>,
    /// How long the last run took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_duration_ms: Option<f64>,
    /// How it ended: `exit 0`, `signal 9`, `timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<String>,
    /// How long it waited for its turn, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_wait_ms: Option<f64>,
    /// Processor time of the last run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_cpu_ms: Option<f64>,
    /// The most memory that one process of the last run held, in bytes; missing if it held less than can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_memory: Option<u64>,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_good: Option<DateTime<Utc>>,
    /// Why the last run failed, or why none is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// A remark about the last run that is no failure: records that were left out, inputs that it
    /// waits for, why it gave no value, what it was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The last value that was quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_quarantined: Option<QuarantinedValue>,
    /// The end of what the last run that wrote to stderr wrote there; of a stream also while it goes on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// True if the last run was none, because the program is not on the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// A newer version that has not had a good run yet, while the old one goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextVersion>,
    /// The limits of the registration that this machine cannot enforce.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<String>,
}

impl Status {
    /// A slot of which nothing is known yet.
    pub fn new(data_name: DataName, version: u64) -> Self {
        Status {
            data_name,
            version,
            doing: SlotActivity::Pending,
            runs: 0,
            failures: 0,
            timeouts: 0,
            quarantined: 0,
            superseded: 0,
            overruns: 0,
            restarts: 0,
            failing: 0,
            without_value: 0,
            last_start: None,
            last_duration_ms: None,
            last_exit: None,
            last_wait_ms: None,
            last_cpu_ms: None,
            last_memory: None,
            last_good: None,
            last_error: None,
            note: None,
            last_quarantined: None,
            stderr_tail: String::new(),
            missing: false,
            next: None,
            unenforced: Vec::new(),
        }
    }
}

/// The most of a sentence in a status: a reason, a note.
pub const MAX_STATUS_TEXT_BYTES: usize = 4 * 1024;
/// Of standard error with replacement characters for what is no text.
const MAX_STATUS_TAIL_BYTES: usize = 3 * MAX_STATUS_STDERR_BYTES;
/// How a run ended, in a few words.
const MAX_STATUS_EXIT_BYTES: usize = 256;
/// Lines about limits that a machine cannot enforce: one for each limit and some more.
const MAX_UNENFORCED: usize = 16;

impl Status {
    /// Cuts every text to what an agent has use for. Whoever keeps statuses keeps no more than that, whatever an agent
    /// says.
    pub fn bound(&mut self) {
        let next = self.next.as_mut().and_then(|next| next.last_error.as_mut());
        let sentences = [self.last_error.as_mut(), self.note.as_mut(), next].into_iter().flatten();
        sentences.for_each(|text| cut(text, MAX_STATUS_TEXT_BYTES));
        if let Some(quarantined) = &mut self.last_quarantined {
            cut(&mut quarantined.reason, MAX_STATUS_TEXT_BYTES);
            cut(&mut quarantined.value, MAX_STATUS_TEXT_BYTES);
        }
        if let Some(exit) = &mut self.last_exit {
            cut(exit, MAX_STATUS_EXIT_BYTES);
        }
        cut(&mut self.stderr_tail, MAX_STATUS_TAIL_BYTES);
        self.unenforced.truncate(MAX_UNENFORCED);
        self.unenforced.iter_mut().for_each(|text| cut(text, MAX_STATUS_TEXT_BYTES));
    }
}

/// Cuts the end of a text that is too long, at a character, and frees its memory.
pub(crate) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.shrink_to_fit();
    }
}

/// A value that was not what its registration declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantinedValue {
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    pub reason: String,
    /// The beginning of its JSON text.
    pub value: String,
}

/// How much of a quarantined value is kept.
pub const MAX_QUARANTINED_CHARS: usize = 512;

/// A version on trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextVersion {
    pub version: u64,
    pub failures: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// One registration on one node, as a reader is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    pub node_name: NodeName,
    pub node_state: NodeState,
    /// The version that is registered; none if it is registered no more and its slot still ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<u64>,
    /// If neither its node nor another one can run a counted instance: the reasons of the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub passed_over: BTreeMap<NodeName, String>,
    #[serde(flatten)]
    pub status: Status,
}

/// The schema of a status and further fields. That of a status takes no other fields, so it cannot be referred to.
impl PartialSchema for Instance {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut object)) = Status::schema() else { return Status::schema() };
        object.additional_properties = None;
        object.description = Some("One registration on one node".to_owned());
        let registered =
            json!({ "description": "The version that is registered", "type": "integer", "minimum": 0 });
        object.properties.insert("nodeName".to_owned(), literal(of::<NodeName>("")));
        object.properties.insert("nodeState".to_owned(), literal(of::<NodeState>("")));
        let passed_over = json!({
            "description": "If neither its node nor another one can run an instance of a registration that runs on a number \
                            of nodes: the other nodes, each with its reason",
            "type": "object", "propertyNames": of::<NodeName>(""), "additionalProperties": { "type": "string" },
        });
        object.properties.insert("registered".to_owned(), literal(registered));
        object.properties.insert("passedOver".to_owned(), literal(passed_over));
        object.required.extend(["nodeName".to_owned(), "nodeState".to_owned()]);
        object.into()
    }
}

impl ToSchema for Instance {
    fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.push((NodeState::name().into_owned(), NodeState::schema()));
        Status::schemas(all);
    }
}

/// How many failures in a row call for attention after a good run. Without one, the first does.
pub const FAILING_AFTER: u64 = 3;
/// How many runs in a row without a value are worth a note after one with a value. Without one, the first is.
pub const WITHOUT_VALUE_AFTER: u64 = 10;

impl Instance {
    /// True if its node has nothing that it could measure, which is neither well nor a trouble.
    pub fn is_absent(&self) -> bool {
        self.status.doing == SlotActivity::Unavailable && self.trouble().is_none()
    }

    /// The reason why it needs attention, if it does.
    pub fn trouble(&self) -> Option<String> {
        let status = &self.status;
        let reason = |text: &Option<String>| text.clone().unwrap_or_else(|| "no reason is known".to_owned());
        if self.node_state == NodeState::Lost {
            return Some("its node is lost".to_owned());
        }
        if !self.passed_over.is_empty() {
            let own = reason(if status.last_error.is_some() { &status.last_error } else { &status.note });
            let others = self.passed_over.iter().map(|(node, reason)| format!("; {node}: {reason}"));
            return Some(format!(
                "no node can run it: {}: {own}{}",
                self.node_name,
                others.collect::<String>()
            ));
        }
        if status.doing == SlotActivity::Refused {
            return Some(reason(&status.last_error));
        }
        // A version on trial has had no good run.
        if let Some(next) = status.next.as_ref().filter(|next| next.failures > 0) {
            return Some(format!(
                "version {} failed {}, version {} goes on: {}",
                next.version,
                in_runs(next.failures, next.failures),
                status.version,
                reason(&next.last_error)
            ));
        }
        let never_good = status.last_good.is_none();
        if status.failing >= if never_good { 1 } else { FAILING_AFTER } {
            let runs = if never_good { status.runs } else { u64::MAX };
            return Some(format!("failed {}: {}", in_runs(status.failing, runs), reason(&status.last_error)));
        }
        (never_good && status.without_value > 0).then(|| {
            format!("gave no value {}: {}", in_runs(status.without_value, status.runs), reason(&status.note))
        })
    }
}

/// How the instances of one registration are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSummary {
    pub data_name: DataName,
    pub instances: u64,
    /// Instances on nodes that have nothing that they could measure.
    #[serde(default)]
    pub absent: u64,
    /// Those that need attention.
    pub troubled: u64,
    /// The first of those, in the order of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Trouble>,
}

/// An instance that needs attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    pub node_name: NodeName,
    /// Why.
    pub trouble: String,
    /// The end of what its last run that wrote to stderr wrote there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
}

impl InstanceSummary {
    pub fn new(data_name: DataName) -> Self {
        InstanceSummary { data_name, instances: 0, absent: 0, troubled: 0, first: None }
    }

    pub fn count(&mut self, instance: &Instance) {
        self.instances += 1;
        self.absent += u64::from(instance.is_absent());
        let Some(trouble) = instance.trouble() else { return };
        self.troubled += 1;
        self.first.get_or_insert_with(|| Trouble {
            node_name: instance.node_name.clone(),
            trouble,
            stderr_tail: instance.status.stderr_tail.clone(),
        });
    }
}

/// How often something happened last, of so many runs.
fn in_runs(times: u64, runs: u64) -> String {
    match times {
        1 if runs == 1 => "in its first run".to_owned(),
        times if times == runs => format!("in all {times} runs so far"),
        1 => "1 time in a row".to_owned(),
        times => format!("{times} times in a row"),
    }
}
