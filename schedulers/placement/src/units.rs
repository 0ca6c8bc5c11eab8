//! The units of promises in the plan: which tasks run on them, which have to make room for them, and which begin on them.
//!
//! The plan follows the promises as they are stored and never plans them anew. A unit has one task at a time. A task that is
//! still there when its unit is not any more has a loan instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use estimand_capacity::{Claim, NodeId, PromiseId, Shape, Stage, Tick, Window};

use crate::Millis;
use crate::cluster::Cluster;
use crate::decision::{Alternative, Why};
use crate::plan::{Hold, Plan};
use crate::planner::value;
use crate::policy::{POLICY_VERSION, Policy, Score};
use crate::promise::Promise;
use crate::promises::Promises;
use crate::queue::TaskNumber;
use crate::request::Request;
use crate::task::TaskView;

/// A promise's number, and the place of a unit in it.
pub type UnitKey = (u64, usize);

#[derive(Debug, Default)]
pub struct Units {
    /// By the number of their promise.
    all: BTreeMap<u64, Promised>,
    by_id: HashMap<Arc<str>, u64>,
    /// When each promise begins, and when it ends.
    begins: BTreeSet<(Tick, u64)>,
    ends: BTreeSet<(Tick, u64)>,
    /// The revision of the promises that they are of; none: they are to be made anew.
    revision: Option<u64>,
    /// The tasks that wait for a unit, and those that wait for each promise.
    waiting: HashMap<TaskNumber, Waiting>,
    waiting_for: HashMap<String, BTreeSet<TaskNumber>>,
}

/// The units of one promise on nodes that are known.
#[derive(Debug)]
struct Promised {
    id: Arc<str>,
    shape: Shape,
    window: Window,
    units: Vec<Unit>,
}

#[derive(Debug)]
struct Unit {
    place: usize,
    claim: PromiseId,
    node: NodeId,
    task: Option<TaskNumber>,
}

#[derive(Debug)]
struct Waiting {
    promise: String,
    request: Request,
    priority: i32,
}

/// A task that begins on a unit.
pub struct Beginning {
    pub task: TaskNumber,
    pub node: NodeId,
    pub promise: String,
    pub request: Request,
    pub priority: i32,
    pub unit: UnitKey,
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

impl Units {
    pub fn wait(&mut self, task: &TaskView<'_>, promise: &str, request: Request) {
        self.remove(task.number);
        let waiting = Waiting { promise: promise.to_owned(), request, priority: task.priority };
        self.waiting.insert(task.number, waiting);
        self.waiting_for.entry(promise.to_owned()).or_default().insert(task.number);
    }

    pub fn remove(&mut self, task: TaskNumber) {
        self.take_waiting(task);
    }

    fn take_waiting(&mut self, task: TaskNumber) -> Option<Waiting> {
        let waiting = self.waiting.remove(&task)?;
        if let Some(tasks) = self.waiting_for.get_mut(&waiting.promise) {
            tasks.remove(&task);
            if tasks.is_empty() {
                self.waiting_for.remove(&waiting.promise);
            }
        }
        Some(waiting)
    }

    /// Gives a task a unit of its promise on a node, if one has none.
    pub fn occupy(
        &mut self,
        cluster: &mut Cluster,
        promise: &str,
        node: NodeId,
        task: TaskNumber,
    ) -> Option<UnitKey> {
        let number = *self.by_id.get(promise)?;
        let promised = self.all.get_mut(&number).filter(|all| all.window.has(cluster.ledger.now()))?;
        let mut free = promised.units.iter_mut().filter(|unit| unit.node == node && unit.task.is_none());
        let unit = free.next()?;
        cluster.ledger.commit(unit.claim).ok()?;
        unit.task = Some(task);
        Some((number, unit.place))
    }

    /// A task has left its unit, which another one may have.
    pub fn vacate(&mut self, cluster: &mut Cluster, (number, place): UnitKey) {
        let Some(Promised { shape, window, units, .. }) = self.all.get_mut(&number) else { return };
        let Some(unit) = units.iter_mut().find(|unit| unit.place == place) else { return };
        unit.task = None;
        let _ = cluster.ledger.release(unit.claim);
        unit.claim = adopt(cluster, unit.node, shape, *window);
    }

    /// Takes all out of the ledger; returns the tasks that were on them.
    fn clear(&mut self, cluster: &mut Cluster) -> Vec<TaskNumber> {
        self.revision = None;
        let numbers: Vec<u64> = self.all.keys().copied().collect();
        numbers.into_iter().flat_map(|number| self.take_out(cluster, number)).collect()
    }

    /// Takes those out whose window is over; returns the tasks that are on them still.
    fn end(&mut self, cluster: &mut Cluster, now: Tick) -> Vec<TaskNumber> {
        let mut tasks = Vec::new();
        while let Some((_, number)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            tasks.extend(self.take_out(cluster, number));
        }
        tasks
    }

    /// Follows the promises to their revision: those that changed since, or all. Returns the tasks whose units are not as they
    /// were.
    fn follow(&mut self, cluster: &mut Cluster, promises: &Promises, now: Tick) -> Vec<TaskNumber> {
        let known = self.revision.replace(promises.revision);
        // Promises that ended later than the base are kept.
        let Some(known) = known.filter(|known| *known >= promises.base) else {
            let tasks = self.clear(cluster);
            self.revision = Some(promises.revision);
            promises.live().for_each(|promise| self.put_in(cluster, promise, now));
            return tasks;
        };
        let mut tasks = Vec::new();
        for promise in promises.after(known) {
            if !self.has_all(cluster, promise) {
                tasks.extend(self.take_out(cluster, promise.number));
                self.put_in(cluster, promise, now);
            }
        }
        tasks
    }

    /// The units of a promise are as they are here already.
    fn has_all(&self, cluster: &Cluster, promise: &Promise) -> bool {
        let Some(known) = self.all.get(&promise.number).filter(|_| promise.is_live()) else { return false };
        let nodes = promise.units.iter().map(|name| cluster.ledger.node(name));
        let places = known.units.iter().map(|unit| (unit.place, Some(unit.node)));
        promise.window() == Some(known.window) && places.eq(nodes.enumerate())
    }

    fn put_in(&mut self, cluster: &mut Cluster, promise: &Promise, now: Tick) {
        let live = promise.window().filter(|window| promise.is_live() && window.end() > now);
        let Some(window) = live else { return };
        let (shape, number) = (cluster.ledger.shape(&promise.amounts()), promise.number);
        let mut units = Vec::new();
        for (place, name) in promise.units.iter().enumerate() {
            let Some(node) = cluster.ledger.node(name) else { continue };
            let claim = adopt(cluster, node, &shape, window);
            units.push(Unit { place, claim, node, task: None });
        }
        let id: Arc<str> = promise.id.as_str().into();
        self.by_id.insert(Arc::clone(&id), number);
        self.begins.insert((window.start(), number));
        self.ends.insert((window.end(), number));
        self.all.insert(number, Promised { id, shape, window, units });
    }

    /// Takes the units of a promise out of the ledger; returns the tasks that were on them.
    fn take_out(&mut self, cluster: &mut Cluster, number: u64) -> Vec<TaskNumber> {
        let Some(Promised { id, window, units, .. }) = self.all.remove(&number) else { return Vec::new() };
        // Another one may have the id by now.
        if self.by_id.get(&id) == Some(&number) {
            self.by_id.remove(&id);
        }
        self.begins.remove(&(window.start(), number));
        self.ends.remove(&(window.end(), number));
        for unit in &units {
            let _ = cluster.ledger.release(unit.claim);
        }
        units.into_iter().filter_map(|unit| unit.task).collect()
    }

    /// The promises that need a node now or within the notice, the first one to begin before the others.
    fn near(&self, cluster: &Cluster) -> BTreeMap<NodeId, Arc<str>> {
        let mut near = BTreeMap::new();
        let Some(window) = cluster.ledger.near() else { return near };
        for promised in self.begun(window.end()) {
            for unit in &promised.units {
                near.entry(unit.node).or_insert_with(|| Arc::clone(&promised.id));
            }
        }
        near
    }

    /// The promises that begin before a tick, in that order. Those that are over are not here any more.
    fn begun(&self, before: Tick) -> impl Iterator<Item = &Promised> {
        self.begins.range(..(before, 0)).filter_map(|(_, number)| self.all.get(number))
    }

    /// The tasks for which a unit has room at this moment.
    fn begin(&mut self, cluster: &mut Cluster) -> Vec<Beginning> {
        let open = self.begun(cluster.ledger.now().saturating_add(1));
        let tasks = open.filter_map(|promised| self.waiting_for.get(&*promised.id)).flatten();
        let tasks: BTreeSet<TaskNumber> = tasks.copied().collect();
        tasks.into_iter().filter_map(|task| self.begin_one(cluster, task)).collect()
    }

    fn begin_one(&mut self, cluster: &mut Cluster, task: TaskNumber) -> Option<Beginning> {
        let waiting = self.waiting.get(&task)?;
        let (node, promise) = (self.room(cluster, waiting)?, waiting.promise.clone());
        let unit = self.occupy(cluster, &promise, node, task)?;
        let waiting = self.take_waiting(task)?;
        let why = why(cluster, &waiting, node, unit.1);
        let Waiting { promise, request, priority } = waiting;
        Some(Beginning { task, node, promise, request, priority, unit, why })
    }

    fn room(&self, cluster: &Cluster, waiting: &Waiting) -> Option<NodeId> {
        let promised = self.all.get(self.by_id.get(&*waiting.promise)?)?;
        let is_run = |node| cluster.node(node).is_some_and(|node| waiting.request.is_run_by(node));
        let has_room =
            |unit: &&Unit| is_run(unit.node) && cluster.ledger.has_room_now(unit.node, &promised.shape);
        let mut free = promised.units.iter().filter(|unit| unit.task.is_none());
        free.find(has_room).filter(|_| promised.window.has(cluster.ledger.now())).map(|unit| unit.node)
    }
}

fn adopt(cluster: &mut Cluster, node: NodeId, shape: &Shape, window: Window) -> PromiseId {
    cluster.ledger.adopt(vec![Claim { node, shape: shape.clone(), window }], 0, Stage::Promised)
}

/// There was nothing to choose: the unit is where it was promised.
fn why(cluster: &Cluster, waiting: &Waiting, node: NodeId, unit: usize) -> Why {
    let view = cluster.node(node);
    let score = Score { unknown: false, left: 0, measure: 0, tasks: 0, preference: unit as u64 };
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
        if self.units.revision != Some(promises.revision) {
            let moved = self.units.follow(&mut self.cluster, promises, now);
            self.keep_by_unit(moved);
        }
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
            self.guests.insert(number);
        }
    }

    /// Gives tasks that are on their node a unit of their promise again, where there is one.
    fn keep_by_unit(&mut self, moved: Vec<TaskNumber>) {
        self.keep_by_loan(moved);
        for number in self.guests.clone() {
            let Some(placed) = self.placed.get_mut(&number) else { continue };
            let (Some(promise), Hold::Loan(loan)) = (placed.promise.clone(), &placed.hold) else { continue };
            if let Some(unit) = self.units.occupy(&mut self.cluster, &promise, placed.node, number) {
                self.cluster.ledger.take_back(*loan);
                self.loans.remove(loan);
                placed.hold = Hold::Unit(unit);
                self.guests.remove(&number);
            }
        }
    }

    /// The tasks that have to make room for what is promised, each told once.
    pub fn displace(&mut self) -> Vec<Displacement> {
        let mut displaced = Vec::new();
        for (node, promise) in self.units.near(&self.cluster) {
            for loan in self.cluster.ledger.recall(node) {
                let Some(task) = self.loans.get(&loan).copied() else { continue };
                let Some(placed) = self.placed.get(&task) else { continue };
                let (attempt, promise) = (placed.attempt, promise.to_string());
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
        promises.next_due(now, self.cluster.ledger.notice())
    }
}
