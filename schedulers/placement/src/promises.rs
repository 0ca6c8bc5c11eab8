//! All promises that are kept, and when something is due for them. A tick is a second since 1970.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use estimand_api::promise::{BY_TIME, PromiseState};
use estimand_capacity::Tick;

use super::Millis;
use super::nodes::Offer;
use super::promise::{Promise, PromiseChange};

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

    /// The oldest of those that are over.
    pub fn oldest_over(&self, count: usize) -> Vec<Arc<Promise>> {
        let in_order = self.by_revision.iter().filter_map(|(_, number)| self.all.get(number));
        in_order.filter(|promise| !promise.is_live()).take(count).cloned().collect()
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
        let leaves = self.leaves.range((now + Millis(1), 0)..).next().map(|(at, _)| *at);
        let now = now.tick();
        let after = |all: &BTreeSet<(Tick, u64)>, at: Tick| {
            all.range((at.saturating_add(1), 0)..).next().map(|(at, _)| *at)
        };
        let room = after(&self.begins, now.saturating_add(notice)).map(|from| from - notice);
        let due = [room, after(&self.begins, now), after(&self.ends, now)].into_iter().flatten().min();
        due.map(Millis::of_tick).into_iter().chain(leaves).min()
    }

    /// Shows what a change makes of it.
    pub fn apply(&mut self, change: &PromiseChange) {
        if change.revision == 0 {
            return;
        }
        (self.revision, self.base) = (change.revision, self.base.max(change.base));
        change.removed.iter().for_each(|number| self.unlist(*number));
        change.promises.iter().for_each(|promise| self.list(Arc::clone(promise)));
        if let Some(nodes) = &change.nodes {
            self.nodes = Some(Arc::clone(nodes));
        }
    }

    /// Has what another one has of these, and its nodes.
    pub fn follow(&mut self, other: &Promises, numbers: &BTreeSet<u64>) {
        (self.revision, self.base) = (other.revision, other.base);
        self.highest = self.highest.max(other.highest);
        self.nodes.clone_from(&other.nodes);
        numbers.iter().for_each(|number| self.unlist(*number));
        let kept = numbers.iter().filter_map(|number| other.get(*number));
        kept.for_each(|promise| self.list(Arc::clone(promise)));
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
}
