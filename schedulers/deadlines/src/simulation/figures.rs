//! The figures of a policy on a trace, as people and programs read them.

use std::fmt::Write as _;
use std::str::FromStr;

use serde::Serialize;

use super::ours;
use super::reference::elasticflow;
use super::setup::{Cost, Ending, Setup};
use super::trace::TraceJob;
use crate::planner::Settings;
use crate::throughput::{ITERATION, time_for};

/// A policy decides about the jobs of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    Ours,
    Elasticflow,
    ElasticflowAll,
}

impl Policy {
    pub const ALL: [Policy; 3] = [Policy::Ours, Policy::Elasticflow, Policy::ElasticflowAll];

    pub fn name(self) -> &'static str {
        match self {
            Policy::Ours => "ours",
            Policy::Elasticflow => "elasticflow",
            Policy::ElasticflowAll => "elasticflow-all",
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == text);
        let names = || Policy::ALL.map(Policy::name).join(", ");
        found.ok_or_else(|| format!("{text:?} is no policy; there are {}", names()))
    }
}

/// The figures of one run. A job is met that ends by its deadline, whether it was accepted or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub policy: Policy,
    pub cost: Cost,
    pub jobs: usize,
    /// Jobs that would be met alone on an empty cluster, without any cost. No policy can meet more.
    pub bound: usize,
    pub met: usize,
    pub accepted: usize,
    pub accepted_and_met: usize,
    pub accepted_and_missed: usize,
    /// How often widths were given anew; not counted for the reference's policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// The processor time of the run, measured by whoever asks for it.
    pub processor_millis: u64,
}

/// Runs a trace under a policy.
pub fn figures(trace: &[TraceJob], policy: Policy, setup: &Setup, settings: Settings) -> Figures {
    let (endings, rounds) = match policy {
        Policy::Ours => {
            let (endings, rounds) = ours::run(trace, setup, settings);
            (endings, Some(rounds))
        }
        Policy::Elasticflow => (elasticflow::run(trace, setup, true), None),
        Policy::ElasticflowAll => (elasticflow::run(trace, setup, false), None),
    };
    let is_met = |ending: &Ending, job: &TraceJob| ending.end.is_some_and(|end| end <= job.deadline);
    let pairs = || endings.iter().zip(trace);
    let accepted = endings.iter().filter(|ending| ending.is_accepted).count();
    let accepted_and_met = pairs().filter(|(ending, job)| ending.is_accepted && is_met(ending, job)).count();
    Figures {
        policy,
        cost: setup.cost,
        jobs: trace.len(),
        bound: trace.iter().filter(|job| ends_alone(job, setup.accelerators)).count(),
        met: pairs().filter(|(ending, job)| is_met(ending, job)).count(),
        accepted,
        accepted_and_met,
        accepted_and_missed: accepted - accepted_and_met,
        rounds,
        processor_millis: 0,
    }
}

fn ends_alone(job: &TraceJob, accelerators: u32) -> bool {
    let fastest = job.speeds.within(accelerators).map_or(0, |step| step.rate);
    let time = time_for(job.iterations * ITERATION, fastest);
    job.submitted.saturating_add(time) <= job.deadline
}

/// A line for each run.
pub fn table(figures: &[Figures]) -> String {
    let mut text = format!(
        "{:<16} {:<8} {:>6} {:>6} {:>6} {:>9} {:>13} {:>16} {:>7} {:>9}\n",
        "POLICY",
        "COST",
        "JOBS",
        "BOUND",
        "MET",
        "ACCEPTED",
        "ACCEPTED&MET",
        "ACCEPTED&MISSED",
        "ROUNDS",
        "PROCESSOR"
    );
    for line in figures {
        let cost = match line.cost {
            Cost::None => "none",
            Cost::Rounds => "rounds",
            Cost::Changes => "changes",
        };
        let rounds = line.rounds.map_or_else(|| "-".to_owned(), |rounds| rounds.to_string());
        let _ = writeln!(
            text,
            "{:<16} {:<8} {:>6} {:>6} {:>6} {:>9} {:>13} {:>16} {:>7} {:>8.2}s",
            line.policy.name(),
            cost,
            line.jobs,
            line.bound,
            line.met,
            line.accepted,
            line.accepted_and_met,
            line.accepted_and_missed,
            rounds,
            line.processor_millis as f64 / 1_000.0
        );
    }
    text
}
