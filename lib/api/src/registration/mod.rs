//! A registration: how a data name is produced, where, and when. The paper's `t_DP`.
//!
//! A registration that exists is right: [`Registration::parse`] checks every field and says everything that
//! is wrong. Rules over several registrations (a taken name, a cycle of inputs) are the registry's to check.
//! The paper's three fields keep their names; everything else is optional.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::command::Command;
use crate::cron::CronExpr;
use crate::declaration;
use crate::duration::Span;
use crate::fields::{Fields, string, whole};
use crate::instant;
use crate::json::parse_object;
use crate::names::DataName;
use crate::problem::Problem;
use crate::selector::Selector;

mod batch;
mod described;
mod env;
mod expect;
mod fields;
mod page;
mod parts;
mod patch;
mod rules;
mod sha256;
mod upload;
mod values;

pub use batch::{Batch, BatchAction, BatchOutcome, MAX_BATCH_BYTES, MAX_BATCH_NAMES};
pub use described::RegistrationInput;
pub use env::{no_secrets, redact};
pub use expect::Expectations;
pub use fields::FIELDS;
pub use page::fields_page;
pub use parts::{History, Limits};
pub use patch::{MERGE_PATCH_MEDIA_TYPE, RegistrationPatch};
pub use rules::TIMING_FIELDS;
pub use sha256::{SHA256_EXPECTED, Sha256};
pub use upload::{MAX_UPLOAD_BYTES, Upload, UploadReceipt, UploadSignature};

use rules::RULES;

/// The largest body of a registration.
pub const MAX_REGISTRATION_BYTES: usize = 64 * 1024;
/// The most names a processor may read.
pub const MAX_INPUTS: usize = 256;
/// The most registrations there may be.
pub const MAX_REGISTRATIONS: usize = 10_000;
/// The shortest interval, in microseconds.
pub const MIN_INTERVAL_MICROS: u64 = 10_000;
/// The longest interval and timeout, in microseconds: a year.
pub const MAX_INTERVAL_MICROS: u64 = 366 * 86_400 * 1_000_000;

/// A collector measures, a processor derives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Collector,
    Processor,
}

/// How an instance is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A run at each due time.
    #[default]
    Exec,
    /// One long-lived process that prints a value a line.
    Stream,
    /// A collector inside the agent; `cmd` is its name.
    Builtin,
    /// An expression over the inputs; `cmd` is its text.
    Expr,
}

/// How output becomes values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON if it parses, else the trimmed text.
    #[default]
    Auto,
    Text,
    Json,
    Number,
    /// An object of node name to value: one instance answers for all nodes.
    Nodes,
    /// Prometheus' and OpenMetrics' text.
    #[serde(alias = "openmetrics")]
    Prometheus,
    /// Influx' line protocol.
    Influx,
    /// A Nagios plugin: its exit code, its text and its performance data.
    Nagios,
    /// The output of a munin plugin.
    Munin,
    /// Netdata's external plugins, which live long.
    Netdata,
    /// Lines of fields with commas, the first of which names them.
    Csv,
    /// Lines of `key=value`.
    Logfmt,
    /// JSON documents, one a line.
    Ndjson,
}

/// When an instance runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Timing {
    /// Every so often, from start to start: the paper's `max-Time`.
    Every(Span),
    /// So long after the end of the run before.
    Gap(Span),
    /// At the times of a calendar.
    Cron(CronExpr),
}

/// `5s`, `gap 5s`, or the cron expression.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Timing::Every(span) => write!(f, "{span}"),
            Timing::Gap(span) => write!(f, "gap {span}"),
            Timing::Cron(expr) => write!(f, "{expr}"),
        }
    }
}

/// When within its interval an instance runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Each instance at a moment of its own, so that the load is even.
    #[default]
    Staggered,
    /// All of them at the same moments of the wall clock, so that their values can be compared.
    Aligned,
}

/// On how many of the matching nodes it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicas {
    All,
    Count(u32),
}

/// How a data name is produced.
#[derive(Clone, PartialEq)]
pub struct Registration {
    pub data_name: DataName,
    pub cmd: Command,
    pub timing: Timing,
    /// With a calendar: it runs as soon as an agent has it, too.
    pub at_once: bool,
    pub phase: Phase,
    /// It runs nowhere for now.
    pub paused: bool,
    pub kind: Kind,
    pub mode: Mode,
    pub format: Format,
    /// One bad record spoils the whole output.
    pub strict: bool,
    /// The exit codes after which output is read; none: the format's own.
    pub ok_exits: BTreeSet<u8>,
    /// The expectations of its values; others are kept from readers.
    pub expect: Expectations,
    pub timeout: Option<Span>,
    pub nodes: Selector,
    pub replicas: Replicas,
    pub inputs: Vec<DataName>,
    /// Passed to the executable as `ESTIMAND_PARAM_*`.
    pub params: BTreeMap<String, Value>,
    /// With the values of secrets, except where those are withheld.
    pub env: BTreeMap<String, String>,
    /// The variables whose values go to agents and are shown to nobody.
    pub secrets: BTreeSet<String>,
    /// The digest of the executable's file.
    pub sha256: Option<Sha256>,
    /// The file that is run, if it comes along.
    pub upload: Option<Upload>,
    /// How much of the past is kept, if any.
    pub history: Option<History>,
    pub limits: Limits,
    /// The set of the `apply` that registered it.
    pub config_set: Option<DataName>,
}

/// A registration as the registry holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistrationRecord {
    pub registration: Registration,
    /// Grows with every change of this data name's registration, also across a deletion.
    pub version: u64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// One entry of a registration's audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub version: u64,
    pub action: Action,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    /// The author of the change.
    pub by: String,
    /// The registration from then on; for a deletion the one until then. One that an older version wrote may look
    /// otherwise than a registration does now.
    #[schema(value_type = Object)]
    pub registration: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Created,
    Replaced,
    Deleted,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Created => "created",
            Action::Replaced => "replaced",
            Action::Deleted => "deleted",
        }
    }
}

/// A registration as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmittedRegistration {
    pub registration: Registration,
    /// The version it was made from, as a GET gave it: then the replacement is refused if there is a newer one.
    pub version: Option<u64>,
}

impl Registration {
    /// Reads the body of a registration, checks all of it, and says all that is wrong.
    ///
    /// The answer of a GET may be sent back: `version` then guards against overwriting another client's change,
    /// `createdAt` and `updatedAt` are the registry's own and must only be instants.
    pub fn parse(body: &[u8]) -> Result<SubmittedRegistration, Problem> {
        Self::from_map(parse_object(body)?)
    }

    /// The same from an object that is parsed already.
    pub fn from_map(map: Map<String, Value>) -> Result<SubmittedRegistration, Problem> {
        let mut fields = Fields::new(map);
        let mut registration = Registration::blank();
        declaration::read(FIELDS, &mut fields, &mut registration);
        for rule in RULES {
            (rule.check)(&registration, &mut fields);
        }
        let version = fields.optional("version", "the version it was made from", |v| whole(v, 1, u64::MAX));
        for name in ["createdAt", "updatedAt"] {
            fields.optional(name, "an instant, as the registry gave it", |value| {
                instant::parse_rfc3339(string(value)?).ok_or("is not an instant".to_owned())
            });
        }
        fields.end_body()?;
        Ok(SubmittedRegistration { registration, version })
    }

    /// A registration before anything of it has been read: the defaults, and placeholders of the required fields.
    fn blank() -> Self {
        Registration {
            data_name: DataName::unread(),
            cmd: Command::Line(String::new()),
            timing: Timing::Every(Span::ZERO),
            at_once: false,
            phase: Phase::default(),
            paused: false,
            kind: Kind::default(),
            mode: Mode::default(),
            format: Format::default(),
            strict: false,
            ok_exits: BTreeSet::new(),
            expect: Expectations::default(),
            timeout: None,
            nodes: Selector::default(),
            replicas: Replicas::All,
            inputs: Vec::new(),
            params: BTreeMap::new(),
            env: BTreeMap::new(),
            secrets: BTreeSet::new(),
            sha256: None,
            upload: None,
            history: None,
            limits: Limits::default(),
            config_set: None,
        }
    }

    /// The interval in seconds, the paper's `time_max`; none for a gap or a calendar.
    pub fn time_max(&self) -> Option<f64> {
        match &self.timing {
            Timing::Every(span) => Some(span.as_micros() as f64 / 1e6),
            Timing::Gap(_) | Timing::Cron(_) => None,
        }
    }

    /// One instance gives values of nodes other than its own.
    pub fn answers_for_others(&self) -> bool {
        let computed = matches!(self.mode, Mode::Expr | Mode::Builtin);
        self.format == Format::Nodes || (computed && self.replicas != Replicas::All)
    }

    /// The registration as JSON, secrets included; optional fields that say nothing are left out.
    pub fn to_map(&self) -> Map<String, Value> {
        declaration::write(FIELDS, self)
    }
}

/// Without secrets, since this ends up in logs.
impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration({})", Value::Object(self.redacted().to_map()))
    }
}

impl RegistrationRecord {
    /// The same without the values of its secrets.
    #[must_use]
    pub fn redacted(&self) -> RegistrationRecord {
        RegistrationRecord { registration: self.registration.redacted(), ..self.clone() }
    }

    pub fn to_map(&self) -> Map<String, Value> {
        let mut map = self.registration.to_map();
        map.insert("version".to_owned(), json!(self.version));
        map.insert("createdAt".to_owned(), json!(instant::to_rfc3339(self.created_at.timestamp_micros())));
        map.insert("updatedAt".to_owned(), json!(instant::to_rfc3339(self.updated_at.timestamp_micros())));
        map
    }

    /// Reads a registration that a registry returned.
    pub fn from_map(map: Map<String, Value>) -> Result<Self, Problem> {
        let at = |name: &str| {
            let text = map.get(name).and_then(Value::as_str).unwrap_or_default();
            DateTime::parse_from_rfc3339(text).map(|at| at.with_timezone(&Utc)).unwrap_or_default()
        };
        let (created_at, updated_at) = (at("createdAt"), at("updatedAt"));
        let SubmittedRegistration { registration, version } = Registration::from_map(map)?;
        Ok(RegistrationRecord { registration, version: version.unwrap_or(1), created_at, updated_at })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
