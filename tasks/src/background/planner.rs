//! The planner: follows the tasks and the nodes with a plan, and has the decisions stored. It works beside the writer, so
//! that nobody who submits, cancels or reads waits for a policy; the writer checks each decision again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use estimand_api::node::Node;
use estimand_client::PeerError;
use estimand_runtime::single_writer::Writer;
use estimand_runtime::{Next, Work};
use tokio::time::Instant;

use crate::core::Millis;
use crate::core::plan::{Placing, Plan};
use crate::core::queue::TaskNumber;
use crate::requests::{MakeRoom, PassTime, Placement, Placements};
use crate::shared::{Changed, Shared};
use crate::task::millis;
use crate::writer::TasksState;

pub struct PlannerLoop {
    shared: Arc<Shared>,
    writer: Writer<TasksState>,
    plan: Plan,
    /// The nodes that the plan has.
    nodes: Option<Arc<Vec<Node>>>,
    /// Everything is to be followed from the beginning.
    fresh: bool,
}

impl PlannerLoop {
    pub fn new(shared: Arc<Shared>, writer: Writer<TasksState>) -> Self {
        PlannerLoop { shared, writer, plan: Plan::default(), nodes: None, fresh: true }
    }

    /// Brings the plan up to what is stored and known.
    fn follow(&mut self, nodes: &Arc<Vec<Node>>, now: Millis) {
        let Changed { all, tasks } = self.shared.take_changed();
        let is_new = all || std::mem::take(&mut self.fresh);
        if is_new {
            (self.plan, self.nodes) = (Plan::default(), None);
        }
        let has_other_nodes = self.set_nodes(nodes);
        if is_new {
            self.shared.table(|table| {
                self.plan.follow_promises(&table.promises, now / 1000);
                table.all().for_each(|task| self.plan.follow(task.number, Some(&task.view()), now));
            });
        } else {
            let again = self.plan.take_uncounted().into_iter().chain(self.plan.take_rested(now));
            let numbers: BTreeSet<TaskNumber> = tasks.into_iter().chain(again).collect();
            self.shared.table(|table| {
                self.plan.follow_promises(&table.promises, now / 1000);
                for number in numbers {
                    self.plan.follow(number, table.get(number).map(|task| task.view()).as_ref(), now);
                }
            });
        }
        let mut pressures = self.shared.pressures.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = if has_other_nodes { pressures.take_all() } else { pressures.take_changed() };
        drop(pressures);
        self.plan.learn(facts);
    }

    /// Has promises begin and end that are due, and tasks end before their promises do.
    async fn pass_time(&self) -> Result<(), PeerError> {
        let now = millis(self.shared.clock.now_micros());
        match self.shared.table(|table| table.is_due(now)) {
            false => Ok(()),
            true => self.writer.submit(PassTime).await.map_err(PeerError::of_write),
        }
    }

    /// True if they are others than before.
    fn set_nodes(&mut self, nodes: &Arc<Vec<Node>>) -> bool {
        let are_others = !self.nodes.as_ref().is_some_and(|known| Arc::ptr_eq(known, nodes));
        if are_others {
            self.plan.set_nodes(nodes);
            self.nodes = Some(Arc::clone(nodes));
        }
        are_others
    }

    /// Has the decisions stored. What did not take effect is withdrawn, and followed anew.
    async fn place(&mut self, placements: Vec<Placement>, now: Millis) -> Result<(), PeerError> {
        let decided: Vec<TaskNumber> = placements.iter().map(|placement| placement.task).collect();
        let outcome = self.writer.submit(Placements(placements)).await;
        let placed = outcome.as_ref().ok();
        let withdrawn: Vec<TaskNumber> = decided
            .into_iter()
            .filter(|number| placed.is_none_or(|placed| !placed.contains(number)))
            .collect();
        for number in &withdrawn {
            self.plan.withdraw(*number, now);
        }
        self.shared.look_again(withdrawn);
        outcome.map(drop).map_err(PeerError::of_write)
    }
}

impl Work for PlannerLoop {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let Some(nodes) = self.shared.nodes.load_full().filter(|_| self.shared.is_loaded()) else {
            return Ok(Next::Period);
        };
        self.pass_time().await?;
        let now = millis(self.shared.clock.now_micros());
        self.follow(&nodes, now);
        let displaced = self.plan.displace();
        let shared = Arc::clone(&self.shared);
        let attempt_of =
            |number| shared.table(|table| table.get(number).map_or(0, |task| task.progress.attempt));
        let placings = self.plan.decide(now, attempt_of);
        self.shared.plan.store(Some(Arc::new(self.plan.outline(&placings))));
        self.shared.plan_ready.ready();
        if !displaced.is_empty() {
            // Should it fail, whoever has to leave is found again.
            self.fresh = true;
            self.writer.submit(MakeRoom(displaced)).await.map_err(PeerError::of_write)?;
            self.fresh = false;
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
        let promised = self.shared.table(|table| self.plan.next_promise(&table.promises, now));
        let next = self.plan.next_rested().into_iter().chain(promised).min();
        let pause = next.map(|at| Duration::from_millis(at.saturating_sub(now)));
        Ok(pause.map_or(Next::Period, |pause| Next::At(Instant::now() + pause)))
    }
}
