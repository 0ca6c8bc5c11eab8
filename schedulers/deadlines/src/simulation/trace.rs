//! Traces of jobs with deadlines, as published: comma-separated values whose columns are found by name.

use crate::throughput::{MOST_ITERATIONS, Speeds, Throughput};

const SECOND: u64 = 1_000;

/// A job of a trace. Instants are milliseconds on the trace's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceJob {
    pub id: String,
    pub submitted: u64,
    pub deadline: u64,
    pub iterations: u64,
    pub model: String,
    pub speeds: Speeds,
    /// The width that the user asked for, and the time at that width.
    pub asked_width: u32,
    pub asked_time: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("the first line has no column {0:?}")]
    NoColumn(&'static str),
    #[error("line {line}: {message}")]
    Line { line: usize, message: String },
}

/// The names of each column; the first one that is there is read.
const ID: &[&str] = &["job_id"];
const SUBMITTED: &[&str] = &["submission_time", "submit_time"];
const ITERATIONS: &[&str] = &["num_iteration", "iteration"];
const MODEL: &[&str] = &["model_name"];
const DEADLINE: &[&str] = &["deadline", "ddl"];
const BATCH: &[&str] = &["batch_size"];
const WIDTH: &[&str] = &["num_gpu"];
const DURATION: &[&str] = &["duration"];

/// The jobs of a trace, in the order of their submission.
pub fn parse(text: &str, throughput: &Throughput) -> Result<Vec<TraceJob>, TraceError> {
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> =
        lines.next().map(|(_, line)| line.split(',').map(str::trim).collect()).unwrap_or_default();
    let column = |names: &[&'static str]| {
        let found = names.iter().find_map(|name| header.iter().position(|column| column == name));
        found.ok_or(TraceError::NoColumn(names[0]))
    };
    let [id, submitted, iterations, model, deadline, batch, width, duration] =
        [ID, SUBMITTED, ITERATIONS, MODEL, DEADLINE, BATCH, WIDTH, DURATION].map(column);
    let (id, model) = (id?, model?);
    let (submitted, deadline, iterations) = (submitted?, deadline?, iterations?);
    let (batch, width, duration) = (batch?, width?, duration?);
    let mut jobs = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |message: String| TraceError::Line { line: number + 1, message };
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let text = |at: usize| cells.get(at).copied().unwrap_or_default();
        let whole = |at: usize| {
            let cell = text(at);
            cell.parse::<u64>()
                .map_err(|_| wrong(format!("{:?} is no whole number, but {cell:?}", header[at])))
        };
        let (batch, iterations) = (whole(batch)?, whole(iterations)?);
        let name = text(model);
        let speeds = throughput
            .speeds(name, batch)
            .ok_or_else(|| wrong(format!("no table has the speeds of {name:?} with a batch of {batch}")))?;
        if iterations > MOST_ITERATIONS {
            return Err(wrong(format!("a job has at most {MOST_ITERATIONS} iterations, not {iterations}")));
        }
        jobs.push(TraceJob {
            id: text(id).to_owned(),
            submitted: whole(submitted)? * SECOND,
            deadline: whole(deadline)? * SECOND,
            iterations,
            model: name.to_owned(),
            speeds: speeds.clone(),
            asked_width: u32::try_from(whole(width)?).map_err(|_| wrong("too wide".to_owned()))?,
            asked_time: whole(duration)? * SECOND,
        });
    }
    jobs.sort_by_key(|job| job.submitted);
    Ok(jobs)
}
