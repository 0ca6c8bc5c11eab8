//! The book: nodes, promises and placed tasks, and the ledger of what is promised and lent over time.
//!
//! It is folded from what was committed, one change after the other, and plans nothing: the task service's writer has one
//! that is always up to date, the planner a draft that follows. However it came about, a book of the same nodes, promises
//! and tasks counts the same.
//!
//! A unit of a promise has one task at a time. Of the tasks on a node by one promise, in the order of their numbers, as many
//! have units as the promise has there; each other task has a loan, as tasks without a promise do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::task_stop::ROOM_GRACE;
use estimand_capacity::{Claim, Ledger, LoanId, NodeId, PromiseId, Shape, Stage, Tick, Window};

use super::cluster::Cluster;
use super::nodes::Offer;
use super::promise::{Promise, PromiseChange};
use super::promises::Promises;
use super::queue::TaskNumber;

mod placed;

pub use placed::{Load, Placed};

/// How long telling an agent to end a task takes at most, and hearing of the end.
const TELLING: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Book {
    pub cluster: Cluster,
    /// None until they are known.
    nodes: Option<Arc<Vec<Offer>>>,
    /// The promises that live, by number.
    promised: BTreeMap<u64, Promised>,
    by_id: HashMap<String, u64>,
    /// When each promise begins.
    begins: BTreeSet<(Tick, u64)>,
    placed: HashMap<TaskNumber, Placed>,
    /// The placed tasks of each promise.
    on_promise: HashMap<String, BTreeSet<TaskNumber>>,
    /// The tasks that have the loans.
    loans: HashMap<LoanId, TaskNumber>,
}

/// A promise as it is counted: its units on nodes that are known.
#[derive(Debug, Clone)]
pub struct Promised {
    pub promise: Arc<Promise>,
    pub window: Window,
    pub shape: Shape,
    pub(super) claim: Option<PromiseId>,
    /// The place of each unit among the units of the promise, and its node.
    pub units: Vec<(usize, NodeId)>,
}

impl Default for Book {
    /// With the notice of the task service.
    fn default() -> Book {
        let notice = ROOM_GRACE + TELLING;
        Book::new(Ledger::new(0).with_notice(notice.as_secs()))
    }
}

impl Book {
    pub fn new(ledger: Ledger) -> Book {
        Book {
            cluster: Cluster::new(ledger),
            nodes: None,
            promised: BTreeMap::new(),
            by_id: HashMap::new(),
            begins: BTreeSet::new(),
            placed: HashMap::new(),
            on_promise: HashMap::new(),
            loans: HashMap::new(),
        }
    }

    pub fn placed(&self, task: TaskNumber) -> Option<&Placed> {
        self.placed.get(&task)
    }

    pub fn task_of(&self, loan: LoanId) -> Option<TaskNumber> {
        self.loans.get(&loan).copied()
    }

    /// The nodes are those that the promises are on.
    pub fn has_nodes_of(&self, promises: &Promises) -> bool {
        match (&self.nodes, promises.nodes()) {
            (Some(known), Some(nodes)) => Arc::ptr_eq(known, nodes),
            (known, nodes) => known.is_none() && nodes.is_none(),
        }
    }

    pub fn promised(&self, number: u64) -> Option<&Promised> {
        self.promised.get(&number)
    }

    pub fn promised_as(&self, id: &str) -> Option<&Promised> {
        self.promised.get(self.by_id.get(id)?)
    }

    /// The promises that begin before a tick, in that order.
    pub fn begun(&self, before: Tick) -> impl Iterator<Item = &Promised> {
        self.begins.range(..(before, 0)).filter_map(|(_, number)| self.promised.get(number))
    }

    /// Follows a committed change of promises and nodes.
    pub fn apply(&mut self, change: &PromiseChange) {
        change.removed.iter().for_each(|number| self.remove_promise(*number));
        change.promises.iter().for_each(|promise| self.put_promise(promise));
        change.nodes.iter().for_each(|nodes| self.set_nodes(nodes));
    }

    /// Has of these promises, and of the nodes, what is kept of them.
    pub fn follow(&mut self, promises: &Promises, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            match promises.get(number) {
                Some(promise) => self.put_promise(promise),
                None => self.remove_promise(number),
            }
        }
        promises.nodes().iter().for_each(|nodes| self.set_nodes(nodes));
    }

    /// Has the promises and nodes that are kept, and no others.
    pub fn follow_all(&mut self, promises: &Promises) {
        let numbers: BTreeSet<u64> =
            self.promised.keys().copied().chain(promises.live().map(|promise| promise.number)).collect();
        self.follow(promises, numbers);
    }

    /// Takes the nodes as they are now, one by one.
    pub fn set_nodes(&mut self, nodes: &Arc<Vec<Offer>>) {
        if self.nodes.as_ref().is_some_and(|known| Arc::ptr_eq(known, nodes)) {
            return;
        }
        self.nodes = Some(Arc::clone(nodes));
        let listed: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let known = self.cluster.ledger.nodes().map(|(_, name)| name);
        let gone: Vec<String> = known.filter(|name| !listed.contains(name)).map(str::to_owned).collect();
        let is_new = |node: &&Offer| self.cluster.ledger.node(&node.name).is_none();
        let new = nodes.iter().filter(is_new).map(|node| node.name.clone());
        let others: BTreeSet<String> = new.chain(gone.iter().cloned()).collect();
        let promises = if others.is_empty() { Vec::new() } else { self.take_out_on(&others) };
        let tasks = if others.is_empty() { Vec::new() } else { self.leave_nodes(&gone, &others) };
        gone.iter().for_each(|name| self.cluster.forget(name));
        nodes.iter().for_each(|node| self.cluster.put_node(node));
        self.cluster.keep_places();
        self.cluster.follow_shares();
        promises.iter().for_each(|promise| self.count_promise(promise));
        tasks.into_iter().for_each(|task| self.count_task(task));
    }

    /// Takes promises out that have a unit on some of these nodes; returns them.
    fn take_out_on(&mut self, nodes: &BTreeSet<String>) -> Vec<Arc<Promise>> {
        let has_unit = |promise: &Promise| promise.units.iter().any(|unit| nodes.contains(unit));
        let all = self.promised.values().map(|promised| &promised.promise);
        let taken: Vec<Arc<Promise>> = all.filter(|promise| has_unit(promise)).cloned().collect();
        taken.iter().for_each(|promise| self.take_out(promise.number));
        taken
    }

    /// Counts a promise as it is now; one that is over is not counted.
    pub fn put_promise(&mut self, promise: &Arc<Promise>) {
        if let Some(known) = self.promised.get_mut(&promise.number)
            && promise.is_live()
            && promise.window() == Some(known.window)
            && promise.units == known.promise.units
        {
            known.promise = Arc::clone(promise);
            return;
        }
        self.take_out(promise.number);
        self.count_promise(promise);
    }

    pub fn remove_promise(&mut self, number: u64) {
        self.take_out(number);
    }

    fn count_promise(&mut self, promise: &Arc<Promise>) {
        let Some(window) = promise.window().filter(|_| promise.is_live()) else { return };
        let ledger = &mut self.cluster.ledger;
        let shape = ledger.shape(&promise.amounts());
        let units = promise.units.iter().enumerate();
        let units: Vec<_> = units.filter_map(|(place, name)| Some((place, ledger.node(name)?))).collect();
        let claim = |(_, node): &(usize, NodeId)| Claim { node: *node, shape: shape.clone(), window };
        let claims: Vec<Claim> = units.iter().map(claim).collect();
        let is_counted = !claims.is_empty();
        let claim = is_counted.then(|| ledger.adopt(claims, promise.asked.value, Stage::Promised));
        let promised = Promised { promise: Arc::clone(promise), window, shape, claim, units };
        self.by_id.insert(promise.id.clone(), promise.number);
        self.begins.insert((window.start(), promise.number));
        self.promised.insert(promise.number, promised);
        self.seat(&promise.id);
    }

    fn take_out(&mut self, number: u64) {
        let Some(Promised { promise, window, claim, .. }) = self.promised.remove(&number) else { return };
        if let Some(claim) = claim {
            let _ = self.cluster.ledger.release(claim);
        }
        self.begins.remove(&(window.start(), number));
        // Another one may have the id by now.
        if self.by_id.get(&promise.id) == Some(&number) {
            self.by_id.remove(&promise.id);
        }
        self.seat(&promise.id);
    }
}
