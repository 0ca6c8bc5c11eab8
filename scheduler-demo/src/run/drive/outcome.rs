//! What there is to say of a run: while it goes on, and when it is over.

use super::{Driver, Member};
use crate::dispatch::Dispatch;
use crate::plan::ItemId;
use crate::planned::{Planned, state_word};
use crate::run::record::{Lane, Run, ideal};
use crate::run::{NodeNow, Now};

impl<D: Dispatch, F: FnMut(&Now)> Driver<'_, D, F> {
    pub(super) fn tell(&mut self) {
        let counted = self.counted();
        let node = |(number, member): (usize, &Member)| NodeNow {
            name: self.lanes[number].name.clone(),
            standing: member.standing,
            done: counted[number],
            of: counted[number] + member.hands.left(),
            fps: member.fps,
        };
        let now = Now {
            seconds: self.work_at.map(|begin| self.dispatch.now() - begin),
            done: counted.iter().sum(),
            of: self.planned.problem.total() as usize,
            nodes: self.members.iter().enumerate().map(node).collect(),
        };
        self.told_at = self.dispatch.now();
        (self.look)(&now);
    }

    /// By node: how many items count as its own work.
    fn counted(&self) -> Vec<usize> {
        let mut counted = vec![0; self.members.len()];
        for number in self.policy.merged().into_iter().flatten() {
            counted[number] += 1;
        }
        counted
    }

    /// What there is to say of the run, as far as it came.
    pub(in crate::run) fn finish(mut self) -> Run {
        let holdings = &self.planned.holdings;
        let mut fetched = 0;
        for (item, number) in self.policy.merged().into_iter().enumerate() {
            let Some(number) = number else { continue };
            self.lanes[number].images.push(holdings.items()[item].clone());
            // Nodes that joined later have numbers beyond those that hold anything.
            fetched += u64::from(!holdings.holders(item as ItemId).contains(&number));
        }
        let counted: u64 = self.lanes.iter().map(|lane| lane.images.len() as u64).sum();
        let told: u64 = self.members.iter().map(|member| member.hands.told() as u64).sum();
        let items = self.planned.problem.total();
        let ideal = ideal(items, &self.lanes);
        let makespan = self.finished_at.map_or(0.0, |at| self.since_begin(at));
        let mut lanes = self.lanes;
        lanes.sort_by(|a, b| a.name.cmp(&b.name));
        Run {
            title: self.options.title.clone(),
            job: self.job.names.job().to_owned(),
            policy: self.planned.options.method,
            began: self.began,
            revision: self.planned.facts.revision,
            items,
            makespan,
            ideal,
            expected: self.planned.expected().makespan,
            startup: self.work_at.map_or(0.0, |at| at - self.started_at),
            moved: self.planned.plan.moved(),
            fetched,
            duplicates: told - counted.min(told),
            conflicts: None,
            nodes: lanes,
            happenings: self.happenings,
            notes: self.notes,
        }
    }
}

/// The nodes of the plan, in its order.
pub(super) fn lanes(planned: &Planned) -> Vec<Lane> {
    let nodes = planned.problem.nodes().iter().zip(&planned.plan.parts);
    nodes
        .map(|(node, part)| Lane {
            name: node.name.clone(),
            capability: node.capability,
            spread: node.spread,
            state: state_word(node.state).to_owned(),
            held: part.held,
            target: part.target,
            ..Lane::empty()
        })
        .collect()
}
