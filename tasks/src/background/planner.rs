//! The planner: follows the tasks and the nodes with a plan, and has the decisions stored. It works beside the writer, so
//! that nobody who submits, cancels or reads waits for a policy; the writer checks each decision again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use estimand_runtime::{Next, Work};
use estimand_service::{SubmitError, Writer};
use tokio::time::Instant;

use crate::change::Rejection;
use crate::core::Millis;
use crate::core::plan::{Displacement, Placing, Plan};
use crate::core::queue::TaskNumber;
use crate::requests::{MakeRoom, PassTime, Placement, Placements};
use crate::shared::{Changed, Shared};
use crate::task::millis;
use crate::writer::TasksState;

/// The reason why decisions are not stored.
type StoreError = SubmitError<Rejection>;

pub struct PlannerLoop {
    shared: Arc<Shared>,
    writer: Writer<TasksState>,
    plan: Plan,
}

impl PlannerLoop {
    pub fn new(shared: Arc<Shared>, writer: Writer<TasksState>) -> Self {
        PlannerLoop { shared, writer, plan: Plan::default() }
    }

    /// Brings the plan up to what is stored and known.
    fn follow(&mut self, now: Millis) {
        let Changed { all, tasks } = self.shared.take_changed();
        if all {
            self.plan = Plan::default();
        }
        let rested = self.plan.take_rested(now);
        let numbers: BTreeSet<TaskNumber> = tasks.into_iter().chain(rested).collect();
        let has_other_nodes = self.shared.table.look(|table| {
            let has_other_nodes = self.plan.follow_promises(&table.promises, now);
            if all {
                table.all().for_each(|task| self.plan.follow(task.number, Some(&task.view()), now));
            } else {
                for number in numbers {
                    let task = table.get(number).map(|task| task.view());
                    self.plan.follow(number, task.as_ref(), now);
                }
            }
            has_other_nodes
        });
        let mut pressures = self.shared.pressures.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = if has_other_nodes { pressures.take_all() } else { pressures.take_changed() };
        drop(pressures);
        self.plan.learn(facts);
    }

    /// Has promises begin and end that are due, and tasks end before their promises do.
    async fn pass_time(&self, now: Millis) -> Result<(), StoreError> {
        if self.shared.table.look(|table| table.is_due(now)) {
            self.writer.submit(PassTime).await?;
        }
        Ok(())
    }

    /// Has the decisions stored. Tasks for which there is no room any more wait for the next round, which comes with the change
    /// that took it.
    async fn place(&mut self, placements: Vec<Placement>, now: Millis) -> Result<(), StoreError> {
        let outcome = self.writer.submit(Placements(placements)).await;
        let stored = outcome.as_ref().cloned().unwrap_or_default();
        self.shared.look_again(self.plan.answer_placings(&stored, now));
        outcome.map(drop)
    }

    /// Has tasks make room for promises.
    async fn make_room(&mut self, displaced: Vec<Displacement>) -> Result<(), StoreError> {
        let outcome = self.writer.submit(MakeRoom(displaced)).await;
        self.plan.answer_recalls(outcome.is_ok());
        outcome
    }
}

impl Work for PlannerLoop {
    type Error = StoreError;

    async fn round(&mut self) -> Result<Next, StoreError> {
        let Some(nodes) = self.shared.nodes.load_full().filter(|_| self.shared.table.is_loaded()) else {
            return Ok(Next::Period);
        };
        let now = millis(self.shared.clock.now_micros());
        self.pass_time(now).await?;
        self.follow(now);
        let displaced = self.plan.displace();
        let shared = Arc::clone(&self.shared);
        let attempt_of =
            |number| shared.table.look(|table| table.get(number).map_or(0, |task| task.progress.attempt));
        let placings = self.plan.decide(now, now.0, attempt_of);
        self.shared.plan.store(Some(Arc::new(self.plan.outline(&placings))));
        self.shared.plan_ready.ready();
        if !displaced.is_empty() {
            self.make_room(displaced).await?;
        }
        if !placings.is_empty() {
            let agents: HashMap<&str, &Option<String>> =
                nodes.iter().map(|node| (node.node_name.as_str(), &node.agent)).collect();
            let placements = placings.into_iter().map(|Placing { task, node, why }| {
                let agent = agents.get(node.as_str()).copied().cloned().flatten();
                Placement { task, node, agent, why: Arc::new(why) }
            });
            let placements = placements.collect();
            self.place(placements, now).await?;
        }
        let promised = self.shared.table.look(|table| self.plan.next_promise(&table.promises, now));
        let next = self.plan.next_rested().into_iter().chain(promised).min();
        let pause = next.map(|at| Duration::from(at.saturating_sub(now)));
        Ok(pause.map_or(Next::Period, |pause| Next::At(Instant::now() + pause)))
    }
}
