//! History corrected by load: the frames per second of each run of the past, as the node would do them now.
//!
//! The headroom of a node is Perf of Equation (1) times the part of the time in which it is not throttled. A run
//! has the speed of the node at the headroom it had then; at the headroom of now it would be
//! `fps · headroom now / headroom then`, within bounds, because a load is a rough measure. These are smoothed as
//! `capability_ewma` does. Throttling counts in both, so one that never changes is not counted twice.
//! Before the first run the estimate is `reference_fps · headroom now`, with the basis `load`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::capability_cpu::{CPU_REQ, Equation, READS, ROLE};
use crate::estimate::Estimate;
use crate::reading::{optional_number_at, place};
use crate::runs::{self, RunLog, Smoothing};
use crate::{Param, Params, PastPart, Processor, ProcessorKind, Roles, Sample, Scope};

pub(crate) const KIND: ProcessorKind = ProcessorKind {
    name: "capability_blend",
    about: "frames per second of the runs within a window, corrected by how loaded and throttled the node is now",
    inputs: &[ROLE, runs::ROLE, "cgroup"],
    optional: &[runs::ROLE, "cgroup"],
    params: &[
        CPU_REQ,
        READS,
        runs::FIELD,
        runs::WINDOW,
        runs::HALF_LIFE,
        Param::optional(
            "reference_fps",
            "frames per second of an idle node, for one that had no run yet; if absent such a node has no \
                    estimate",
        ),
        Param::optional("least_correction", "the least factor between then and now; 0.1 if absent"),
        Param::optional("most_correction", "the largest factor between then and now; 2 if absent"),
    ],
    make,
};

/// No headroom counts as less than this when two are compared: a division by nearly nothing says nothing.
const LEAST_HEADROOM: f64 = 0.01;

struct CapabilityBlend {
    cpu: String,
    cgroup: String,
    log: RunLog,
    equation: Equation,
    smoothing: Smoothing,
    reference_fps: Option<f64>,
    correction: (f64, f64),
}

fn make(params: &Params, roles: &Roles) -> Result<Box<dyn Processor>, String> {
    Ok(Box::new(CapabilityBlend {
        cpu: roles.name(ROLE).to_owned(),
        cgroup: roles.name("cgroup").to_owned(),
        log: RunLog::new(params, roles)?,
        equation: Equation::new(params)?,
        smoothing: Smoothing::new(params)?,
        reference_fps: params.weight("reference_fps")?,
        correction: correction(params)?,
    }))
}

/// The bounds of the correction, with 1 between them, or a node that has not changed would not keep its estimate.
fn correction(params: &Params) -> Result<(f64, f64), String> {
    let least = params.positive("least_correction", 0.1, 1.0)?;
    match params.number("most_correction")?.unwrap_or(2.0) {
        most if most >= 1.0 => Ok((least, most)),
        most => Err(format!("the parameter `most_correction` is {most}; expected 1 or more")),
    }
}

impl Processor for CapabilityBlend {
    fn process(&self, scope: &dyn Scope) -> Result<Option<Value>, String> {
        let Some(cpu) = scope.fact(&self.cpu) else { return Ok(None) };
        let Some(free) = self.equation.free(&self.cpu, cpu.value)? else { return Ok(None) };
        let throttled = scope.fact(&self.cgroup).map(|fact| self.throttled(fact.value)).transpose()?;
        let now = self.headroom(free, throttled.flatten().unwrap_or(0.0));
        let runs = self.log.within(scope, self.smoothing.window)?;
        if runs.is_empty() {
            let load = |fps: f64| Estimate { value: fps * now, spread: 0.0, samples: 0 };
            let notes = [("basis", json!("load")), ("headroom", json!(now))];
            return self.reference_fps.map_or(Ok(None), |fps| load(fps).with(&notes));
        }
        let window = self.smoothing.window;
        let free_past = past(scope, &self.cpu, window, |value| self.equation.free(&self.cpu, value))?;
        let throttled_past = past(scope, &self.cgroup, window, |value| self.throttled(value))?;
        let corrected: Vec<f64> = runs
            .iter()
            .map(|run| {
                let free = seen_after(&free_past, run.age).unwrap_or(free);
                let throttled = seen_after(&throttled_past, run.age).or(throttled.flatten()).unwrap_or(0.0);
                run.fps * self.corrected_by(now, self.headroom(free, throttled))
            })
            .collect();
        let notes = [("basis", json!("history")), ("headroom", json!(now))];
        self.smoothing.smooth(&corrected).with(&notes)
    }

    fn window(&self) -> Option<Duration> {
        Some(self.smoothing.window)
    }
}

impl CapabilityBlend {
    fn headroom(&self, free: f64, throttled: f64) -> f64 {
        self.equation.perf(free) * (1.0 - throttled)
    }

    fn corrected_by(&self, now: f64, then: f64) -> f64 {
        let (least, most) = self.correction;
        (now.max(LEAST_HEADROOM) / then.max(LEAST_HEADROOM)).clamp(least, most)
    }

    /// The part of the time in which the node's processors were held back; none where that is not known.
    fn throttled(&self, value: &Value) -> Result<Option<f64>, String> {
        const AT: &str = "/throttledFraction";
        match optional_number_at(&self.cgroup, value, AT)? {
            Some(part) if !(-0.01..=1.01).contains(&part) => {
                Err(format!("{} is {part}; expected a fraction of 0 to 1", place(&self.cgroup, AT)))
            }
            part => Ok(part.map(|part| part.clamp(0.0, 1.0))),
        }
    }
}

/// Ages and readings of an input's past, oldest first; what cannot be read is passed over.
fn past(
    scope: &dyn Scope,
    input: &str,
    window: Duration,
    read: impl Fn(&Value) -> Result<Option<f64>, String>,
) -> Result<Vec<(f64, f64)>, String> {
    let samples = scope.samples(input, &PastPart::whole(), window)?;
    let readings = samples.iter().filter_map(|Sample { value, age }| Some((*age, read(value).ok()??)));
    Ok(readings.collect())
}

/// The reading just after a run had ended, so that it is not the run's own load; if there is none since, the last one
/// before.
fn seen_after(past: &[(f64, f64)], run_age: f64) -> Option<f64> {
    let at = past.partition_point(|(age, _)| *age > run_age);
    past.get(at).or(past.last()).map(|(_, reading)| *reading)
}
