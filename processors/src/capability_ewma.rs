//! The frames per second of the runs within a window, smoothed: the later a run, the more it counts.
//!
//! Weights fall with each further run rather than with time, so that the same half-life serves runs of a second
//! and runs of an hour, and an estimate changes with a new run and not because time passes.

use std::time::Duration;

use serde_json::Value;

use crate::runs::{self, RunLog, Smoothing};
use crate::{Params, Processor, ProcessorKind, Roles, Scope};

pub(crate) const KIND: ProcessorKind = ProcessorKind {
    name: "capability_ewma",
    about: "frames per second of the runs within a window, later ones counting more, with their spread",
    inputs: &[runs::ROLE],
    optional: &[],
    params: &[runs::FIELD, runs::WINDOW, runs::HALF_LIFE],
    make,
};

struct CapabilityEwma {
    log: RunLog,
    smoothing: Smoothing,
}

fn make(params: &Params, roles: &Roles) -> Result<Box<dyn Processor>, String> {
    Ok(Box::new(CapabilityEwma { log: RunLog::new(params, roles)?, smoothing: Smoothing::new(params)? }))
}

impl Processor for CapabilityEwma {
    fn process(&self, scope: &dyn Scope) -> Result<Option<Value>, String> {
        let runs = self.log.within(scope, self.smoothing.window)?;
        if runs.is_empty() {
            return Ok(None);
        }
        let fps: Vec<f64> = runs.iter().map(|run| run.fps).collect();
        self.smoothing.smooth(&fps).with(&[])
    }

    fn window(&self) -> Option<Duration> {
        Some(self.smoothing.window)
    }
}
