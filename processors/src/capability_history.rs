//! The paper's third estimate: the frames per second of the last run.
//!
//! It is what the program itself says of the node, and it is one sample: a run that was disturbed misleads until
//! the next one. `capability_ewma` and `capability_blend` are made of the same log.

use serde_json::Value;

use crate::estimate::Estimate;
use crate::params::{no_window, params_and_roles};
use crate::runs::{self, RunLog};
use crate::{Given, Kind, Processor, Scope};

pub(crate) const KIND: Kind = Kind {
    name: "capability_history",
    about: "frames per second of the last run, from its log",
    inputs: &[runs::ROLE],
    optional: &[],
    params: &[runs::FIELD],
    window: no_window,
    make,
};

struct CapabilityHistory(RunLog);

fn make(given: &Given) -> Result<Box<dyn Processor>, String> {
    let (params, roles) = params_and_roles(&KIND, given)?;
    Ok(Box::new(CapabilityHistory(RunLog::new(&params, &roles)?)))
}

impl Processor for CapabilityHistory {
    fn process(&self, scope: &dyn Scope) -> Result<Option<Value>, String> {
        match self.0.last(scope)? {
            None => Ok(None),
            Some(fps) => Estimate::of(fps).with(&[]),
        }
    }
}
