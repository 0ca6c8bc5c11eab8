//! Throughput: how fast a model trains at each width, on one kind of accelerator with one global batch.
//!
//! Rates are whole numbers of millionths of an iteration a second, times milliseconds, work is nanoiterations. A width that
//! was never measured is not allowed. Neither is a width that is no faster than a narrower one.

use std::collections::BTreeMap;

use serde::Serialize;

/// Nanoiterations in an iteration.
pub const ITERATION: u64 = 1_000_000_000;
/// The most iterations of a job, so that its work fits an integer.
pub const MOST_ITERATIONS: u64 = 10_000_000_000;

/// A width that a job may have, and its rate in nanoiterations a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    pub width: u32,
    pub rate: u64,
}

/// The widths at which a model may train, ascending; so do their rates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Speeds {
    steps: Vec<Step>,
    /// Measured widths, whether wider is faster or not.
    measured: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThroughputError {
    #[error("line {line}: {message}")]
    Line { line: usize, message: String },
    #[error("no width has a speed")]
    NoWidth,
}

impl Speeds {
    /// The speeds of measured widths.
    pub fn new(measured: impl IntoIterator<Item = Step>) -> Result<Self, ThroughputError> {
        let mut all: Vec<Step> =
            measured.into_iter().filter(|step| step.rate > 0 && step.width > 0).collect();
        all.sort_by_key(|step| (step.width, std::cmp::Reverse(step.rate)));
        all.dedup_by_key(|step| step.width);
        let mut steps: Vec<Step> = Vec::new();
        for step in &all {
            if steps.last().is_none_or(|last| step.rate > last.rate) {
                steps.push(*step);
            }
        }
        if steps.is_empty() { Err(ThroughputError::NoWidth) } else { Ok(Speeds { steps, measured: all }) }
    }

    /// The allowed widths, ascending.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The measured widths, ascending, also those that are slower than a narrower one.
    pub fn measured(&self) -> &[Step] {
        &self.measured
    }

    /// The allowed widths up to the first at which the speed falls, or of which nothing is known.
    pub fn rising(&self) -> &[Step] {
        let pairs = self.steps.windows(2).zip(self.measured.windows(2));
        let rising = pairs.take_while(|(steps, measured)| steps == measured).count();
        self.steps.get(..=rising).unwrap_or(&self.steps)
    }

    /// The fastest allowed width of at most so many accelerators.
    pub fn within(&self, free: u32) -> Option<Step> {
        let fitting = self.steps.partition_point(|step| step.width <= free);
        fitting.checked_sub(1).and_then(|at| self.steps.get(at)).copied()
    }

    pub fn fastest(&self) -> Step {
        self.steps[self.steps.len() - 1]
    }

    pub fn narrowest(&self) -> Step {
        self.steps[0]
    }

    /// The rate of exactly this width, 0 where it is not allowed.
    pub fn rate(&self, width: u32) -> u64 {
        self.steps.iter().find(|step| step.width == width).map_or(0, |step| step.rate)
    }

    /// Speeds without widths beyond the limit, if any width is left.
    pub fn up_to(&self, most: u32) -> Option<Speeds> {
        Speeds::new(self.measured.iter().filter(|step| step.width <= most).copied()).ok()
    }
}

/// The milliseconds that work takes at a rate, rounded up.
pub fn time_for(work: u64, rate: u64) -> u64 {
    if rate == 0 { u64::MAX } else { work.div_ceil(rate) }
}

/// The table of one kind of accelerator: speeds by model and global batch.
#[derive(Debug, Clone, Default)]
pub struct Throughput {
    rows: BTreeMap<(String, u64), Speeds>,
}

impl Throughput {
    /// Adds the rows of a model from its table of comma-separated values: the first column is the global batch, the
    /// others are named by their widths. Empty cells, `nan` and `0` were not measured.
    pub fn add(&mut self, model: &str, text: &str) -> Result<(), ThroughputError> {
        let mut lines = text.lines().enumerate();
        let wrong = |line: usize, message: String| ThroughputError::Line { line: line + 1, message };
        let header = lines.next().map(|(_, line)| line).unwrap_or_default();
        let widths: Result<Vec<u32>, _> = header.split(',').skip(1).map(|cell| cell.trim().parse()).collect();
        let widths = widths.map_err(|_| wrong(0, "a width is no whole number".to_owned()))?;
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let mut cells = line.split(',');
            let batch = cells.next().unwrap_or_default().trim();
            let batch = batch.parse().map_err(|_| wrong(number, format!("{batch:?} is no batch")))?;
            let mut steps = Vec::new();
            for (&width, cell) in widths.iter().zip(cells) {
                steps.push(Step { width, rate: rate(cell).map_err(|message| wrong(number, message))? });
            }
            if let Ok(speeds) = Speeds::new(steps) {
                self.rows.insert((model.to_owned(), batch), speeds);
            }
        }
        Ok(())
    }

    pub fn speeds(&self, model: &str, batch: u64) -> Option<&Speeds> {
        self.rows.get(&(model.to_owned(), batch))
    }

    /// The models that have a row, each once.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        let mut last = "";
        self.rows.keys().filter_map(move |(model, _)| {
            let is_new = model != last;
            last = model;
            is_new.then_some(model.as_str())
        })
    }
}

fn rate(cell: &str) -> Result<u64, String> {
    let cell = cell.trim();
    if cell.is_empty() || cell.eq_ignore_ascii_case("nan") {
        return Ok(0);
    }
    let speed: f64 = cell.parse().map_err(|_| format!("{cell:?} is no speed"))?;
    if !(0.0..1e9).contains(&speed) {
        return Err(format!("{cell:?} is no speed in iterations a second"));
    }
    Ok((speed * 1e6).round() as u64)
}
