//! The runs of a program on a node, as its log tells them through the collector `log_tail`.
//!
//! A log has the same run every time it is read. A run counts once: two samples in a row are of the same run if they
//! agree on how many lines matched so far (`count`, where the input has it) and on everything that stands beside the
//! figure. Of several runs between two samples only the last counts.

use std::time::Duration;

use serde_json::Value;

use crate::estimate::{Estimate, weighted};
use crate::reading::{place, shown, value_at};
use crate::{Param, Params, PastPart, Roles, Scope};

/// The role under which the log is read.
pub(crate) const ROLE: &str = "run_log";
pub(crate) const FIELD: Param = Param::optional(
    "field",
    "where in the log's value the frames per second of a run stand, a JSON pointer; /matched/fps if absent",
);
pub(crate) const WINDOW: Param =
    Param::optional("window", "how many seconds back runs count; 3600 if absent");
pub(crate) const HALF_LIFE: Param =
    Param::optional("half_life", "after how many further runs one counts half; 3 if absent");

const DEFAULT_WINDOW: f64 = 3600.0;
const DEFAULT_HALF_LIFE: f64 = 3.0;

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    pub fps: f64,
    /// Seconds since it was first seen, which is soon after it ended.
    pub age: f64,
}

/// Where runs are read.
pub(crate) struct RunLog {
    input: String,
    field: String,
}

impl RunLog {
    pub fn new(params: &Params, roles: &Roles) -> Result<Self, String> {
        Ok(RunLog { input: roles.name(ROLE).to_owned(), field: params.pointer(FIELD.name, "/matched/fps")? })
    }

    /// The last run; none if there was none yet.
    pub fn last(&self, scope: &dyn Scope) -> Result<Option<f64>, String> {
        match scope.fact(&self.input) {
            None => Ok(None),
            Some(fact) => self.fps(fact.value),
        }
    }

    /// The runs within a window, oldest first. The last run counts however old it is: it is the best that is known.
    /// A sample of the past that makes no sense is passed over, for it would trouble a whole window; the latest
    /// must make sense.
    pub fn within(&self, scope: &dyn Scope, window: Duration) -> Result<Vec<Run>, String> {
        let last = self.last(scope)?;
        let samples = scope.samples(&self.input, &PastPart::whole(), window)?;
        let mut runs = Vec::new();
        let mut before = None;
        for sample in &samples {
            let Ok(Some(fps)) = self.fps(&sample.value) else { continue };
            let identity = Some((sample.value.get("count"), self.record(&sample.value)));
            if identity != before {
                runs.push(Run { fps, age: sample.age });
                before = identity;
            }
        }
        if let (true, Some(fps), Some(fact)) = (runs.is_empty(), last, scope.fact(&self.input)) {
            runs.push(Run { fps, age: fact.age });
        }
        Ok(runs)
    }

    /// The members beside the figure, which tell its run from others.
    fn record<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let parent = self.field.rsplit_once('/').map_or("", |(parent, _)| parent);
        value.pointer(parent)
    }

    /// The figure of a run. It comes out of a line of text, so it may be one.
    fn fps(&self, value: &Value) -> Result<Option<f64>, String> {
        let Some(found) = value_at(&self.input, value, &self.field)? else { return Ok(None) };
        let fps = match found {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        };
        match fps.filter(|fps| fps.is_finite() && *fps >= 0.0) {
            Some(fps) => Ok(Some(fps)),
            None => Err(format!(
                "{} is {}; expected frames per second, a number of at least 0",
                place(&self.input, &self.field),
                shown(found)
            )),
        }
    }
}

/// How runs of the past are smoothed.
pub(crate) struct Smoothing {
    pub window: Duration,
    half_life: f64,
}

impl Smoothing {
    pub fn new(params: &Params) -> Result<Self, String> {
        let window = params.seconds(WINDOW.name, DEFAULT_WINDOW)?;
        Ok(Smoothing {
            window: Duration::try_from_secs_f64(window)
                .map_err(|e| format!("the parameter `window`: {e}"))?,
            half_life: params.positive(HALF_LIFE.name, DEFAULT_HALF_LIFE, 1e6)?,
        })
    }

    /// Smooths values of runs, oldest first: the last counts 1, the one before it 2^(-1/half-life), and so on.
    pub fn smooth(&self, values: &[f64]) -> Estimate {
        let newest = values.len().saturating_sub(1);
        weighted(values.iter().enumerate().map(|(at, value)| {
            let runs_since = (newest - at) as f64;
            (*value, (-runs_since / self.half_life).exp2())
        }))
    }
}
