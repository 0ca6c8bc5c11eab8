//! The ledger itself: nodes, promises, and the operations on them. Each operation is done whole or not at all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::amounts::{Amounts, Resource, Shape};
use crate::error::LedgerError;
use crate::ids::{LoanId, NodeId, PromiseId};
use crate::loan::Loan;
use crate::node::{Node, Standing};
use crate::outcome::{Passed, Replan};
use crate::promise::{Claim, Promise, Stage};
use crate::window::{OPEN_END, Tick, Window};

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub(crate) now: Tick,
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: BTreeMap<String, NodeId>,
    /// Places of nodes that were forgotten.
    vacant: Vec<NodeId>,
    pub(crate) resources: Vec<Resource>,
    numbers: HashMap<Resource, usize>,
    pub(crate) promises: BTreeMap<PromiseId, Promise>,
    pub(crate) next: u64,
    /// When each promise ends.
    ends: BTreeSet<(Tick, PromiseId)>,
    pub(crate) freed: BTreeSet<NodeId>,
    /// How many ticks before the start of a promise the loans in its way are recalled.
    pub(crate) notice: u64,
    pub(crate) loans: BTreeMap<LoanId, Loan>,
    pub(crate) next_loan: u64,
}

impl Ledger {
    pub fn new(now: Tick) -> Ledger {
        Ledger { now, ..Ledger::default() }
    }

    /// The first tick that can be claimed.
    pub fn now(&self) -> Tick {
        self.now
    }

    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.names.iter().map(|(name, id)| (*id, name.as_str()))
    }

    pub fn name(&self, node: NodeId) -> Option<&str> {
        self.nodes.get(node.index()).map(|node| node.name.as_str())
    }

    /// The nodes as they are from now until the end of the notice, for those who look on: without promises and loans, and
    /// with nothing of the time after that. So it is as small as what is near.
    pub fn outline(&self) -> Ledger {
        let Some(near) = self.near() else { return self.clone() };
        Ledger {
            now: self.now,
            nodes: self.nodes.iter().map(|node| node.within(near)).collect(),
            names: self.names.clone(),
            resources: self.resources.clone(),
            numbers: self.numbers.clone(),
            notice: self.notice,
            ..Ledger::default()
        }
    }

    pub fn standing(&self, node: NodeId) -> Standing {
        self.nodes.get(node.index()).map_or(Standing::Lost, |node| node.standing)
    }

    pub fn class(&self, node: NodeId) -> &str {
        self.nodes.get(node.index()).map_or("", |node| node.class.as_str())
    }

    /// The whole of a node, whatever is used of it and whether it is heard of or not.
    pub fn capacity(&self, node: NodeId) -> Amounts {
        let Some(node) = self.nodes.get(node.index()) else { return Amounts::default() };
        self.resources.iter().cloned().zip(node.capacity.iter().copied()).collect()
    }

    pub fn promise(&self, id: PromiseId) -> Option<&Promise> {
        self.promises.get(&id)
    }

    pub fn promises(&self) -> impl Iterator<Item = (PromiseId, &Promise)> {
        self.promises.iter().map(|(id, promise)| (*id, promise))
    }

    /// The amounts as this ledger counts them.
    pub fn shape(&mut self, amounts: &Amounts) -> Shape {
        Shape(amounts.iter().map(|(resource, amount)| (self.number(resource), amount)).collect())
    }

    /// The same without learning anything; none if some resource is one that no node was ever heard to have.
    pub fn known_shape(&self, amounts: &Amounts) -> Option<Shape> {
        let parts = amounts.iter().map(|(resource, amount)| Some((self.known(resource)?, amount)));
        parts.collect::<Option<Vec<_>>>().map(|parts| Shape(parts.into()))
    }

    pub(crate) fn number(&mut self, resource: &Resource) -> usize {
        if let Some(number) = self.numbers.get(resource) {
            return *number;
        }
        let number = self.resources.len();
        self.resources.push(resource.clone());
        self.numbers.insert(resource.clone(), number);
        number
    }

    pub(crate) fn known(&self, resource: &Resource) -> Option<usize> {
        self.numbers.get(resource).copied()
    }

    pub fn amounts(&self, shape: &Shape) -> Amounts {
        shape
            .parts()
            .filter_map(|(number, amount)| Some((self.resources.get(number)?.clone(), amount)))
            .collect()
    }

    /// The amounts of a node that are promised to nobody all through a window; they may be lent.
    pub fn free(&self, node: NodeId, window: Window) -> Amounts {
        let Some(node) = self.nodes.get(node.index()) else { return Amounts::default() };
        let free = |number: usize| node.free(number, window);
        self.resources.iter().enumerate().map(|(number, resource)| (resource.clone(), free(number))).collect()
    }

    /// How full a node is with all loans and the shape on it, in millionths: the fullest of the shape's resources in a window.
    pub fn fullness(&self, node: NodeId, shape: &Shape, window: Window) -> u64 {
        self.nodes.get(node.index()).map_or(u64::MAX, |node| node.fullness(shape, window))
    }

    /// The claim would be granted.
    pub fn fits(&self, node: NodeId, shape: &Shape, window: Window) -> bool {
        let open = |node: &&Node| node.standing == Standing::Up;
        window.start() >= self.now
            && self.nodes.get(node.index()).filter(open).is_some_and(|node| node.has_room(shape, window))
    }

    /// Adds a node, or changes its class and capacity. It stands as it stood; a new one is up.
    pub fn set_node(&mut self, name: &str, class: &str, capacity: &Amounts) -> (NodeId, Replan) {
        let id = self.put_node(name, class, capacity);
        (id, self.settle(id))
    }

    pub(crate) fn add_node(&mut self, name: &str) -> NodeId {
        let node = Node { name: name.to_owned(), ..Node::default() };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.nodes[id.index()] = node;
                id
            }
            None => {
                self.nodes.push(node);
                NodeId(u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.names.insert(name.to_owned(), id);
        id
    }

    /// The node is heard of, and takes claims.
    pub fn restore(&mut self, name: &str) -> Result<(), LedgerError> {
        let id = self.find(name)?;
        self.nodes[id.index()].standing = Standing::Up;
        self.freed.insert(id);
        Ok(())
    }

    /// The node takes nothing new. What is promised on it moves where there is room; what has nowhere to go stays.
    pub fn cordon(&mut self, name: &str) -> Result<Replan, LedgerError> {
        let id = self.find(name)?;
        self.nodes[id.index()].standing = Standing::Cordoned;
        Ok(self.move_away(id))
    }

    /// The node has nothing to give. What is promised on it moves or breaks, what ran on it has ended.
    pub fn lose(&mut self, name: &str) -> Result<Replan, LedgerError> {
        let id = self.find(name)?;
        self.nodes[id.index()].standing = Standing::Lost;
        Ok(self.settle(id))
    }

    /// Takes a lost node out of the ledger.
    pub fn forget(&mut self, name: &str) -> Result<(), LedgerError> {
        let id = self.find(name)?;
        let node = &mut self.nodes[id.index()];
        if node.standing != Standing::Lost || !node.promises.is_empty() || !node.loans.is_empty() {
            return Err(LedgerError::InUse(name.to_owned()));
        }
        *node = Node { standing: Standing::Lost, ..Node::default() };
        self.names.remove(name);
        self.freed.remove(&id);
        self.vacant.push(id);
        Ok(())
    }

    fn find(&self, name: &str) -> Result<NodeId, LedgerError> {
        self.node(name).ok_or_else(|| LedgerError::UnknownNode(name.to_owned()))
    }

    /// Promises all claims, or none.
    pub fn reserve(&mut self, claims: Vec<Claim>, value: u64) -> Result<PromiseId, LedgerError> {
        if claims.is_empty() {
            return Err(LedgerError::NoClaims);
        }
        let id = PromiseId(self.next);
        for (granted, claim) in claims.iter().enumerate() {
            if let Err(error) = self.check(claim) {
                for claim in &claims[..granted] {
                    self.nodes[claim.node.index()].subtract(&claim.shape, claim.window, self.now);
                }
                return Err(error);
            }
            self.nodes[claim.node.index()].add(&claim.shape, claim.window, self.now);
        }
        self.next += 1;
        for claim in &claims {
            self.nodes[claim.node.index()].promises.insert(id);
        }
        let promise = Promise { claims, value, stage: Stage::Promised };
        self.ends.insert((promise.end(), id));
        self.promises.insert(id, promise);
        Ok(id)
    }

    fn check(&self, claim: &Claim) -> Result<(), LedgerError> {
        if claim.window.start() < self.now {
            return Err(LedgerError::Past { at: claim.window.start(), now: self.now });
        }
        let Some(node) = self.nodes.get(claim.node.index()) else {
            return Err(LedgerError::UnknownNode(claim.node.index().to_string()));
        };
        if node.standing != Standing::Up {
            return Err(LedgerError::Closed { node: node.name.clone(), standing: node.standing });
        }
        if node.has_room(&claim.shape, claim.window) { Ok(()) } else { self.trial().check_room(claim) }
    }

    /// A promise whose time has come is in use from now on.
    pub fn commit(&mut self, id: PromiseId) -> Result<(), LedgerError> {
        let now = self.now;
        let promise = self.promises.get_mut(&id).ok_or(LedgerError::UnknownPromise(id))?;
        if promise.start() > now {
            return Err(LedgerError::NotDue { promise: id, start: promise.start(), now });
        }
        promise.stage = Stage::Running;
        Ok(())
    }

    /// Gives back all that is left of a promise.
    pub fn release(&mut self, id: PromiseId) -> Result<(), LedgerError> {
        self.take(id).map(drop).ok_or(LedgerError::UnknownPromise(id))
    }

    /// Takes a promise out, with all that it claims.
    pub(crate) fn take(&mut self, id: PromiseId) -> Option<Promise> {
        let promise = self.promises.remove(&id)?;
        self.ends.remove(&(promise.end(), id));
        for claim in &promise.claims {
            let node = &mut self.nodes[claim.node.index()];
            node.subtract(&claim.shape, claim.window, self.now);
            node.promises.remove(&id);
            self.freed.insert(claim.node);
        }
        Some(promise)
    }

    /// Puts in a promise for which there is room.
    pub(crate) fn put(&mut self, id: PromiseId, promise: Promise) {
        self.ends.insert((promise.end(), id));
        for claim in &promise.claims {
            let node = &mut self.nodes[claim.node.index()];
            node.add(&claim.shape, claim.window, self.now);
            node.promises.insert(id);
        }
        self.promises.insert(id, promise);
    }

    /// Gives a promise another end: the claims that end last are extended, if there is room, or shortened.
    pub fn resize(&mut self, id: PromiseId, end: Tick) -> Result<(), LedgerError> {
        let resized = self.check_resize(id, end)?;
        let Some(before) = self.promises.remove(&id) else { return Err(LedgerError::UnknownPromise(id)) };
        for (was, claim) in before.claims.iter().zip(&resized.claims) {
            let node = &mut self.nodes[claim.node.index()];
            node.subtract(&was.shape, was.window, self.now);
            node.add(&claim.shape, claim.window, self.now);
        }
        self.ends.remove(&(before.end(), id));
        self.ends.insert((resized.end(), id));
        if end < before.end() {
            self.freed.extend(before.claims.iter().map(|claim| claim.node));
        }
        self.promises.insert(id, resized);
        Ok(())
    }

    /// The promise with another end, if there is room for that. What runs on a cordoned node may go on.
    pub fn check_resize(&self, id: PromiseId, end: Tick) -> Result<Promise, LedgerError> {
        let mut resized = self.promises.get(&id).ok_or(LedgerError::UnknownPromise(id))?.clone();
        let was = resized.end();
        if end <= self.now {
            return Err(LedgerError::Past { at: end, now: self.now });
        }
        for claim in resized.claims.iter_mut().filter(|claim| claim.window.end() == was) {
            claim.window = Window::new(claim.window.start(), end)?;
        }
        let mut trial = self.trial();
        trial.release(id)?;
        for claim in &resized.claims {
            trial.check_room(claim)?;
            trial.claim(claim.node, &claim.shape, claim.window);
        }
        Ok(resized)
    }

    /// Time has passed. Promises that never ran and are over expire; what runs on past its end keeps what it has.
    pub fn advance(&mut self, now: Tick) -> Result<Passed, LedgerError> {
        if now < self.now {
            return Err(LedgerError::Past { at: now, now: self.now });
        }
        self.now = now;
        let mut passed = Passed::default();
        let mut crowded = BTreeSet::new();
        while let Some((end, id)) =
            self.ends.first().copied().filter(|(end, _)| *end <= now && *end < OPEN_END)
        {
            match self.promises.get(&id).map(|promise| promise.stage) {
                Some(Stage::Running) => {
                    passed.overrunning.push(id);
                    crowded.extend(self.overrun(id, end));
                }
                Some(Stage::Promised) => {
                    passed.expired.push(id);
                    self.take(id);
                }
                None => drop(self.ends.remove(&(end, id))),
            }
        }
        for node in crowded {
            passed.replan.join(self.settle(node));
        }
        Ok(passed)
    }

    /// Extends what runs beyond its end by the present tick, whether there is room or not. Returns the nodes on which it is.
    fn overrun(&mut self, id: PromiseId, end: Tick) -> Vec<NodeId> {
        let next = self.now.saturating_add(1);
        let Some(promise) = self.promises.get_mut(&id) else { return Vec::new() };
        let mut nodes = Vec::new();
        for claim in promise.claims.iter_mut().filter(|claim| claim.window.end() == end) {
            let Ok(window) = Window::new(claim.window.start(), next) else { continue };
            let Ok(more) = Window::new(end, next) else { continue };
            claim.window = window;
            self.nodes[claim.node.index()].add(&claim.shape, more, self.now);
            nodes.push(claim.node);
        }
        self.ends.remove(&(end, id));
        self.ends.insert((next, id));
        nodes
    }

    /// The nodes on which something became free since this was asked last.
    pub fn take_freed(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.freed).into_iter().collect()
    }
}
