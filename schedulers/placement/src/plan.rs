//! The plan: the ledger and the queue, as they follow from the tasks and the nodes. Pure: whoever has one shows it what
//! changed, and is told the decisions.
//!
//! A node that is lost keeps what is placed on it, and takes nothing new: its tasks hold their capacity until they are
//! over, placed elsewhere, or the node is back.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use estimand_api::labels::{LabelMap, LabelSource, NODE_LABEL};
use estimand_api::node::{Node, NodeState};
use estimand_api::promise::{CLASS_LABEL, DEFAULT_CLASS};
use estimand_api::resources::PLACES;
use estimand_api::task::{CHECKPOINT_GRACE, CONTAINERS_LABEL, STOP_GRACE};
use estimand_capacity::{Amounts, Ledger, LoanId, NodeId, Resource, Shape, Standing};

use crate::Millis;
use crate::cluster::{CPU, Cluster};
use crate::decision::{Decision, Why};
use crate::outline::PlanOutline;
use crate::planner::{place_waiting, value};
use crate::pressure::Pressure;
use crate::promise::Offer;
use crate::queue::{Queue, TaskNumber};
use crate::request::Request;
use crate::state::State;
use crate::task::TaskView;
pub use crate::units::Displacement;
use crate::units::{Beginning, UnitKey, Units};

/// How many tasks a node takes at once, if its label `tasks` does not say otherwise.
const PLACES_OF_NODE: u64 = 256;
const MEMORY: &str = "memory";
/// How long telling an agent to end a task takes at most, and hearing of the end.
const TELLING: Duration = Duration::from_secs(10);

pub struct Plan {
    pub cluster: Cluster,
    queue: Queue,
    pub units: Units,
    pub placed: HashMap<TaskNumber, Placed>,
    /// The tasks that have the loans.
    pub loans: HashMap<LoanId, TaskNumber>,
    /// Tasks on a promise that have a loan in place of a unit of it.
    pub guests: BTreeSet<TaskNumber>,
    /// Tasks that wait for the end of a pause.
    pausing: BTreeSet<(Millis, TaskNumber)>,
    /// Placed tasks that the ledger could not count, because their node was not known.
    uncounted: BTreeSet<TaskNumber>,
}

/// A task that has a node.
pub struct Placed {
    pub attempt: u32,
    pub node: NodeId,
    pub hold: Hold,
    pub shape: Shape,
    pub priority: i32,
    /// The promise on whose capacity it is.
    pub promise: Option<String>,
    weight: u64,
    started: bool,
}

/// The part of the ledger that a task has.
#[derive(Debug)]
pub enum Hold {
    Loan(LoanId),
    Unit(UnitKey),
}

/// A task that was given a node.
pub struct Placing {
    pub task: TaskNumber,
    pub node: String,
    pub why: Why,
}

impl Default for Plan {
    fn default() -> Plan {
        let notice = CHECKPOINT_GRACE + STOP_GRACE + TELLING;
        Plan {
            cluster: Cluster::new(Ledger::new(0).with_notice(notice.as_secs())),
            queue: Queue::default(),
            units: Units::default(),
            placed: HashMap::new(),
            loans: HashMap::new(),
            guests: BTreeSet::new(),
            pausing: BTreeSet::new(),
            uncounted: BTreeSet::new(),
        }
    }
}

impl Plan {
    /// Takes the nodes as they are now.
    pub fn set_nodes(&mut self, nodes: &[Node]) {
        self.take_units_out();
        let names: BTreeSet<&str> = nodes.iter().map(|node| node.node_name.as_str()).collect();
        let known: Vec<String> = self.cluster.ledger.nodes().map(|(_, name)| name.to_owned()).collect();
        for name in known.iter().filter(|name| !names.contains(name.as_str())) {
            // With something placed on it, it stays until that is gone.
            if !self.cluster.forget(name) {
                let _ = self.cluster.ledger.lose(name);
            }
        }
        for node in nodes {
            let name = node.node_name.as_str();
            let capacity = capacity(node);
            let same = self.cluster.ledger.node(name).is_some_and(|id| {
                self.cluster.ledger.capacity(id) == capacity
                    && self.cluster.node(id).is_some_and(|view| {
                        view.labels == node.labels
                            && view.bound_labels == bound_labels(node)
                            && view.refuses_users == node.facts.refuses_users()
                    })
            });
            if !same {
                let (id, _) = self.cluster.set_node(name, node.labels.clone(), &capacity);
                if let Some(view) = self.cluster.node_mut(id) {
                    view.bound_labels = bound_labels(node);
                    view.refuses_users = node.facts.refuses_users();
                }
            }
        }
        for node in nodes {
            let name = node.node_name.as_str();
            let wanted = standing(node);
            let stands = self.cluster.ledger.node(name).map(|id| self.cluster.ledger.standing(id));
            if stands != Some(wanted) {
                let _ = match wanted {
                    Standing::Up => self.cluster.ledger.restore(name),
                    Standing::Cordoned => self.cluster.ledger.cordon(name).map(drop),
                    Standing::Lost => self.cluster.ledger.lose(name).map(drop),
                };
            }
        }
    }

    /// Takes facts, each of a node by its name; none: it is gone.
    pub fn learn(&mut self, facts: Vec<(String, Option<Pressure>)>) {
        for (node, fact) in facts {
            let id = self.cluster.ledger.node(&node);
            if let Some(view) = id.and_then(|id| self.cluster.node_mut(id)) {
                view.pressure.learn(fact);
            }
        }
    }

    /// Follows a task to where it is now; none: it was deleted.
    pub fn follow(&mut self, number: TaskNumber, task: Option<&TaskView<'_>>, now: Millis) {
        let placed = task.filter(|task| task.placed_on().is_some());
        if let Some(known) = self.placed.get_mut(&number) {
            match placed {
                Some(task) if task.progress.attempt == known.attempt => {
                    if !known.started && task.has_started() {
                        known.started = true;
                        let (node, weight) = (known.node, known.weight);
                        if let Some(view) = self.cluster.node_mut(node) {
                            view.start(now, weight);
                        }
                    }
                    // One that did not hear of it, because its node was lost then, is asked again.
                    if let (Hold::Loan(loan), None) = (&known.hold, &known.promise) {
                        self.cluster.ledger.set_recalled(*loan, task.progress.is_stopping());
                    }
                    return;
                }
                _ => self.leave(number, now),
            }
        }
        self.queue.remove(number);
        self.units.remove(number);
        self.uncounted.remove(&number);
        match (task, placed) {
            (_, Some(task)) => self.count(task),
            (Some(task), None) if task.progress.state == State::Queued => self.wait(task, now),
            _ => {}
        }
    }

    /// Puts it into the queue, after its pause if it has one, and not while it waits for other tasks.
    fn wait(&mut self, task: &TaskView<'_>, now: Millis) {
        if !task.progress.awaits.is_empty() {
            return;
        }
        match task.progress.not_before.filter(|not_before| *not_before > now) {
            Some(not_before) => drop(self.pausing.insert((not_before, task.number))),
            None => {
                let request = task.request(&mut self.cluster.ledger);
                match task.promise {
                    Some(promise) => self.units.wait(task, promise, request),
                    None => {
                        self.queue.push(task.number, task.submitted_at, task.priority, &request);
                    }
                }
            }
        }
    }

    /// The tasks whose pause is over.
    pub fn take_rested(&mut self, now: Millis) -> Vec<TaskNumber> {
        let later = self.pausing.split_off(&(now + 1, TaskNumber(0)));
        std::mem::replace(&mut self.pausing, later).into_iter().map(|(_, number)| number).collect()
    }

    /// The placed tasks that are to be followed anew, since their nodes may be known now.
    pub fn take_uncounted(&mut self) -> BTreeSet<TaskNumber> {
        std::mem::take(&mut self.uncounted)
    }

    /// When the next pause is over.
    pub fn next_rested(&self) -> Option<Millis> {
        self.pausing.first().map(|(at, _)| *at)
    }

    /// Has the ledger count a task that is placed already.
    fn count(&mut self, task: &TaskView<'_>) {
        let counted = self.try_count(task);
        if counted.is_none() {
            self.uncounted.insert(task.number);
        }
    }

    fn try_count(&mut self, task: &TaskView<'_>) -> Option<()> {
        let name = task.placed_on()?;
        let node = self.cluster.ledger.node(name)?;
        let Request { shape, weight, .. } = task.request(&mut self.cluster.ledger);
        let promise = task.promise.map(str::to_owned);
        let priority = task.priority;
        let unit = promise
            .as_ref()
            .and_then(|promise| self.units.occupy(&mut self.cluster, promise, node, task.number));
        let hold = match unit {
            Some(unit) => Hold::Unit(unit),
            None => {
                let loan = self.cluster.ledger.lend(node, shape.clone(), value(priority));
                // A task on a promise, or one that is to end already, is not asked to make room.
                if promise.is_some() || task.progress.is_stopping() {
                    self.cluster.ledger.set_recalled(loan, true);
                }
                self.loans.insert(loan, task.number);
                if promise.is_some() {
                    self.guests.insert(task.number);
                }
                Hold::Loan(loan)
            }
        };
        let attempt = task.progress.attempt;
        let started = task.has_started();
        if let Some(view) = self.cluster.node_mut(node) {
            view.place(weight);
            if started {
                // Whenever that was: the facts have it.
                view.start(task.submitted_at, weight);
            }
        }
        let placed = Placed { attempt, node, hold, shape, priority, promise, weight, started };
        self.placed.insert(task.number, placed);
        Some(())
    }

    /// Gives back what a task has.
    fn leave(&mut self, number: TaskNumber, now: Millis) {
        let Some(Placed { node, hold, weight, started, .. }) = self.placed.remove(&number) else { return };
        match hold {
            Hold::Loan(loan) => {
                self.cluster.ledger.take_back(loan);
                self.loans.remove(&loan);
            }
            Hold::Unit(unit) => self.units.vacate(&mut self.cluster, unit),
        }
        self.guests.remove(&number);
        if let Some(view) = self.cluster.node_mut(node) {
            view.leave(now, weight, started);
        }
    }

    /// Decides where the tasks that wait go; `attempt_of` gives the last attempt of each.
    pub fn decide(&mut self, now: Millis, attempt_of: impl Fn(TaskNumber) -> u32) -> Vec<Placing> {
        let mut placings = Vec::new();
        for beginning in self.begin() {
            let Beginning { task, node, promise, request, priority, unit, why } = beginning;
            let Request { shape, weight, .. } = request;
            if let Some(view) = self.cluster.node_mut(node) {
                view.place(weight);
            }
            let attempt = attempt_of(task) + 1;
            let (hold, promise) = (Hold::Unit(unit), Some(promise));
            let placed = Placed { attempt, node, hold, shape, priority, promise, weight, started: false };
            placings.extend(self.placing(task, placed, why));
        }
        for decision in place_waiting(&mut self.cluster, &mut self.queue, now, now) {
            let Decision { task, node, loan, priority, shape, cpu: weight, why } = decision;
            self.loans.insert(loan, task);
            let attempt = attempt_of(task) + 1;
            let hold = Hold::Loan(loan);
            let placed =
                Placed { attempt, node, hold, shape, priority, promise: None, weight, started: false };
            placings.extend(self.placing(task, placed, why));
        }
        placings
    }

    fn placing(&mut self, task: TaskNumber, placed: Placed, why: Why) -> Option<Placing> {
        let node = self.cluster.node(placed.node)?.name.to_string();
        self.placed.insert(task, placed);
        Some(Placing { task, node, why })
    }

    /// The plan for those who look on, with what the last pass decided.
    pub fn outline(&self, placings: &[Placing]) -> PlanOutline {
        let placing = placings.iter().map(|placing| placing.task).collect();
        PlanOutline::new(&self.cluster, &self.queue, placing)
    }

    /// A decision did not take effect, or may not have: the task is to be followed anew.
    pub fn withdraw(&mut self, number: TaskNumber, now: Millis) {
        self.leave(number, now);
    }
}

/// The labels of a node that it cannot say otherwise.
fn bound_labels(node: &Node) -> LabelMap {
    let is_bound =
        |key: &str| node.label_sources.get(key).is_some_and(|source| *source >= LabelSource::Credential);
    let bound = node.labels.iter().filter(|(key, _)| is_bound(key));
    bound.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn standing(node: &Node) -> Standing {
    match (node.state == NodeState::Ready, node.cordoned) {
        (true, false) => Standing::Up,
        (true, true) => Standing::Cordoned,
        (false, _) => Standing::Lost,
    }
}

/// The nodes as the ledger of promises counts them.
pub fn offers(nodes: &[Node]) -> Vec<Offer> {
    let offer = |node: &Node| Offer {
        name: node.node_name.to_string(),
        class: node.labels.get(CLASS_LABEL).map_or(DEFAULT_CLASS, String::as_str).to_owned(),
        capacity: capacity(node),
        standing: standing(node),
        runs_containers: node.labels.contains_key(CONTAINERS_LABEL),
        refuses_users: node.facts.refuses_users(),
    };
    nodes.iter().map(offer).collect()
}

/// The resources of a node: processors, memory, places for tasks, and each label that is a number but for its name.
pub fn capacity(node: &Node) -> Amounts {
    let labels = node.labels.iter().filter(|(key, _)| *key != NODE_LABEL);
    let counts = labels.filter_map(|(key, value)| Some((key.as_str(), value.parse().ok()?)));
    let own =
        [(PLACES, PLACES_OF_NODE), (CPU, u64::from(node.facts.cores) * 1000), (MEMORY, node.facts.memory)];
    // The machine says more than somebody who labels it.
    let all = own[..1].iter().copied().chain(counts).chain(own[1..].iter().copied());
    all.filter_map(|(name, amount): (&str, u64)| Some((Resource::parse(name).ok()?, amount))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "plan_tests.rs"]
mod tests;
