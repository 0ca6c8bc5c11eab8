//! How far a task is, as it says itself in a line of its standard output:
//! `estimand-progress {"step": 3, "of": 90, "values": {"accuracy": 0.91}}`.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::is_zero;

/// The beginning of a line of progress.
pub const PROGRESS_PREFIX: &str = "estimand-progress ";
/// The longest line of progress.
pub const MAX_PROGRESS_BYTES: usize = 4 * 1024;
/// The most values of one report, and the longest name of one.
pub const MAX_PROGRESS_VALUES: usize = 64;
pub const MAX_PROGRESS_NAME_BYTES: usize = 64;

/// A line of progress, as its task wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgressLine {
    pub step: Option<Number>,
    pub of: Option<Number>,
    pub values: BTreeMap<String, Number>,
}

/// How far a task said it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskProgress {
    pub attempt: u32,
    /// The instant of the line, by the node's clock.
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub step: Option<Number>,
    /// The step at which it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub of: Option<Number>,
    /// Values that it tells, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, f64>)]
    pub values: BTreeMap<String, Number>,
    /// At least so many reports and lines before this one are missing: the task wrote faster than they are taken.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing: u64,
}

/// A report of a task's progress, in one order over all tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskProgressReport {
    /// Of reports of all tasks together each has more than the one before.
    pub revision: u64,
    pub id: String,
    /// The number of the task, which is never given again; an id may be, once its task is deleted.
    pub number: u64,
    #[serde(flatten)]
    pub progress: TaskProgress,
}

/// A page of reports, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskProgressPage {
    pub reports: Vec<TaskProgressReport>,
    /// The value of `after` that gives what follows.
    pub next: u64,
    /// The newest revision there is.
    pub revision: u64,
}

impl ProgressLine {
    /// Reads a line; none: it is no progress. An error says why a line that begins so is none.
    pub fn parse(line: &str) -> Option<Result<ProgressLine, String>> {
        let json = line.strip_prefix(PROGRESS_PREFIX)?;
        Some(match line.len() > MAX_PROGRESS_BYTES {
            true => Err(format!("is longer than {MAX_PROGRESS_BYTES} bytes")),
            false => ProgressLine::read(json),
        })
    }

    fn read(json: &str) -> Result<ProgressLine, String> {
        let value: Value = serde_json::from_str(json).map_err(|error| format!("is no JSON: {error}"))?;
        let Value::Object(map) = value else { return Err("is no object".to_owned()) };
        let mut line = ProgressLine::default();
        for (name, value) in map {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("step", Value::Number(step)) => line.step = Some(step),
                ("of", Value::Number(of)) => line.of = Some(of),
                ("values", Value::Object(values)) => line.values = numbers(values)?,
                ("step" | "of", _) => return Err(format!("has a `{name}` that is no number")),
                ("values", _) => return Err("has `values` that are no object".to_owned()),
                _ => return Err(format!("has `{}`; expected step, of, values", shortened(&name))),
            }
        }
        match line == ProgressLine::default() {
            true => Err("says nothing; expected step, of, values".to_owned()),
            false => Ok(line),
        }
    }
}

fn numbers(values: Map<String, Value>) -> Result<BTreeMap<String, Number>, String> {
    if values.len() > MAX_PROGRESS_VALUES {
        return Err(format!("has {} values; at most {MAX_PROGRESS_VALUES} are taken", values.len()));
    }
    let number = |(name, value): (String, Value)| match value {
        _ if name.is_empty() || name.len() > MAX_PROGRESS_NAME_BYTES => {
            let most = MAX_PROGRESS_NAME_BYTES;
            Err(format!("has a value whose name is not from 1 to {most} bytes long: `{}`", shortened(&name)))
        }
        _ if name.contains(char::is_control) => {
            Err(format!("has a value whose name has a control character: `{}`", shortened(&name)))
        }
        Value::Number(number) => Ok((name, number)),
        _ => Err(format!("has a value `{}` that is no number", shortened(&name))),
    };
    values.into_iter().map(number).collect()
}

fn shortened(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(MAX_PROGRESS_NAME_BYTES).collect()
}

impl TaskProgress {
    /// The part of the whole that is done, from 0 to 1; none where it is not said.
    pub fn fraction(&self) -> Option<f64> {
        let step = self.step.as_ref()?.as_f64()?;
        let of = self.of.as_ref()?.as_f64()?;
        (of > 0.0).then(|| (step / of).clamp(0.0, 1.0))
    }

    /// The step and the whole, such as `3/90`; nothing where it says only values.
    pub fn steps(&self) -> Option<String> {
        match (&self.step, &self.of) {
            (Some(step), Some(of)) => Some(format!("{step}/{of}")),
            (Some(step), None) => Some(format!("step {step}")),
            (None, Some(of)) => Some(format!("?/{of}")),
            (None, None) => None,
        }
    }

    /// About how many bytes of memory it takes.
    pub fn weight(&self) -> u64 {
        const BASE: usize = 128;
        const A_VALUE: usize = 64;
        let values: usize = self.values.keys().map(|name| name.len() + A_VALUE).sum();
        (BASE + values) as u64
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(line: &str) -> Result<ProgressLine, String> {
        ProgressLine::parse(line).unwrap()
    }

    #[test]
    fn a_line_says_step_whole_and_values() {
        let line =
            read("estimand-progress {\"step\": 3, \"of\": 90, \"values\": {\"accuracy\": 0.91}}\r").unwrap();
        assert_eq!((line.step, line.of), (Some(Number::from(3)), Some(Number::from(90))));
        assert_eq!(json!(line.values), json!({ "accuracy": 0.91 }));
        assert_eq!(read("estimand-progress {\"step\": null, \"of\": 1}").unwrap().step, None);
        for other in ["", "estimand-progress", "estimand-progressive {}", " estimand-progress {}"] {
            assert_eq!(ProgressLine::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_line_that_is_no_progress_says_why() {
        let long = format!("estimand-progress {{\"step\": {}1}}", " ".repeat(MAX_PROGRESS_BYTES));
        let many: BTreeMap<String, u32> = (0..65).map(|at| (at.to_string(), at)).collect();
        for (line, why) in [
            ("estimand-progress {", "is no JSON: "),
            ("estimand-progress {\"values\": {\"loss\": NaN}}", "is no JSON: "),
            ("estimand-progress {\"step\": 1e999}", "is no JSON: number out of range"),
            ("estimand-progress [1]", "is no object"),
            ("estimand-progress {}", "says nothing"),
            ("estimand-progress {\"step\": \"3\"}", "has a `step` that is no number"),
            ("estimand-progress {\"steps\": 3}", "has `steps`; expected step, of, values"),
            ("estimand-progress {\"values\": [1]}", "has `values` that are no object"),
            ("estimand-progress {\"values\": {\"a\": true}}", "has a value `a` that is no number"),
            ("estimand-progress {\"values\": {\"\": 1}}", "has a value whose name is not from 1 to 64"),
            (&format!("estimand-progress {}", json!({ "values": many })), "has 65 values; at most 64"),
            (&long, "is longer than 4096 bytes"),
        ] {
            let found = read(line).unwrap_err();
            assert!(found.starts_with(why), "{line}: {found}");
        }
    }

    #[test]
    fn a_report_comes_back_as_it_was_told() {
        let wire = json!({
            "revision": 7, "id": "t", "number": 2, "attempt": 1, "at": "2026-11-28T12:00:00.000000Z", "step": 3,
            "of": 4, "values": { "loss": 0.5 }, "missing": 2,
        });
        let report: TaskProgressReport = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(json!(report), wire);
        assert_eq!(report.progress.fraction(), Some(0.75));
        assert_eq!(report.progress.steps().as_deref(), Some("3/4"));
        let open = TaskProgress { of: None, ..report.progress };
        assert_eq!((open.fraction(), open.steps().as_deref()), (None, Some("step 3")));
    }
}
