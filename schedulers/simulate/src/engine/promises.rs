//! Promises under the virtual clock: they are made, begin, move and end as the task service's writer has them do.

use std::sync::Arc;

use estimand_api::promise::{PromiseEnd, PromiseRequest, PromiseState};
use estimand_capacity::{NodeId, Standing, Window};
use estimand_placement::Millis;
use estimand_placement::nodes::Offer;
use estimand_placement::plan::Displacement;
use estimand_placement::promise::{Promise, PromiseChange};
use estimand_placement::queue::TaskNumber;
use estimand_placement::state::{Actor, Event};
use estimand_placement::usage::Tally;

use super::{SIGTERM, SIGUSR1, Simulation, SimulationError};

impl Simulation<'_> {
    /// Asks for a promise of the trace, which is made if there is room for it.
    pub(super) fn promise(&mut self, now: Millis, place: usize) -> Result<(), SimulationError> {
        let asked = &self.trace.promises[place];
        let resources = asked.resources.iter().map(|(name, amount)| (name.to_string(), amount)).collect();
        let tick = now.tick();
        let from = asked.from.max(tick);
        let request = PromiseRequest {
            resources,
            width: asked.width,
            from: Some(from),
            until: asked.until,
            value: asked.value,
            ..PromiseRequest::default()
        };
        let units = Window::new(from, asked.until)
            .ok()
            .and_then(|window| self.plan.book.promise(&[(request.clone(), window)]).ok());
        let Some(units) = units else {
            self.outcome.refused += 1;
            return Ok(());
        };
        let promise = Promise {
            number: self.promises.highest + 1,
            id: asked.promise.clone(),
            key: None,
            asked: request,
            state: if from <= tick { PromiseState::Active } else { PromiseState::Promised },
            from,
            until: asked.until,
            units: units.into_iter().flatten().collect(),
            cause: String::new(),
            tally: Tally::default(),
            revision: 0,
            made_at: tick,
            made_by: String::new(),
        };
        self.change(now, vec![promise], None)
    }

    /// The reason why a task cannot run on a promise, if there is none.
    pub(super) fn missing(&self, promise: &str) -> Option<String> {
        let is_live = self.promises.find(promise).is_some_and(|promise| promise.is_live());
        (!is_live).then(|| format!("needs the promise `{promise}`, which has no capacity"))
    }

    /// Has promises begin and end that are due, and tasks end before their promises do.
    pub(super) fn pass_time(&mut self, now: Millis) -> Result<(), SimulationError> {
        if self.promises.is_due(now.tick()) {
            self.change(now, self.promises.due(now.tick()), None)?;
        }
        let leaving: Vec<String> = self.promises.leaving(now).map(|promise| promise.id.clone()).collect();
        leaving.into_iter().try_for_each(|id| self.end_tasks(now, &id, &PromiseEnd::reason(&id)))
    }

    /// Takes the nodes as they are now; what is promised on them is planned anew.
    pub(super) fn set_nodes(&mut self, now: Millis, nodes: Vec<Offer>) -> Result<(), SimulationError> {
        let changed = self.promises.replanned(&nodes, now.tick(), &|_, _| 0);
        self.change(now, changed, Some(Arc::new(nodes)))
    }

    /// A node stands otherwise; returns it.
    pub(super) fn set_standing(
        &mut self,
        now: Millis,
        name: &str,
        standing: Standing,
    ) -> Result<Option<NodeId>, SimulationError> {
        let known = self.promises.nodes().map(|nodes| nodes.to_vec()).unwrap_or_default();
        let other = |node: Offer| if node.name == name { Offer { standing, ..node } } else { node };
        self.set_nodes(now, known.into_iter().map(other).collect())?;
        self.plan.follow_promises(&self.promises, now);
        Ok(self.plan.book.cluster.ledger.node(name))
    }

    fn change(
        &mut self,
        now: Millis,
        promises: Vec<Promise>,
        nodes: Option<Arc<Vec<Offer>>>,
    ) -> Result<(), SimulationError> {
        let revision = self.promises.revision + 1;
        let ended: Vec<(String, String)> =
            promises.iter().filter_map(|promise| Some((promise.id.clone(), promise.end()?))).collect();
        let promises =
            promises.into_iter().map(|promise| Arc::new(Promise { revision, ..promise })).collect();
        self.promises.apply(&PromiseChange { promises, nodes, revision, ..PromiseChange::default() });
        ended.into_iter().try_for_each(|(id, reason)| self.end_tasks(now, &id, &reason))
    }

    fn end_tasks(&mut self, now: Millis, promise: &str, reason: &str) -> Result<(), SimulationError> {
        let trace = self.trace;
        for task in trace.of_promise(promise, now) {
            let event = Event::PromiseEnded { reason: reason.to_owned() };
            self.apply(now, TaskNumber(task), event, Actor::Scheduler, None)?;
            self.stop(now, TaskNumber(task), SIGTERM)?;
        }
        Ok(())
    }

    /// Has tasks without a promise leave that are in the way of one.
    pub(super) fn make_room(&mut self, now: Millis) -> Result<(), SimulationError> {
        let displaced = self.plan.displace();
        self.plan.answer_recalls(true);
        for Displacement { task, attempt, promise } in displaced {
            self.outcome.displaced += 1;
            self.apply(now, task, Event::MakeRoom { attempt, promise }, Actor::Scheduler, None)?;
            self.stop(now, task, SIGUSR1)?;
        }
        Ok(())
    }
}
