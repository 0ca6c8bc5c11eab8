//! All promises, and the ledger of what is promised over time.
//!
//! Work without a promise is not in this ledger: it makes room. So the capacity that may be promised follows from the nodes
//! and the promises alone. A tick is a second since 1970.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use estimand_api::promise::{BY_TIME, PromiseRequest, PromiseState, Room};
use estimand_capacity::{
    Claim, Ledger, LedgerError, NodeId, PromiseId, Shape, Stage, Standing, Tick, Trial, Window,
};

use super::Millis;
use super::promise::{Offer, Promise, PromiseChange, amounts, class};

#[derive(Debug, Clone, Default)]
pub struct Promises {
    all: BTreeMap<u64, Arc<Promise>>,
    by_id: HashMap<String, u64>,
    by_key: HashMap<String, BTreeSet<u64>>,
    /// In the order in which they changed last.
    by_revision: BTreeSet<(u64, u64)>,
    live: BTreeSet<u64>,
    /// When those of them begin that have not begun, and when all of them end.
    begins: BTreeSet<(Tick, u64)>,
    ends: BTreeSet<(Tick, u64)>,
    /// When the tasks of those that live are asked to end.
    leaves: BTreeSet<(Millis, u64)>,
    /// None until the manager has said them.
    nodes: Option<Arc<Vec<Offer>>>,
    ledger: Ledger,
    /// The ledger's number of each live promise.
    given: HashMap<u64, PromiseId>,
    pub revision: u64,
    pub base: u64,
    /// The highest number that a promise ever had.
    pub highest: u64,
}

impl Promises {
    /// The promises that were loaded, over the nodes that were known before.
    pub fn new(before: &Promises, all: Vec<Promise>, revision: u64, base: u64) -> Promises {
        let mut promises = Promises { nodes: before.nodes.clone(), revision, base, ..Promises::default() };
        all.into_iter().for_each(|promise| promises.list(Arc::new(promise)));
        promises.highest = promises.highest.max(before.highest);
        promises.count_anew();
        promises
    }

    pub fn get(&self, number: u64) -> Option<&Arc<Promise>> {
        self.all.get(&number)
    }

    pub fn find(&self, id: &str) -> Option<&Arc<Promise>> {
        self.all.get(self.by_id.get(id)?)
    }

    /// Those that one request made, in its order.
    pub fn of_key(&self, key: &str) -> Vec<Arc<Promise>> {
        let numbers = self.by_key.get(key).into_iter().flatten();
        numbers.filter_map(|number| self.all.get(number).cloned()).collect()
    }

    /// How many are kept.
    pub fn kept(&self) -> usize {
        self.all.len()
    }

    pub fn live(&self) -> impl Iterator<Item = &Arc<Promise>> {
        self.live.iter().filter_map(|number| self.all.get(number))
    }

    /// Those that changed after a revision, in that order.
    pub fn after(&self, revision: u64) -> impl Iterator<Item = &Arc<Promise>> {
        let later = self.by_revision.range((revision.saturating_add(1), 0)..);
        later.filter_map(|(_, number)| self.all.get(number))
    }

    pub fn nodes(&self) -> Option<&Arc<Vec<Offer>>> {
        self.nodes.as_ref()
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The oldest of those that are over.
    pub fn oldest_over(&self, count: usize) -> Vec<Arc<Promise>> {
        let in_order = self.by_revision.iter().filter_map(|(_, number)| self.all.get(number));
        in_order.filter(|promise| !promise.is_live()).take(count).cloned().collect()
    }

    /// The nodes of the units of promises that are asked for, if there is room for all; else where there would be.
    pub fn place(&self, asked: &[(PromiseRequest, Window)]) -> Result<Vec<Vec<String>>, Room> {
        let mut trial = self.ledger.trial();
        let mut places = Vec::new();
        for (place, (asked, window)) in asked.iter().enumerate() {
            let room = |trial: &Trial<'_>| self.room(trial, asked, *window, Some(place as u64));
            let Some((shape, nodes)) = self.units(&trial, asked, *window) else { return Err(room(&trial)) };
            nodes.iter().for_each(|node| trial.claim(*node, &shape, *window));
            places.push(self.names(&nodes));
        }
        Ok(places)
    }

    /// The node of each unit, and a unit's shape.
    fn units(
        &self,
        trial: &Trial<'_>,
        asked: &PromiseRequest,
        window: Window,
    ) -> Option<(Shape, Vec<NodeId>)> {
        let shape = self.ledger.known_shape(&amounts(asked))?;
        let nodes = trial.place_units(class(asked), &shape, window, asked.width.max(1))?;
        Some((shape, nodes))
    }

    fn names(&self, nodes: &[NodeId]) -> Vec<String> {
        nodes.iter().filter_map(|node| self.ledger.name(*node)).map(str::to_owned).collect()
    }

    fn room(&self, trial: &Trial<'_>, asked: &PromiseRequest, window: Window, promise: Option<u64>) -> Room {
        let room = Room { revision: self.revision, promise, ..Room::default() };
        let Some(shape) = self.ledger.known_shape(&amounts(asked)) else { return room };
        let ticks = window.end() - window.start();
        Room {
            units: trial.room(class(asked), &shape, window),
            most_units: self.ledger.most_room(class(asked), &shape),
            first_fit: trial.first_fit(class(asked), &shape, asked.width.max(1), window.start(), ticks),
            ..room
        }
    }

    /// A live promise with another end, if there is room for that.
    pub fn resized(&self, promise: &Promise, until: Tick) -> Result<Promise, LedgerError> {
        if let Some(given) = self.given.get(&promise.number) {
            self.ledger.check_resize(*given, until)?;
        }
        Ok(Promise { until, ..promise.clone() })
    }

    /// The nodes of a promise's units if it was asked for like this, once what it has is given back; else where there would be
    /// room.
    pub fn replaced(
        &self,
        promise: &Promise,
        asked: &PromiseRequest,
        window: Window,
    ) -> Result<Vec<String>, Room> {
        let mut trial = self.ledger.trial();
        if let Some(given) = self.given.get(&promise.number) {
            let _ = trial.release(*given);
        }
        let units = self.units(&trial, asked, window).map(|(_, nodes)| self.names(&nodes));
        units.ok_or_else(|| self.room(&trial, asked, window, Some(0)))
    }

    /// The promises whose time has come, or is over.
    pub fn due(&self, now: Tick) -> Vec<Promise> {
        let due = |promise: &Arc<Promise>| match promise.until <= now {
            true => promise.then(PromiseState::Over, BY_TIME),
            false => promise.then(PromiseState::Active, "its time has come"),
        };
        let numbers = [&self.begins, &self.ends].into_iter().flat_map(|all| all.range(..=(now, u64::MAX)));
        let numbers: BTreeSet<u64> = numbers.map(|(_, number)| *number).collect();
        numbers.iter().filter_map(|number| self.all.get(number)).map(due).collect()
    }

    /// Some promise is due.
    pub fn is_due(&self, now: Tick) -> bool {
        [&self.begins, &self.ends].into_iter().any(|all| all.first().is_some_and(|(at, _)| *at <= now))
    }

    /// The live promises whose tasks are to end, or have been asked to.
    pub fn leaving(&self, now: Millis) -> impl Iterator<Item = &Arc<Promise>> {
        self.leaves.range(..=(now, u64::MAX)).filter_map(|(_, number)| self.all.get(number))
    }

    /// The next instant after `now` at which one is due, its tasks are asked to end, or its room is to be made.
    pub fn next_due(&self, now: Millis, notice: u64) -> Option<Millis> {
        let leaves = self.leaves.range((now.saturating_add(1), 0)..).next().map(|(at, _)| *at);
        let now: Tick = now / 1000;
        let after = |all: &BTreeSet<(Tick, u64)>, at: Tick| {
            all.range((at.saturating_add(1), 0)..).next().map(|(at, _)| *at)
        };
        let room = after(&self.begins, now.saturating_add(notice)).map(|from| from - notice);
        let due = [room, after(&self.begins, now), after(&self.ends, now)].into_iter().flatten().min();
        due.map(|tick| tick.saturating_mul(1000)).into_iter().chain(leaves).min()
    }

    /// Shows what a change makes of it.
    pub fn apply(&mut self, change: &PromiseChange) {
        if change.revision == 0 {
            return;
        }
        (self.revision, self.base) = (change.revision, self.base.max(change.base));
        change.removed.iter().for_each(|number| self.unlist(*number));
        match &change.nodes {
            Some(nodes) => {
                self.nodes = Some(Arc::clone(nodes));
                change.promises.iter().for_each(|promise| self.list(Arc::clone(promise)));
                self.count_anew();
            }
            None => change.promises.iter().for_each(|promise| self.put(promise)),
        }
    }

    /// Has what another one has of these, and its nodes.
    pub fn follow(&mut self, other: &Promises, numbers: &BTreeSet<u64>) {
        (self.revision, self.base) = (other.revision, other.base);
        self.highest = self.highest.max(other.highest);
        let same = match (&self.nodes, &other.nodes) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        for number in numbers {
            self.uncount(*number);
            self.unlist(*number);
        }
        for promise in numbers.iter().filter_map(|number| other.get(*number)) {
            self.put(promise);
        }
        if !same {
            self.nodes.clone_from(&other.nodes);
            self.count_anew();
        }
    }

    fn put(&mut self, promise: &Arc<Promise>) {
        self.uncount(promise.number);
        self.list(Arc::clone(promise));
        self.count(promise);
    }

    fn list(&mut self, promise: Arc<Promise>) {
        let number = promise.number;
        if let Some(before) = self.all.get(&number).cloned() {
            self.by_revision.remove(&(before.revision, number));
            self.forget_times(&before);
        }
        self.by_id.insert(promise.id.clone(), number);
        if let Some(key) = &promise.key {
            self.by_key.entry(key.clone()).or_default().insert(number);
        }
        self.by_revision.insert((promise.revision, number));
        match promise.is_live() {
            true => {
                self.live.insert(number);
                self.ends.insert((promise.until, number));
                self.leaves.insert((promise.leave_at(), number));
            }
            false => drop(self.live.remove(&number)),
        }
        if promise.state == PromiseState::Promised {
            self.begins.insert((promise.from, number));
        }
        self.highest = self.highest.max(number);
        self.all.insert(number, promise);
    }

    fn forget_times(&mut self, promise: &Promise) {
        self.begins.remove(&(promise.from, promise.number));
        self.ends.remove(&(promise.until, promise.number));
        self.leaves.remove(&(promise.leave_at(), promise.number));
    }

    fn unlist(&mut self, number: u64) {
        let Some(promise) = self.all.remove(&number) else { return };
        self.forget_times(&promise);
        self.by_revision.remove(&(promise.revision, number));
        self.live.remove(&number);
        // Another one may have the id by now.
        if self.by_id.get(&promise.id) == Some(&number) {
            self.by_id.remove(&promise.id);
        }
        if let Some(key) = &promise.key
            && let Some(numbers) = self.by_key.get_mut(key)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    fn uncount(&mut self, number: u64) {
        if let Some(given) = self.given.remove(&number) {
            let _ = self.ledger.release(given);
        }
    }

    fn count(&mut self, promise: &Promise) {
        let Some(window) = promise.window().filter(|_| promise.is_live()) else { return };
        let given = adopt(&mut self.ledger, &promise.units, &promise.asked, window, Stage::Promised);
        self.given.extend(given.map(|given| (promise.number, given)));
    }

    fn count_anew(&mut self) {
        self.ledger = with_nodes(self.nodes.as_deref().map_or(&[], Vec::as_slice), 0);
        self.given.clear();
        let live: Vec<Arc<Promise>> = self.live().cloned().collect();
        live.iter().for_each(|promise| self.count(promise));
    }
}

pub(super) fn with_nodes(nodes: &[Offer], now: Tick) -> Ledger {
    let mut ledger = Ledger::new(now);
    for node in nodes {
        ledger.set_node(&node.name, &node.class, &node.capacity);
        // Nothing is promised yet, so nothing moves.
        let _ = match node.standing {
            Standing::Up => Ok(Default::default()),
            Standing::Cordoned => ledger.cordon(&node.name),
            Standing::Lost => ledger.lose(&node.name),
        };
    }
    ledger
}

/// Counts a promise with its units on these nodes; those that the ledger does not know count nowhere.
pub(super) fn adopt(
    ledger: &mut Ledger,
    nodes: &[String],
    asked: &PromiseRequest,
    window: Window,
    stage: Stage,
) -> Option<PromiseId> {
    let shape = ledger.shape(&amounts(asked));
    let nodes = nodes.iter().filter_map(|name| ledger.node(name));
    let claims: Vec<Claim> = nodes.map(|node| Claim { node, shape: shape.clone(), window }).collect();
    (!claims.is_empty()).then(|| ledger.adopt(claims, asked.value, stage))
}
