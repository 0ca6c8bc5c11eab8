//! The progress of a run, and its outcome.

use super::{Driver, Member};
use crate::dispatch::Dispatcher;
use crate::job_plan::JobPlan;
use crate::plan::ItemId;
use crate::run::record::{NodeRecord, Run, ideal};
use crate::run::{NodeProgress, RunProgress};

impl<D: Dispatcher, F: FnMut(&RunProgress)> Driver<'_, D, F> {
    pub(super) fn report_progress(&mut self) {
        let counted = self.counted();
        let node = |(number, member): (usize, &Member)| NodeProgress {
            name: self.records[number].name.clone(),
            state: member.state,
            done: counted[number],
            of: counted[number] + member.assignment.left(),
            fps: member.fps,
        };
        let now = RunProgress {
            seconds: self.work_at.map(|begin| self.dispatch.now() - begin),
            done: counted.iter().sum(),
            of: self.job_plan.problem.total() as usize,
            nodes: self.members.iter().enumerate().map(node).collect(),
        };
        self.reported_at = self.dispatch.now();
        (self.on_progress)(&now);
    }

    /// By node: the number of items that count as its work.
    fn counted(&self) -> Vec<usize> {
        let mut counted = vec![0; self.members.len()];
        for number in self.policy.merged().into_iter().flatten() {
            counted[number] += 1;
        }
        counted
    }

    /// The run as far as it came.
    pub(in crate::run) fn finish(mut self) -> Run {
        let holdings = &self.job_plan.holdings;
        let mut fetched = 0;
        for (item, number) in self.policy.merged().into_iter().enumerate() {
            let Some(number) = number else { continue };
            self.records[number].images.push(holdings.items()[item].clone());
            // Nodes that joined later have numbers beyond those that hold anything.
            fetched += u64::from(!holdings.holders(item as ItemId).contains(&number));
        }
        let counted: u64 = self.records.iter().map(|record| record.images.len() as u64).sum();
        let reported: u64 = self.members.iter().map(|member| member.assignment.reported() as u64).sum();
        let items = self.job_plan.problem.total();
        let ideal = ideal(items, &self.records);
        let makespan = self.finished_at.map_or(0.0, |at| self.since_begin(at));
        let mut records = self.records;
        records.sort_by(|a, b| a.name.cmp(&b.name));
        Run {
            title: self.options.title.clone(),
            job: self.job.names.job().to_owned(),
            policy: self.job_plan.options.policy,
            began: self.began,
            revision: self.job_plan.facts.revision,
            items,
            makespan,
            ideal,
            expected: self.job_plan.expected().makespan,
            startup: self.work_at.map_or(0.0, |at| at - self.started_at),
            moved: self.job_plan.plan.moved(),
            fetched,
            duplicates: reported - counted.min(reported),
            conflicts: None,
            nodes: records,
            events: self.events,
            notes: self.notes,
        }
    }
}

/// The nodes of the plan, in its order.
pub(super) fn records(job_plan: &JobPlan) -> Vec<NodeRecord> {
    let nodes = job_plan.problem.nodes().iter().zip(&job_plan.plan.parts);
    nodes
        .map(|(node, part)| NodeRecord {
            name: node.name.clone(),
            capability: node.capability,
            spread: node.spread,
            state: node.state.to_string(),
            held: part.held,
            target: part.target,
            ..NodeRecord::empty()
        })
        .collect()
}
