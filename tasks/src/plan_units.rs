//! The units of promises in the plan: which tasks run on them, which have to make room for them, and which begin on them.
//!
//! The plan follows the promises as they are stored and never plans them anew. A unit has one task at a time. A task that is
//! still there when its unit is not any more has a loan instead.

use std::collections::BTreeMap;

use estimand_api::task::CONTAINERS_LABEL;
use estimand_capacity::{Claim, NodeId, PromiseId, Shape, Stage, Tick, Window};

use crate::core::Millis;
use crate::core::cluster::Cluster;
use crate::core::decision::{Alternative, Why};
use crate::core::planner::value;
use crate::core::policy::{POLICY_VERSION, Policy, Score};
use crate::core::promises::Promises;
use crate::core::queue::TaskNumber;
use crate::core::request::Request;
use crate::plan::{Hold, Plan};
use crate::requests::Displacement;
use crate::task::Task;

/// A promise's id, and the place of a unit in it.
pub type UnitKey = (String, usize);

#[derive(Debug, Default)]
pub struct Units {
    all: BTreeMap<UnitKey, Unit>,
    /// The revision of the promises that they are of; none: they are to be made anew.
    revision: Option<u64>,
    /// The tasks that wait for a unit.
    waiting: BTreeMap<TaskNumber, Waiting>,
}

#[derive(Debug)]
struct Unit {
    claim: PromiseId,
    node: NodeId,
    shape: Shape,
    window: Window,
    task: Option<TaskNumber>,
}

#[derive(Debug)]
struct Waiting {
    promise: String,
    request: Request,
}

/// A task that begins on a unit.
pub struct Beginning {
    pub task: TaskNumber,
    pub node: NodeId,
    pub weight: u64,
    pub unit: UnitKey,
    pub why: Why,
}

impl Units {
    pub fn wait(&mut self, task: &Task, promise: &str, request: Request) {
        self.waiting.insert(task.number, Waiting { promise: promise.to_owned(), request });
    }

    pub fn remove(&mut self, task: TaskNumber) {
        self.waiting.remove(&task);
    }

    /// Gives a task a unit of its promise on a node, if one has none.
    pub fn occupy(
        &mut self,
        cluster: &mut Cluster,
        promise: &str,
        node: NodeId,
        task: TaskNumber,
    ) -> Option<UnitKey> {
        let now = cluster.ledger.now();
        let units = self.all.range_mut((promise.to_owned(), 0)..=(promise.to_owned(), usize::MAX));
        let mut free =
            units.filter(|(_, unit)| unit.node == node && unit.task.is_none() && unit.window.has(now));
        let (key, unit) = free.next()?;
        cluster.ledger.commit(unit.claim).ok()?;
        unit.task = Some(task);
        Some(key.clone())
    }

    /// A task has left its unit, which another one may have.
    pub fn vacate(&mut self, cluster: &mut Cluster, key: &UnitKey) {
        let Some(unit) = self.all.get_mut(key) else { return };
        unit.task = None;
        let _ = cluster.ledger.release(unit.claim);
        let claim = Claim { node: unit.node, shape: unit.shape.clone(), window: unit.window };
        unit.claim = cluster.ledger.adopt(vec![claim], 0, Stage::Promised);
    }

    /// Takes all out of the ledger; returns the tasks that were on them.
    fn clear(&mut self, cluster: &mut Cluster) -> Vec<TaskNumber> {
        self.revision = None;
        let units = std::mem::take(&mut self.all).into_values();
        units.filter_map(|unit| remove(cluster, &unit)).collect()
    }

    /// Takes those out whose window is over; returns the tasks that are on them still.
    fn end(&mut self, cluster: &mut Cluster, now: Tick) -> Vec<TaskNumber> {
        let is_over = |unit: &Unit| unit.window.end() <= now;
        let over: Vec<UnitKey> =
            self.all.iter().filter(|(_, unit)| is_over(unit)).map(|(key, _)| key.clone()).collect();
        let units: Vec<Unit> = over.iter().filter_map(|key| self.all.remove(key)).collect();
        units.iter().filter_map(|unit| remove(cluster, unit)).collect()
    }

    fn fill(&mut self, cluster: &mut Cluster, promises: &Promises, now: Tick) {
        self.revision = Some(promises.revision);
        for promise in promises.live() {
            let Some(window) = promise.window().filter(|window| window.end() > now) else { continue };
            let shape = cluster.ledger.shape(&promise.amounts());
            for (place, node) in promise.units.iter().enumerate() {
                let Some(node) = cluster.ledger.node(node) else { continue };
                let claim = Claim { node, shape: shape.clone(), window };
                let claim = cluster.ledger.adopt(vec![claim], 0, Stage::Promised);
                let unit = Unit { claim, node, shape: shape.clone(), window, task: None };
                self.all.insert((promise.id.clone(), place), unit);
            }
        }
    }

    /// The promises that need a node now or within the notice, the first one to begin before the others.
    fn near(&self, cluster: &Cluster) -> BTreeMap<NodeId, (Tick, String)> {
        let mut near: BTreeMap<NodeId, (Tick, String)> = BTreeMap::new();
        let Some(window) = cluster.ledger.near() else { return near };
        for ((promise, _), unit) in self.all.iter().filter(|(_, unit)| unit.window.overlaps(window)) {
            let first = (unit.window.start(), promise.clone());
            let known = near.entry(unit.node).or_insert_with(|| first.clone());
            if first < *known {
                *known = first;
            }
        }
        near
    }

    /// The tasks for which a unit has room at this moment.
    fn begin(&mut self, cluster: &mut Cluster) -> Vec<Beginning> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut begun = Vec::new();
        for (task, waiting) in waiting {
            let Some(node) = self.room(cluster, &waiting) else {
                self.waiting.insert(task, waiting);
                continue;
            };
            let Some(unit) = self.occupy(cluster, &waiting.promise, node, task) else {
                self.waiting.insert(task, waiting);
                continue;
            };
            let why = why(cluster, &waiting, node, unit.1);
            begun.push(Beginning { task, node, weight: waiting.request.weight, unit, why });
        }
        begun
    }

    fn room(&self, cluster: &Cluster, waiting: &Waiting) -> Option<NodeId> {
        let now = cluster.ledger.now();
        let range = (waiting.promise.clone(), 0)..=(waiting.promise.clone(), usize::MAX);
        let free = self.all.range(range).map(|(_, unit)| unit);
        let mut free = free.filter(|unit| unit.task.is_none() && unit.window.has(now));
        let runs_containers = |node: NodeId| {
            !waiting.request.has_image
                || cluster.node(node).is_some_and(|node| node.labels.contains_key(CONTAINERS_LABEL))
        };
        let has_room =
            |unit: &&Unit| runs_containers(unit.node) && cluster.ledger.has_room_now(unit.node, &unit.shape);
        free.find(has_room).map(|unit| unit.node)
    }
}

fn remove(cluster: &mut Cluster, unit: &Unit) -> Option<TaskNumber> {
    let _ = cluster.ledger.release(unit.claim);
    unit.task
}

/// There was nothing to choose: the unit is where it was promised.
fn why(cluster: &Cluster, waiting: &Waiting, node: NodeId, unit: usize) -> Why {
    let view = cluster.node(node);
    let score = Score { unknown: false, measure: 0, tasks: 0, preference: unit as u64 };
    let name = view.map_or_else(|| "".into(), |view| view.name.clone());
    let fact = view.and_then(|view| view.pressure.fact());
    Why {
        policy: Policy::default(),
        promise: Some(waiting.promise.clone()),
        version: POLICY_VERSION,
        lot: 0,
        nodes: 1,
        chosen: Alternative { node: name, score, fact },
        others: Vec::new(),
    }
}

impl Plan {
    /// Follows time and the promises to where they are.
    pub fn follow_promises(&mut self, promises: &Promises, now: Tick) {
        let ended = self.units.end(&mut self.cluster, now);
        self.keep_by_loan(ended);
        // A promise is out of the ledger when it is over, so nothing there overruns.
        let _ = self.cluster.ledger.advance(now);
        if self.units.revision == Some(promises.revision) {
            return;
        }
        let moved = self.units.clear(&mut self.cluster);
        self.units.fill(&mut self.cluster, promises, now);
        self.keep_by_unit(moved);
    }

    /// Takes what is promised out of the ledger, before the nodes under it change.
    pub fn take_units_out(&mut self) {
        let tasks = self.units.clear(&mut self.cluster);
        self.keep_by_loan(tasks);
    }

    /// The tasks are there all the same: they have what they have.
    fn keep_by_loan(&mut self, tasks: Vec<TaskNumber>) {
        for number in tasks {
            let Some(placed) = self.placed.get_mut(&number) else { continue };
            let loan = self.cluster.ledger.lend(placed.node, placed.shape.clone(), value(placed.priority));
            // It is on a promise, or is told to end: nobody else asks it to leave.
            self.cluster.ledger.set_recalled(loan, true);
            placed.hold = Hold::Loan(loan);
            self.loans.insert(loan, number);
        }
    }

    /// Gives tasks that are on their node a unit of their promise again, where there is one.
    fn keep_by_unit(&mut self, moved: Vec<TaskNumber>) {
        self.keep_by_loan(moved);
        let reserved: Vec<TaskNumber> = self
            .placed
            .iter()
            .filter(|(_, placed)| placed.promise.is_some() && matches!(placed.hold, Hold::Loan(_)))
            .map(|(number, _)| *number)
            .collect();
        for number in reserved {
            let Some(placed) = self.placed.get_mut(&number) else { continue };
            let (Some(promise), Hold::Loan(loan)) = (placed.promise.clone(), &placed.hold) else { continue };
            if let Some(unit) = self.units.occupy(&mut self.cluster, &promise, placed.node, number) {
                self.cluster.ledger.take_back(*loan);
                self.loans.remove(loan);
                placed.hold = Hold::Unit(unit);
            }
        }
    }

    /// The tasks that have to make room for what is promised, each told once.
    pub fn displace(&mut self) -> Vec<Displacement> {
        let mut displaced = Vec::new();
        for (node, (_, promise)) in self.units.near(&self.cluster) {
            for loan in self.cluster.ledger.recall(node) {
                let Some(task) = self.loans.get(&loan).copied() else { continue };
                let Some(placed) = self.placed.get(&task) else { continue };
                let (attempt, promise) = (placed.attempt, promise.clone());
                displaced.push(Displacement { task, attempt, promise });
            }
        }
        displaced
    }

    /// The tasks that begin on the units of their promises.
    pub fn begin(&mut self) -> Vec<Beginning> {
        self.units.begin(&mut self.cluster)
    }

    /// The instant at which something is to be done for a promise.
    pub fn next_promise(&self, promises: &Promises, now: Millis) -> Option<Millis> {
        promises.next_due(now / 1000, self.cluster.ledger.notice()).map(|tick| tick.saturating_mul(1000))
    }
}
