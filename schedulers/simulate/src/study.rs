//! A study: the same load or trace under several policies.

use estimand_capacity::{Amounts, Resource};
use estimand_placement::Millis;
use estimand_placement::policy::Policy;

use crate::chance::Chance;
use crate::engine::{Outcome, Setup, SimulationError, simulate};
use crate::log::Entry;
use crate::report::{Summary, summary};
use crate::trace::{Trace, TraceTask};

#[derive(Debug, Clone)]
pub struct Study {
    pub policies: Vec<Policy>,
    pub nodes: Vec<(String, Amounts)>,
    pub facts_every: Millis,
    pub seeds: u64,
}

/// So many nodes with so many processors each, and memory if it is to be counted.
pub fn nodes_of(count: usize, processors: u64, memory: Option<u64>) -> Vec<(String, Amounts)> {
    let amounts = [("cpu", processors.saturating_mul(1000)), ("memory", memory.unwrap_or(u64::MAX))];
    let capacity: Amounts =
        amounts.iter().filter_map(|(name, amount)| Some((Resource::parse(name).ok()?, *amount))).collect();
    (1..=count).map(|number| (format!("n{number}"), capacity.clone())).collect()
}

/// A load of generated tasks.
#[derive(Debug, Clone)]
pub struct Load {
    pub tasks: usize,
    /// The processors of all nodes.
    pub processors: u64,
    /// The part of the time in which the tasks keep them busy.
    pub part: f64,
    pub mean_service: Millis,
    /// The thousandths of a processor that a task asks for and takes, one of these by lot. None: it asks for nothing, and takes a
    /// processor.
    pub asks: Vec<u64>,
}

impl Load {
    /// Tasks that ask for nothing.
    pub fn new(tasks: usize, processors: u64, part: f64, mean_service: Millis) -> Load {
        Load { tasks, processors, part, mean_service, asks: Vec::new() }
    }

    /// Tasks whose times of arrival make a Poisson process, and whose lengths are exponential.
    pub fn trace(&self, seed: u64) -> Trace {
        let mut chance = Chance::new(seed);
        let taken = match self.asks.len() {
            0 => 1.0,
            count => self.asks.iter().map(|ask| *ask as f64 / 1000.0).sum::<f64>() / count as f64,
        };
        let between = self.mean_service.0 as f64 * taken / (self.part * self.processors as f64);
        let mut at = 0.0;
        let tasks = (0..self.tasks).map(|_| {
            at += chance.exponential(between);
            let service = chance.exponential(self.mean_service.0 as f64).ceil() as u64;
            let cpu = chance.one_of(&self.asks);
            let cpu = cpu.and_then(|amount| Some((Resource::parse("cpu").ok()?, amount)));
            let resources = cpu.into_iter().collect();
            TraceTask { at: Millis(at as u64), service: Millis(service), resources, ..TraceTask::default() }
        });
        Trace { tasks: tasks.collect(), ..Trace::default() }
    }
}

impl Study {
    /// Each policy on each trace, which differ in their seed only.
    pub fn of(
        &self,
        load: Option<f64>,
        traces: &dyn Fn(u64) -> Trace,
        log: &mut dyn FnMut(&Entry),
    ) -> Result<Vec<Summary>, SimulationError> {
        let mut summaries = Vec::new();
        for policy in &self.policies {
            let mut outcomes: Vec<Outcome> = Vec::new();
            for seed in 0..self.seeds {
                let setup =
                    Setup { nodes: self.nodes.clone(), policy: *policy, facts_every: self.facts_every, seed };
                outcomes.push(simulate(&setup, &traces(seed), log)?);
            }
            summaries.push(summary(policy.as_str(), load, &outcomes));
        }
        Ok(summaries)
    }
}
