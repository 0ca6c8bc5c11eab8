//! The report of a run that somebody asked for.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::names::NodeName;
use crate::schema::optional;

/// The most of a run's output that a report carries.
pub const MAX_REPORT_OUTPUT_BYTES: usize = 64 * 1024;

/// Everything about one run that somebody asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// The argument vector that was run.
    pub argv: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    pub duration_ms: f64,
    pub cpu_ms: f64,
    /// In bytes; 0 if it held less than can be told.
    pub max_memory: u64,
    /// As much as is reported; bytes that are no text are shown as replacement characters.
    pub stdout: String,
    pub stdout_bytes: u64,
    pub stderr: String,
    /// The values that its output means, by node. They are not stored.
    pub values: Vec<RunValue>,
    /// A remark that is no failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why it gives no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunValue {
    pub node_name: NodeName,
    pub data_value: Value,
}

/// The end of a run that somebody asked for: everything about it, or the reason that the agent made none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "EitherOutcome")]
pub enum RunOutcome {
    Report(RunReport),
    Refused(String),
}

/// As it is read: fields that are not known are ignored, which an enum would not do.
#[derive(Deserialize)]
struct EitherOutcome {
    report: Option<RunReport>,
    refused: Option<String>,
}

impl TryFrom<EitherOutcome> for RunOutcome {
    type Error = &'static str;

    fn try_from(either: EitherOutcome) -> Result<Self, &'static str> {
        match (either.report, either.refused) {
            (Some(report), None) => Ok(RunOutcome::Report(report)),
            (None, Some(reason)) => Ok(RunOutcome::Refused(reason)),
            (Some(_), Some(_)) => Err("does not go with `refused`"),
            (None, None) => Err("is missing"),
        }
    }
}

crate::described!(
    RunOutcome,
    [RunReport],
    json!({
        "type": "object",
        "properties": {
            "report": optional::<RunReport>("Everything about the run"),
            "refused": { "description": "Why there was no run", "type": ["string", "null"] },
        },
        "allOf": [{ "oneOf": [
            { "required": ["report"], "properties": { "report": { "type": "object" }, "refused": { "type": "null" } } },
            { "required": ["refused"], "properties": { "refused": { "type": "string" }, "report": { "type": "null" } } },
        ] }],
        "examples": [{ "refused": "not allowed" }],
    })
);
