//! Promises under the virtual clock: they are made, begin, move and end as the task service's writer has them do.

use std::sync::Arc;

use estimand_api::promise::{PromiseBatch, PromiseEnd, PromiseRequest, PromiseResize, PromiseState, Room};
use estimand_api::task_stop::StopOrder;
use estimand_capacity::{NodeId, Standing, Tick, Window};
use estimand_ordering::{Answer, Done, Question};
use estimand_placement::Millis;
use estimand_placement::nodes::Offer;
use estimand_placement::plan::Displacement;
use estimand_placement::promise::{Promise, PromiseChange};
use estimand_placement::queue::TaskNumber;
use estimand_placement::state::{Actor, Event};
use estimand_placement::usage::Tally;

use super::{SIGTERM, SIGUSR1, Simulation, SimulationError};
use crate::trace::TraceTask;

impl Simulation<'_> {
    /// Asks for a promise of the trace, which is made if there is room for it.
    pub(super) fn promise(&mut self, now: Millis, place: usize) -> Result<(), SimulationError> {
        let asked = &self.trace.promises[place];
        let request = PromiseRequest {
            id: Some(asked.promise.clone()),
            resources: asked.resources.iter().map(|(name, amount)| (name.to_string(), amount)).collect(),
            width: asked.width,
            from: Some(asked.from.max(now.tick())),
            until: asked.until,
            value: asked.value,
            ..PromiseRequest::default()
        };
        let batch = PromiseBatch { if_revision: None, all_or_none: vec![request] };
        let answer = self.answer(now, &Question::Promise { key: asked.promise.clone(), batch })?;
        self.outcome.refused += usize::from(!matches!(answer, Answer::Done(_)));
        Ok(())
    }

    /// Answers a question as the task service's writer does, if time has not passed meanwhile.
    pub(super) fn answer(&mut self, now: Millis, question: &Question) -> Result<Answer, SimulationError> {
        self.plan.follow_promises(&self.promises, now);
        let changed = match question {
            Question::Promise { key, batch } => self.made(now.tick(), key, batch),
            Question::Change { promise, to } => self.moved(now.tick(), promise, to).map(|moved| vec![moved]),
            Question::GiveBack { promises } => {
                let live =
                    promises.iter().filter_map(|id| self.promises.find(id)).filter(|one| one.is_live());
                Ok(live.map(|one| one.then(PromiseState::Released, "it is given back")).collect())
            }
        };
        let changed = match changed {
            Ok(changed) => changed,
            Err(room) => {
                let revision = self.promises.revision;
                return Ok(Answer::NoRoom(Box::new(Room { revision, ..room })));
            }
        };
        let ids: Vec<String> = changed.iter().map(|promise| promise.id.clone()).collect();
        if !changed.is_empty() {
            self.change(now, changed, None)?;
        }
        let promises = ids.iter().filter_map(|id| self.promises.find(id)).filter(|promise| promise.is_live());
        let promises = promises.map(|promise| promise.record()).collect();
        Ok(Answer::Done(Done { revision: self.promises.revision, promises }))
    }

    /// The promises of a batch; where there is no room for it, the room that there is.
    fn made(&self, now: Tick, key: &str, batch: &PromiseBatch) -> Result<Vec<Promise>, Room> {
        self.check_revision(batch.if_revision)?;
        let window = |asked: &PromiseRequest| {
            let window = Window::new(asked.from.unwrap_or(now), asked.until).map_err(|_| Room::default())?;
            if window.start() >= now { Ok((asked.clone(), window)) } else { Err(Room::default()) }
        };
        let windows: Vec<(PromiseRequest, Window)> =
            batch.all_or_none.iter().map(window).collect::<Result<_, Room>>()?;
        let units = self.plan.book.promise(&windows)?;
        let made = windows.into_iter().zip(units).zip(self.promises.highest + 1..);
        Ok(made
            .map(|(((asked, window), units), number)| Promise {
                number,
                id: asked.id.clone().unwrap_or_else(|| format!("p{number}")),
                key: Some(key.to_owned()),
                state: if window.start() <= now { PromiseState::Active } else { PromiseState::Promised },
                from: window.start(),
                until: window.end(),
                asked,
                units,
                cause: String::new(),
                tally: Tally::default(),
                revision: 0,
                made_at: now,
                made_by: String::new(),
            })
            .collect())
    }

    /// A promise in another window, or with another width.
    fn moved(&self, now: Tick, id: &str, to: &PromiseResize) -> Result<Promise, Room> {
        self.check_revision(to.if_revision)?;
        let promise = self.promises.find(id).filter(|one| one.is_live()).ok_or_else(Room::default)?;
        let from = to.from.unwrap_or(promise.from);
        let width = to.width.unwrap_or(promise.asked.width);
        if (from, width) == (promise.from, promise.asked.width) {
            return self.plan.book.resized(promise, to.until).map_err(|_| Room::default());
        }
        let asked = PromiseRequest { from: Some(from), until: to.until, width, ..promise.asked.clone() };
        let window = Window::new(from.max(now), to.until).map_err(|_| Room::default())?;
        let units = self.plan.book.replaced(promise, &asked, window)?;
        Ok(Promise { asked, from: window.start(), until: window.end(), units, ..Promise::clone(promise) })
    }

    fn check_revision(&self, given: Option<u64>) -> Result<(), Room> {
        if given.is_none_or(|given| given == self.promises.revision) { Ok(()) } else { Err(Room::default()) }
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
        let is_on =
            |(task, _): &(&TraceTask, u64)| task.at <= now && task.promise.as_deref() == Some(promise);
        let tasks = self.tasks.iter().zip(0..).filter(is_on).map(|(_, place)| TaskNumber(place));
        for task in tasks.collect::<Vec<_>>() {
            let stop = StopOrder::default();
            let event = Event::PromiseEnded { reason: reason.to_owned(), stop };
            self.apply(now, task, event, Actor::Scheduler, None)?;
            self.stop(now, task, SIGTERM)?;
        }
        Ok(())
    }

    /// Has tasks without a promise leave that are in the way of one.
    pub(super) fn make_room(&mut self, now: Millis) -> Result<(), SimulationError> {
        let displaced = self.plan.displace();
        self.plan.answer_recalls(true);
        for Displacement { task, attempt, promise } in displaced {
            self.outcome.displaced += 1;
            let event = Event::MakeRoom { attempt, promise, grace_ms: None, cut_from_ms: None };
            self.apply(now, task, event, Actor::Scheduler, None)?;
            self.stop(now, task, SIGUSR1)?;
        }
        Ok(())
    }
}
