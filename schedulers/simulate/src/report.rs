//! The results of simulations, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use estimand_placement::Millis;
use serde::Serialize;

use crate::engine::Outcome;

/// The figures of some runs that differ only in their seed. Times are in seconds, and means over the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub policy: &'static str,
    /// None for a trace.
    pub load: Option<f64>,
    pub runs: usize,
    /// Tasks that ended, in all runs together.
    pub tasks: usize,
    pub mean_response: f64,
    pub median_response: f64,
    pub p99_response: f64,
    pub mean_wait: f64,
    pub utilization: f64,
    pub restarts: usize,
    /// Tasks that never started.
    pub waiting: usize,
    /// Why tasks fit no node, and how many.
    pub misfits: BTreeMap<String, usize>,
}

pub fn summary(policy: &'static str, load: Option<f64>, outcomes: &[Outcome]) -> Summary {
    let over = |figure: &dyn Fn(&Outcome) -> f64| {
        outcomes.iter().map(figure).sum::<f64>() / outcomes.len().max(1) as f64
    };
    let mut misfits = BTreeMap::new();
    for (reason, count) in outcomes.iter().flat_map(|outcome| &outcome.misfits) {
        *misfits.entry(reason.clone()).or_default() += count;
    }
    Summary {
        policy,
        load,
        runs: outcomes.len(),
        tasks: outcomes.iter().map(|outcome| outcome.responses.len()).sum(),
        mean_response: over(&|outcome| mean(&outcome.responses)),
        median_response: over(&|outcome| quantile(&outcome.responses, 0.5)),
        p99_response: over(&|outcome| quantile(&outcome.responses, 0.99)),
        mean_wait: over(&|outcome| mean(&outcome.waits)),
        utilization: over(&|outcome| outcome.utilization),
        restarts: outcomes.iter().map(|outcome| outcome.restarts).sum(),
        waiting: outcomes.iter().map(|outcome| outcome.waiting).sum(),
        misfits,
    }
}

fn mean(times: &[Millis]) -> f64 {
    times.iter().map(|millis| millis.0 as f64).sum::<f64>() / 1000.0 / times.len().max(1) as f64
}

/// The time that this part of all is not above.
fn quantile(times: &[Millis], part: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let place = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).map_or(0.0, |millis| millis.0 as f64 / 1000.0)
}

/// A line a summary, and below it what is to be said of tasks that never ran.
pub fn table(summaries: &[Summary]) -> String {
    let mut text = format!(
        "{:<15} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n",
        "POLICY", "LOAD", "TASKS", "MEAN", "MEDIAN", "P99", "WAIT", "USED"
    );
    for summary in summaries {
        let load = summary.load.map_or_else(|| "-".to_owned(), |load| load.to_string());
        let _ = writeln!(
            text,
            "{:<15} {:>5} {:>9} {:>8.2}s {:>8.2}s {:>8.2}s {:>8.2}s {:>5.1}%",
            summary.policy,
            load,
            summary.tasks,
            summary.mean_response,
            summary.median_response,
            summary.p99_response,
            summary.mean_wait,
            100.0 * summary.utilization
        );
    }
    for summary in summaries {
        for (reason, count) in &summary.misfits {
            let _ = writeln!(text, "{}: tasks that fit nowhere: {count}, each {reason}", summary.policy);
        }
        if summary.waiting > 0 {
            let _ = writeln!(text, "{}: tasks that never started: {}", summary.policy, summary.waiting);
        }
    }
    text
}
