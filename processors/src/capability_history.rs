//! The paper's third estimate: the frames per second of the last run.
//!
//! It is the program's own figure, and one sample: a run that was disturbed misleads until the next one.
//! `capability_ewma` and `capability_blend` read the same log.

use serde_json::Value;

use crate::estimate::Estimate;
use crate::runs::{self, RunLog};
use crate::{Params, Processor, ProcessorKind, Roles, Scope};

pub(crate) const KIND: ProcessorKind = ProcessorKind {
    name: "capability_history",
    about: "frames per second of the last run, from its log",
    inputs: &[runs::ROLE],
    optional: &[],
    params: &[runs::FIELD],
    make,
};

struct CapabilityHistory(RunLog);

fn make(params: &Params, roles: &Roles) -> Result<Box<dyn Processor>, String> {
    Ok(Box::new(CapabilityHistory(RunLog::new(params, roles)?)))
}

impl Processor for CapabilityHistory {
    fn process(&self, scope: &dyn Scope) -> Result<Option<Value>, String> {
        match self.0.last(scope)? {
            None => Ok(None),
            Some(fps) => Estimate::of(fps).with(&[]),
        }
    }
}
