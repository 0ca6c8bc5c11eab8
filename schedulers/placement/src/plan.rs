//! The plan: a draft of the book, and the tasks that wait. It follows what is stored, and decides which task begins where and
//! which has to make room.
//!
//! Decisions that are not stored yet are a *trial* on top of the draft: they count for the decisions after them, and are kept
//! or dropped when the answer of the commit is there. Without them the draft is the book as it is stored.
//!
//! A node that is lost keeps what is placed on it, and takes nothing new: its tasks hold their capacity until they are
//! over, placed elsewhere, or the node is back.

use std::collections::{BTreeMap, BTreeSet};

use estimand_capacity::{Ledger, LoanId, NodeId, Shares};

use super::Millis;
use super::book::{Book, Load, Placed};
use super::decision::{Alternative, Why};
use super::outline::PlanOutline;
use super::planner::place_waiting;
use super::policy::{POLICY_VERSION, Policy, Score};
use super::pressure::Pressure;
use super::promises::Promises;
use super::queue::{Queue, TaskNumber};
use super::request::Request;
use super::state::State;
use super::task::TaskView;
use super::waiting::{UnitQueue, UnitWaiter};

#[derive(Debug, Default)]
pub struct Plan {
    /// The draft, with the trial on top of it.
    pub book: Book,
    /// The revision of the promises that the draft has; none: of no promises.
    revision: Option<u64>,
    queue: Queue,
    /// The tasks that ask for a resource which no node was ever heard to have. The ledger learns no names from them, or their users
    /// would fill it.
    strangers: BTreeMap<TaskNumber, Stranger>,
    units: UnitQueue,
    /// Tasks that wait for the end of a pause.
    pausing: BTreeSet<(Millis, TaskNumber)>,
    trial: Trial,
}

/// A task that waits for a resource to be heard of.
#[derive(Debug)]
struct Stranger {
    submitted_at: Millis,
    priority: i32,
    request: Request,
}

/// Decisions that are not answered yet.
#[derive(Debug, Default)]
struct Trial {
    placed: BTreeSet<TaskNumber>,
    recalled: Vec<LoanId>,
}

/// A task that was given a node.
#[derive(Debug)]
pub struct Placing {
    pub task: TaskNumber,
    pub node: String,
    pub why: Why,
}

/// An attempt that has to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Displacement {
    pub task: TaskNumber,
    pub attempt: u32,
    /// The promise that needs its capacity.
    pub promise: String,
}

impl Plan {
    /// A plan whose queue serves the least share first: the user's, then the framework's. The weights are those of these shares,
    /// of which nothing is lent yet.
    pub fn by_shares(shares: Shares) -> Plan {
        let mut plan = Plan { queue: Queue::by_shares(), ..Plan::default() };
        plan.book.cluster.shares = Some(shares);
        plan
    }

    /// Follows time, promises and nodes to where they are. True if the nodes are others than before.
    pub fn follow_promises(&mut self, promises: &Promises, now: Millis) -> bool {
        self.book.cluster.ledger.set_now(now.tick());
        let known = self.revision.replace(promises.revision);
        if known == Some(promises.revision) {
            return false;
        }
        let has_other_nodes = !self.book.has_nodes_of(promises);
        // Promises that ended later than the base are kept.
        match known.filter(|known| *known >= promises.base) {
            Some(known) => {
                let changed = promises.after(known).map(|promise| promise.number);
                self.book.follow(promises, changed);
            }
            None => self.book.follow_all(promises),
        }
        if has_other_nodes {
            let strangers = std::mem::take(&mut self.strangers);
            strangers.into_iter().for_each(|(number, stranger)| self.queue_up(number, stranger));
        }
        has_other_nodes
    }

    /// Takes facts, each of a node by its name; none: it is gone.
    pub fn learn(&mut self, facts: Vec<(String, Option<Pressure>)>) {
        for (node, fact) in facts {
            let id = self.book.cluster.ledger.node(&node);
            if let Some(view) = id.and_then(|id| self.book.cluster.node_mut(id)) {
                view.pressure.learn(fact);
            }
        }
    }

    /// Follows a task to where it is now; none: it was deleted.
    pub fn follow(&mut self, number: TaskNumber, task: Option<&TaskView<'_>>, now: Millis) {
        let before = self.book.placed(number).map(Placed::load);
        match task {
            Some(task) => self.book.put_task(task),
            None => self.book.remove_task(number),
        }
        // Whenever a task that is new here has started: the facts have it.
        let started_at = if before.is_some() { now } else { task.map_or(now, |task| task.submitted_at) };
        self.press(number, before, started_at, now);
        self.queue.remove(number);
        self.strangers.remove(&number);
        self.units.remove(number);
        if let Some(task) = task.filter(|task| task.progress.state == State::Queued) {
            self.wait(task, now);
        }
    }

    /// Puts it into the queue, after its pause if it has one, and not while it waits for other tasks.
    fn wait(&mut self, task: &TaskView<'_>, now: Millis) {
        if !task.progress.awaits.is_empty() {
            return;
        }
        if let Some(not_before) = task.progress.not_before.filter(|not_before| *not_before > now) {
            self.pausing.insert((not_before, task.number));
            return;
        }
        let Some(promise) = task.promise else {
            let request = task.request(&mut Ledger::default());
            let TaskView { submitted_at, priority, .. } = *task;
            return self.queue_up(task.number, Stranger { submitted_at, priority, request });
        };
        let request = task.request(&mut self.book.cluster.ledger);
        self.units.push(task, promise, request);
    }

    fn queue_up(&mut self, number: TaskNumber, task: Stranger) {
        let Some(shape) = self.book.cluster.ledger.known_shape(&task.request.amounts) else {
            self.strangers.insert(number, task);
            return;
        };
        let request = Request { shape, ..task.request };
        self.queue.push(number, task.submitted_at, task.priority, &request);
    }

    /// Counts the change of a task with the pressure of its nodes.
    fn press(&mut self, task: TaskNumber, before: Option<Load>, started_at: Millis, now: Millis) {
        let after = self.book.placed(task).map(Placed::load);
        let stays = before.zip(after).is_some_and(|(before, after)| before.is_same(&after));
        let cluster = &mut self.book.cluster;
        if let Some(load) = before.filter(|_| !stays)
            && let Some(view) = load.at.and_then(|node| cluster.node_mut(node))
        {
            view.relieve(now, load.weight, load.has_started);
        }
        let Some(load) = after else { return };
        let Some(view) = load.at.and_then(|node| cluster.node_mut(node)) else { return };
        if !stays {
            view.load(load.weight);
        }
        if load.has_started && !before.is_some_and(|before| stays && before.has_started) {
            view.start(started_at, load.weight);
        }
    }

    /// The tasks whose pause is over.
    pub fn take_rested(&mut self, now: Millis) -> Vec<TaskNumber> {
        let later = self.pausing.split_off(&(now + Millis(1), TaskNumber(0)));
        std::mem::replace(&mut self.pausing, later).into_iter().map(|(_, number)| number).collect()
    }

    /// When the next pause is over.
    pub fn next_rested(&self) -> Option<Millis> {
        self.pausing.first().map(|(at, _)| *at)
    }

    /// The tasks that have to make room for what is promised, each told once.
    pub fn displace(&mut self) -> Vec<Displacement> {
        let mut displaced = Vec::new();
        for (node, promise) in self.near() {
            for loan in self.book.cluster.ledger.recall(node) {
                self.trial.recalled.push(loan);
                let Some(task) = self.book.task_of(loan) else { continue };
                let Some(placed) = self.book.placed(task) else { continue };
                let attempt = placed.attempt;
                displaced.push(Displacement { task, attempt, promise: promise.clone() });
            }
        }
        displaced
    }

    /// The promises that need a node now or within the notice, the first one to begin before the others.
    fn near(&self) -> BTreeMap<NodeId, String> {
        let mut near = BTreeMap::new();
        let Some(window) = self.book.cluster.ledger.near() else { return near };
        for promised in self.book.begun(window.end()) {
            for (_, node) in &promised.units {
                near.entry(*node).or_insert_with(|| promised.promise.id.clone());
            }
        }
        near
    }

    /// The recalls are stored, or not: then their loans are recalled again.
    pub fn answer_recalls(&mut self, are_stored: bool) {
        for loan in std::mem::take(&mut self.trial.recalled) {
            if !are_stored {
                self.book.cluster.ledger.set_recalled(loan, false);
            }
        }
    }

    /// Decides where the tasks that wait go; `attempt_of` gives the last attempt of each.
    pub fn decide(&mut self, now: Millis, seed: u64, attempt_of: impl Fn(TaskNumber) -> u32) -> Vec<Placing> {
        let mut placings = self.begin(&attempt_of);
        for decision in place_waiting(&mut self.book.cluster, &mut self.queue, now, seed) {
            let task = decision.task;
            let node = decision.why.chosen.node.to_string();
            let placed = Placed::new(attempt_of(task) + 1, &node, decision.shape.clone(), decision.cpu);
            let placed = placed.with_priority(decision.priority).with_user(decision.user.clone());
            let placed = placed.with_holder(decision.holder.clone());
            self.book.place_on_loan(&decision, placed);
            placings.push(Placing { task, node, why: decision.why });
        }
        self.trial.placed.extend(placings.iter().map(|placing| placing.task));
        placings
    }

    /// The tasks for which a unit of their promise has room at this moment.
    fn begin(&mut self, attempt_of: &impl Fn(TaskNumber) -> u32) -> Vec<Placing> {
        let open = self.book.begun(self.book.cluster.ledger.now().saturating_add(1));
        let tasks: BTreeSet<TaskNumber> =
            open.flat_map(|promised| self.units.of(&promised.promise.id)).collect();
        tasks.into_iter().filter_map(|task| self.begin_one(task, attempt_of(task) + 1)).collect()
    }

    fn begin_one(&mut self, task: TaskNumber, attempt: u32) -> Option<Placing> {
        let (unit, id) = self.unit_for(self.units.get(task)?)?;
        let UnitWaiter { promise, request, priority } = self.units.remove(task)?;
        let why = self.why(id, unit, &promise);
        let node = why.chosen.node.to_string();
        let placed = Placed::new(attempt, &node, request.shape, request.weight);
        self.book.place(task, placed.with_priority(priority).on_promise(promise));
        self.press(task, None, Millis(0), Millis(0));
        Some(Placing { task, node, why })
    }

    /// The first unit of its promise on which a task can begin, and the node of that.
    fn unit_for(&self, waiter: &UnitWaiter) -> Option<(usize, NodeId)> {
        let Book { cluster, .. } = &self.book;
        let promised = self.book.promised_as(&waiter.promise)?;
        let is_run = |node| cluster.node(node).is_some_and(|node| waiter.request.is_run_by(node));
        let has_room = |(_, node): &(usize, NodeId)| {
            is_run(*node) && cluster.ledger.has_room_now(*node, &promised.shape, std::iter::empty())
        };
        let mut free = self.book.free_units(promised);
        free.find(has_room).filter(|_| promised.window.has(cluster.ledger.now()))
    }

    /// There was nothing to choose: the unit is where it was promised.
    fn why(&self, node: NodeId, unit: usize, promise: &str) -> Why {
        let view = self.book.cluster.node(node);
        let score = Score { unknown: false, left: 0, measure: 0, tasks: 0, preference: unit as u64 };
        let name = view.map_or_else(|| "".into(), |view| view.name.clone());
        let fact = view.and_then(|view| view.pressure.fact());
        Why {
            policy: Policy::default(),
            promise: Some(promise.to_owned()),
            version: POLICY_VERSION,
            lot: 0,
            nodes: 1,
            chosen: Alternative { node: name, score, fact },
            others: Vec::new(),
        }
    }

    /// The decisions about these tasks are stored; the others did not take effect, or may not have. Returns the tasks of the
    /// others, which are to be followed anew.
    pub fn answer_placings(&mut self, stored: &BTreeSet<TaskNumber>, now: Millis) -> Vec<TaskNumber> {
        let decided = std::mem::take(&mut self.trial.placed);
        let dropped: Vec<TaskNumber> = decided.into_iter().filter(|task| !stored.contains(task)).collect();
        for task in &dropped {
            let before = self.book.placed(*task).map(Placed::load);
            self.book.remove_task(*task);
            self.press(*task, before, now, now);
        }
        dropped
    }

    /// The plan for those who look on, with what the last pass decided.
    pub fn outline(&self, placings: &[Placing]) -> PlanOutline {
        let placing = placings.iter().map(|placing| placing.task).collect();
        PlanOutline::new(&self.book.cluster, &self.queue, placing)
    }

    /// How many tasks wait for a node.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.strangers.len() + self.units.len()
    }

    /// The instant at which something is to be done for a promise.
    pub fn next_promise(&self, promises: &Promises, now: Millis) -> Option<Millis> {
        promises.next_due(now, self.book.cluster.ledger.notice())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "plan_tests.rs"]
mod tests;
