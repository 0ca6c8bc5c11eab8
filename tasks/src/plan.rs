//! The plan: the ledger and the queue, as they follow from the tasks and the nodes. Pure: whoever has one shows it what
//! changed, and is told the decisions.
//!
//! A node that is lost keeps what is placed on it, and takes nothing new: its tasks hold their capacity until they are
//! over, placed elsewhere, or the node is back.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use estimand_api::labels::{LabelMap, LabelSource};
use estimand_api::node::{Node, NodeState};
use estimand_capacity::{Amounts, Claim, Ledger, NodeId, PromiseId, Resource, Standing};

use crate::core::Millis;
use crate::core::cluster::{CPU, Cluster};
use crate::core::decision::Decision;
use crate::core::planner::place_waiting;
use crate::core::pressure::Pressure;
use crate::core::queue::{Queue, TaskNumber};
use crate::core::request::Request;
use crate::core::state::State;
use crate::task::{PLACES, Task, millis};

/// How many tasks a node takes at once, if its label `tasks` does not say otherwise.
const PLACES_OF_NODE: u64 = 256;
const MEMORY: &str = "memory";

#[derive(Default)]
pub struct Plan {
    pub cluster: Cluster,
    queue: Queue,
    placed: HashMap<TaskNumber, Placed>,
    /// Tasks that wait for the end of a pause.
    pausing: BTreeSet<(Millis, TaskNumber)>,
    /// Placed tasks that the ledger could not count: their node was not known, or has less than it had.
    uncounted: BTreeMap<TaskNumber, Task>,
}

/// A task that has a node.
struct Placed {
    attempt: u32,
    node: NodeId,
    promise: PromiseId,
    weight: u64,
    started: bool,
}

impl Plan {
    /// Takes the nodes as they are now.
    pub fn set_nodes(&mut self, nodes: &[Node]) {
        let names: BTreeSet<&str> = nodes.iter().map(|node| node.node_name.as_str()).collect();
        let known: Vec<String> = self.cluster.ledger.nodes().map(|(_, name)| name.to_owned()).collect();
        for name in known.iter().filter(|name| !names.contains(name.as_str())) {
            // With something placed on it, it stays until that is gone.
            if !self.cluster.forget(name) {
                let _ = self.cluster.ledger.cordon(name);
            }
        }
        for node in nodes {
            let name = node.node_name.as_str();
            let capacity = capacity(node);
            let same = self.cluster.ledger.node(name).is_some_and(|id| {
                self.cluster.ledger.capacity(id) == capacity
                    && self.cluster.node(id).is_some_and(|view| {
                        view.labels == node.labels && view.bound_labels == bound_labels(node)
                    })
            });
            if !same {
                let (id, replan) = self.cluster.set_node(name, node.labels.clone(), &capacity);
                if let Some(view) = self.cluster.node_mut(id) {
                    view.bound_labels = bound_labels(node);
                }
                if !replan.ended.is_empty() {
                    let tasks = replan.ended.len();
                    tracing::warn!(node = name, tasks, "the node has less than its tasks were given");
                }
            }
        }
        for task in std::mem::take(&mut self.uncounted).into_values() {
            self.count(&task);
        }
        for node in nodes {
            let name = node.node_name.as_str();
            let wanted = match node.state == NodeState::Ready && !node.cordoned {
                true => Standing::Up,
                false => Standing::Cordoned,
            };
            let stands = self.cluster.ledger.node(name).map(|id| self.cluster.ledger.standing(id));
            if stands != Some(wanted) {
                let _ = match wanted {
                    Standing::Up => self.cluster.ledger.restore(name),
                    Standing::Cordoned | Standing::Lost => self.cluster.ledger.cordon(name).map(drop),
                };
            }
        }
    }

    /// Takes facts, each of a node by its name.
    pub fn learn(&mut self, facts: &BTreeMap<String, Pressure>) {
        for (node, fact) in facts {
            let id = self.cluster.ledger.node(node);
            if let Some(view) = id.and_then(|id| self.cluster.node_mut(id)) {
                view.pressure.learn(*fact);
            }
        }
    }

    /// Follows a task to where it is now; none: it was deleted.
    pub fn follow(&mut self, number: TaskNumber, task: Option<&Task>, now: Millis) {
        let placed = task.filter(|task| task.placed_on().is_some());
        if let Some(known) = self.placed.get_mut(&number) {
            match placed {
                Some(task) if task.progress.attempt == known.attempt => {
                    if !known.started && has_started(task) {
                        known.started = true;
                        let (node, weight) = (known.node, known.weight);
                        if let Some(view) = self.cluster.node_mut(node) {
                            view.start(now, weight);
                        }
                    }
                    return;
                }
                _ => self.leave(number, now),
            }
        }
        self.queue.remove(number);
        self.uncounted.remove(&number);
        match (task, placed) {
            (_, Some(task)) => self.count(task),
            (Some(task), None) if task.state() == State::Queued => self.wait(task, now),
            _ => {}
        }
    }

    /// Puts it into the queue, after its pause if it has one, and not while it waits for other tasks.
    fn wait(&mut self, task: &Task, now: Millis) {
        if !task.progress.awaits.is_empty() {
            return;
        }
        match task.progress.not_before.filter(|not_before| *not_before > now) {
            Some(not_before) => drop(self.pausing.insert((not_before, task.number))),
            None => {
                let request = task.request(&mut self.cluster.ledger);
                let submitted_at = millis(task.submitted_at);
                self.queue.push(task.number, submitted_at, task.document.priority, &request);
            }
        }
    }

    /// The tasks whose pause is over.
    pub fn take_rested(&mut self, now: Millis) -> Vec<TaskNumber> {
        let later = self.pausing.split_off(&(now + 1, TaskNumber(0)));
        std::mem::replace(&mut self.pausing, later).into_iter().map(|(_, number)| number).collect()
    }

    /// When the next pause is over.
    pub fn next_rested(&self) -> Option<Millis> {
        self.pausing.first().map(|(at, _)| *at)
    }

    /// Has the ledger count a task that is placed already.
    fn count(&mut self, task: &Task) {
        let counted = self.try_count(task);
        if counted.is_none() {
            self.uncounted.insert(task.number, task.clone());
        }
    }

    fn try_count(&mut self, task: &Task) -> Option<()> {
        let name = task.placed_on()?;
        let node = self.cluster.ledger.node(name)?;
        let Request { shape, weight, .. } = task.request(&mut self.cluster.ledger);
        let window = estimand_capacity::Window::open(self.cluster.ledger.now()).ok()?;
        let stands = self.cluster.ledger.standing(node);
        // A task on a node that takes nothing new is there all the same.
        if stands != Standing::Up {
            self.cluster.ledger.restore(name).ok()?;
        }
        let promise = self.cluster.ledger.reserve(vec![Claim { node, shape, window }], 0);
        if stands != Standing::Up {
            let _ = self.cluster.ledger.cordon(name);
        }
        let promise = promise.ok()?;
        self.cluster.ledger.commit(promise).ok()?;
        let (attempt, started) = (task.progress.attempt, has_started(task));
        if let Some(view) = self.cluster.node_mut(node) {
            view.place(weight);
            if started {
                // Whenever that was: the facts have it.
                view.start(millis(task.submitted_at), weight);
            }
        }
        self.placed.insert(task.number, Placed { attempt, node, promise, weight, started });
        Some(())
    }

    /// Gives back what a task has.
    fn leave(&mut self, number: TaskNumber, now: Millis) {
        let Some(Placed { node, promise, weight, started, .. }) = self.placed.remove(&number) else { return };
        // It is gone already if the node has less than it had.
        let _ = self.cluster.ledger.release(promise);
        if let Some(view) = self.cluster.node_mut(node) {
            view.leave(now, weight, started);
        }
    }

    /// Decides where the tasks that wait go; `attempt_of` gives the attempt that each is about to begin.
    pub fn decide(
        &mut self,
        now: Millis,
        attempt_of: impl Fn(TaskNumber) -> Option<u32>,
    ) -> Vec<(Decision, String)> {
        let decisions = place_waiting(&mut self.cluster, &mut self.queue, now, now);
        let mut named = Vec::new();
        for decision in decisions {
            let Decision { task, node, promise, cpu, .. } = decision;
            let Some(view) = self.cluster.node(node) else { continue };
            let name = view.name.to_string();
            let attempt = attempt_of(task).unwrap_or(0);
            self.placed.insert(task, Placed { attempt, node, promise, weight: cpu, started: false });
            named.push((decision, name));
        }
        named
    }

    /// A decision did not take effect, or may not have: the task is to be followed anew.
    pub fn withdraw(&mut self, number: TaskNumber, now: Millis) {
        self.leave(number, now);
    }
}

fn has_started(task: &Task) -> bool {
    let progress = &task.progress;
    progress.before_loss.unwrap_or(progress.state) >= State::Running
}

/// The labels of a node that it cannot say otherwise.
fn bound_labels(node: &Node) -> LabelMap {
    let is_bound =
        |key: &str| node.label_sources.get(key).is_some_and(|source| *source >= LabelSource::Credential);
    let bound = node.labels.iter().filter(|(key, _)| is_bound(key));
    bound.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The resources of a node: processors, memory, places for tasks, and each label that is a number.
pub fn capacity(node: &Node) -> Amounts {
    let counts = node.labels.iter().filter_map(|(key, value)| Some((key.as_str(), value.parse().ok()?)));
    let own =
        [(PLACES, PLACES_OF_NODE), (CPU, u64::from(node.facts.cores) * 1000), (MEMORY, node.facts.memory)];
    // The machine says more than somebody who labels it.
    let all = own[..1].iter().copied().chain(counts).chain(own[1..].iter().copied());
    all.filter_map(|(name, amount): (&str, u64)| Some((Resource::parse(name).ok()?, amount))).collect()
}

/// A ledger to count a request's amounts with, when none is at hand.
pub fn request_of(task: &Task) -> Request {
    task.request(&mut Ledger::default())
}
