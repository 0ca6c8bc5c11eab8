//! The standard workload format: a job a line, 18 numbers each, -1 for what is unknown, comments behind `;`.
//!
//! Of a job count its submission (2), run time (4), processors (5, else 8) and memory (10, else 7: KiB a processor). A job
//! that never ran is left out. A job is one task: one that is wider than a node fits nowhere, which the report says.

use estimand_capacity::{Amounts, Resource};
use estimand_placement::Millis;

use super::{Trace, TraceError, TraceTask};

const FIELDS: usize = 18;

pub(super) fn parse(text: &str) -> Result<Trace, TraceError> {
    let mut trace = Trace::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.split(';').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |message: String| TraceError { line: number + 1, message };
        let read = |word: &str| word.parse::<f64>().ok().filter(|number| number.is_finite());
        let fields: Option<Vec<f64>> = line.split_ascii_whitespace().map(read).collect();
        let fields = fields.ok_or_else(|| wrong("has something that is no number".to_owned()))?;
        if fields.len() != FIELDS {
            let message =
                format!("has {} fields; a job of the standard workload format has {FIELDS}", fields.len());
            return Err(wrong(message));
        }
        trace.tasks.extend(task(&fields).map_err(wrong)?);
    }
    Ok(trace)
}

fn task(fields: &[f64]) -> Result<Option<TraceTask>, String> {
    let known = |place: usize| Some(fields[place - 1]).filter(|value| *value >= 0.0);
    let Some(run_time) = known(4) else { return Ok(None) };
    let at = known(2).ok_or("has no time of submission")?;
    let processors = known(5).filter(|count| *count > 0.0).or(known(8)).unwrap_or(1.0).max(1.0);
    let kib = known(10).filter(|kib| *kib > 0.0).or(known(7)).unwrap_or(0.0);
    let millis = |seconds: f64| Millis((seconds * 1000.0) as u64);
    let amounts = [("cpu", (processors * 1000.0) as u64), ("memory", (kib * 1024.0 * processors) as u64)];
    let resources: Amounts =
        amounts.iter().filter_map(|(name, amount)| Some((Resource::parse(name).ok()?, *amount))).collect();
    Ok(Some(TraceTask { at: millis(at), service: millis(run_time), resources, ..TraceTask::default() }))
}
