//! The place of every item of a job: waiting, with a node, or done.
//!
//! Guarantees exactly once: an item is in one place, moves only by these methods, and stays done by the node that
//! reported it first. The ledger knows no speeds; policies decide how many items each node gets.

use std::collections::VecDeque;

use super::{Error, ItemId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Left by a lost node, and planned for none.
    Pool,
    /// Planned for the node, not given yet.
    Reserve(usize),
    Given(usize),
    Done(usize),
}

/// Where waiting items are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Pool,
    /// The front of what is planned for the node itself.
    Own,
    /// The back of what is planned for another one.
    Reserve(usize),
}

/// Items in order. Those that got done meanwhile stay in it, uncounted, until they come up.
#[derive(Debug, Clone, Default)]
struct Queue {
    items: VecDeque<ItemId>,
    count: usize,
}

#[derive(Debug, Clone, Default)]
struct NodeQueues {
    reserve: Queue,
    given: Queue,
}

#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    places: Vec<Place>,
    pool: Queue,
    queues: Vec<NodeQueues>,
    waiting: usize,
    undone: usize,
}

impl Ledger {
    /// Reserves each node's part for it. The parts have to be a partition of 0, 1, 2, ….
    pub(crate) fn new(parts: Vec<Vec<ItemId>>) -> Result<Ledger, Error> {
        let total = parts.iter().map(Vec::len).sum::<usize>();
        if u32::try_from(total).is_err() {
            return Err(Error::TooManyItems { items: total });
        }
        let mut places = vec![Place::Pool; total];
        let mut queues = Vec::with_capacity(parts.len());
        for (node, part) in parts.into_iter().enumerate() {
            for item in &part {
                // As many as there are numbers: if none is out of range and none twice, none is missing.
                match places.get_mut(*item as usize) {
                    Some(place @ Place::Pool) => *place = Place::Reserve(node),
                    Some(_) => {
                        return Err(Error::NotAPartition { what: format!("item {item} is listed twice") });
                    }
                    None => {
                        let what = format!("item {item} is in, of {total} items that count from 0");
                        return Err(Error::NotAPartition { what });
                    }
                }
            }
            let reserve = Queue { count: part.len(), items: part.into() };
            queues.push(NodeQueues { reserve, given: Queue::default() });
        }
        Ok(Ledger { places, pool: Queue::default(), queues, waiting: total, undone: total })
    }

    pub(crate) fn add_node(&mut self) -> usize {
        self.queues.push(NodeQueues::default());
        self.queues.len() - 1
    }

    /// Items that no node has.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn undone(&self) -> usize {
        self.undone
    }

    pub(crate) fn pooled(&self) -> usize {
        self.pool.count
    }

    pub(crate) fn reserved(&self, node: usize) -> usize {
        self.queues[node].reserve.count
    }

    pub(crate) fn given(&self, node: usize) -> usize {
        self.queues[node].given.count
    }

    /// By item: the node that did it.
    pub(crate) fn merged(&self) -> Vec<Option<usize>> {
        self.places
            .iter()
            .map(|place| match place {
                Place::Done(node) => Some(*node),
                _ => None,
            })
            .collect()
    }

    /// Gives the node up to `count` waiting items.
    pub(crate) fn give(&mut self, node: usize, source: Source, count: usize) -> Vec<ItemId> {
        let (place, queue) = match source {
            Source::Pool => (Place::Pool, &mut self.pool),
            Source::Own => (Place::Reserve(node), &mut self.queues[node].reserve),
            Source::Reserve(of) => (Place::Reserve(of), &mut self.queues[of].reserve),
        };
        let from_back = matches!(source, Source::Reserve(_));
        let items = take(queue, &self.places, place, count, from_back);
        self.waiting -= items.len();
        self.assign(node, &items);
        items
    }

    /// Moves up to `count` of the last items of one node to another.
    pub(crate) fn shift(&mut self, from: usize, to: usize, count: usize) -> Vec<ItemId> {
        let items = take(&mut self.queues[from].given, &self.places, Place::Given(from), count, true);
        self.assign(to, &items);
        items
    }

    /// Records items that the node did. Returns the items that other nodes have and need not do any more.
    /// Items that are done already, and unknown ones, change nothing.
    pub(crate) fn done(&mut self, node: usize, items: &[ItemId]) -> Vec<(usize, Vec<ItemId>)> {
        let mut spared: Vec<(usize, Vec<ItemId>)> = Vec::new();
        for item in items {
            let Some(place) = self.places.get_mut(*item as usize) else { continue };
            match std::mem::replace(place, Place::Done(node)) {
                Place::Done(earlier) => {
                    *place = Place::Done(earlier);
                    continue;
                }
                Place::Pool => {
                    self.pool.count -= 1;
                    self.waiting -= 1;
                }
                Place::Reserve(of) => {
                    self.queues[of].reserve.count -= 1;
                    self.waiting -= 1;
                }
                Place::Given(to) => {
                    self.queues[to].given.count -= 1;
                    if to != node {
                        match spared.iter_mut().find(|(other, _)| *other == to) {
                            Some((_, items)) => items.push(*item),
                            None => spared.push((to, vec![*item])),
                        }
                    }
                }
            }
            self.undone -= 1;
        }
        spared
    }

    /// Returns all items of the node, given or reserved, to the pool.
    pub(crate) fn lose(&mut self, node: usize) {
        let all = usize::MAX;
        let given = take(&mut self.queues[node].given, &self.places, Place::Given(node), all, false);
        let reserve = take(&mut self.queues[node].reserve, &self.places, Place::Reserve(node), all, false);
        self.waiting += given.len();
        for item in given.into_iter().chain(reserve) {
            self.places[item as usize] = Place::Pool;
            self.pool.items.push_back(item);
            self.pool.count += 1;
        }
    }

    fn assign(&mut self, node: usize, items: &[ItemId]) {
        let given = &mut self.queues[node].given;
        for item in items {
            self.places[*item as usize] = Place::Given(node);
            given.items.push_back(*item);
        }
        given.count += items.len();
    }
}

/// Takes up to `count` items out of the queue, in its order, and passes over those that are not in that place any more.
fn take(queue: &mut Queue, places: &[Place], place: Place, count: usize, from_back: bool) -> Vec<ItemId> {
    let mut items = Vec::with_capacity(count.min(queue.count));
    while items.len() < count && queue.count > 0 {
        let next = if from_back { queue.items.pop_back() } else { queue.items.pop_front() };
        let Some(item) = next else { break };
        if places[item as usize] == place {
            items.push(item);
            queue.count -= 1;
        }
    }
    if from_back {
        items.reverse();
    }
    items
}
