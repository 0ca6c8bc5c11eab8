//! Re-planning: when a node has less to give than is promised on it, promises move to nodes of the same class, and those
//! that find no place break, the least valuable first.
//!
//! A promise keeps its window and its amounts when it moves, and what runs never moves. A promise that finds no free place
//! may take that of promises worth less. So each is placed at most once in a re-planning: whatever comes after it is
//! worth no more. Cost: a promise that is displaced looks at the nodes of its class, and at what is promised on them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::ids::{NodeId, PromiseId};
use crate::ledger::Ledger;
use crate::node::{Node, Standing};
use crate::outcome::{Move, Replan};
use crate::promise::{Claim, Promise, Stage};
use crate::window::Window;

/// The order in which promises keep their places: more value first, of equals the older.
type Worth = (u64, Reverse<PromiseId>);

impl Ledger {
    /// Makes the promises of a node fit its capacity again.
    pub(crate) fn settle(&mut self, node: NodeId) -> Replan {
        let mut replan = Replan::default();
        let mut displaced = BTreeMap::new();
        for id in self.least_first(node) {
            if !self.nodes[node.index()].is_overfull(self.now) {
                break;
            }
            if !self.promises[&id].claims.iter().any(|claim| claim.node == node && self.is_crowded(claim)) {
                continue;
            }
            match self.take(id) {
                Some(promise) if promise.stage == Stage::Promised => {
                    displaced.insert((promise.value, Reverse(id)), promise);
                }
                _ => replan.ended.push(id),
            }
        }
        self.place_all(displaced, &mut replan);
        replan
    }

    /// Promises before running tasks, and the least value before more.
    fn least_first(&self, node: NodeId) -> Vec<PromiseId> {
        let mut ids: Vec<PromiseId> = self.nodes[node.index()].promises.iter().copied().collect();
        ids.sort_by_key(|id| (self.promises[id].stage, self.promises[id].value, Reverse(*id)));
        ids
    }

    /// The claim uses a resource of which more is used than there is, at a tick at which that is so.
    fn is_crowded(&self, claim: &Claim) -> bool {
        let Some(window) = claim.window.from(self.now) else { return false };
        claim.shape.parts().any(|(number, _)| self.nodes[claim.node.index()].is_crowded(number, window))
    }

    fn place_all(&mut self, mut displaced: BTreeMap<Worth, Promise>, replan: &mut Replan) {
        while let Some(((_, Reverse(id)), promise)) = displaced.pop_last() {
            let was: Vec<NodeId> = promise.claims.iter().map(|claim| claim.node).collect();
            match self.place(promise, true) {
                Some((promise, victims)) => {
                    self.note_moves(id, &was, &promise, replan);
                    self.put(id, promise);
                    displaced.extend(
                        victims.into_iter().map(|(id, victim)| ((victim.value, Reverse(id)), victim)),
                    );
                }
                None => replan.broken.push(id),
            }
        }
    }

    fn note_moves(&self, promise: PromiseId, was: &[NodeId], now: &Promise, replan: &mut Replan) {
        let name = |node: NodeId| self.nodes[node.index()].name.clone();
        for (claim, (from, to)) in was.iter().zip(now.claims.iter().map(|claim| claim.node)).enumerate() {
            if *from != to {
                replan.moved.push(Move { promise, claim, from: name(*from), to: name(to) });
            }
        }
    }

    /// Finds a place for each claim of a promise that is not in the ledger, which does not change but for the promises that
    /// had to leave for it. None: then nothing has changed.
    fn place(
        &mut self,
        mut promise: Promise,
        may_displace: bool,
    ) -> Option<(Promise, Vec<(PromiseId, Promise)>)> {
        let mut victims = Vec::new();
        let mut placed: Vec<Claim> = Vec::new();
        let mut fits = true;
        for claim in &mut promise.claims {
            let free = self.free_place(claim);
            let place = match free {
                None if may_displace => self.displace(claim, promise.value),
                free => free.map(|node| (node, Vec::new())),
            };
            let Some((node, left)) = place else {
                fits = false;
                break;
            };
            victims.extend(left);
            claim.node = node;
            self.nodes[node.index()].add(&claim.shape, claim.window, self.now);
            placed.push(claim.clone());
        }
        for claim in placed {
            self.nodes[claim.node.index()].subtract(&claim.shape, claim.window, self.now);
        }
        if fits {
            return Some((promise, victims));
        }
        for (id, victim) in victims {
            self.put(id, victim);
        }
        None
    }

    /// Its own node if that is up, else the first of its class that has room, else its own if that is only cordoned.
    fn free_place(&self, claim: &Claim) -> Option<NodeId> {
        let own = &self.nodes[claim.node.index()];
        let has_room = |node: &Node| node.has_room(&claim.shape, claim.window);
        if own.standing == Standing::Up && has_room(own) {
            return Some(claim.node);
        }
        let other = self.of_class(&own.class).find(|id| has_room(&self.nodes[id.index()]));
        other.or_else(|| (own.standing == Standing::Cordoned && has_room(own)).then_some(claim.node))
    }

    fn of_class<'l>(&'l self, class: &'l str) -> impl Iterator<Item = NodeId> + 'l {
        let alike = move |id: &NodeId| {
            let node = &self.nodes[id.index()];
            node.standing == Standing::Up && node.class == class
        };
        self.names.values().copied().filter(alike)
    }

    /// The node on which promises worth less than `value` leave the least behind if they make room, and those promises, taken
    /// out of the ledger.
    fn displace(&mut self, claim: &Claim, value: u64) -> Option<(NodeId, Vec<(PromiseId, Promise)>)> {
        let nodes: Vec<NodeId> = self.of_class(&self.nodes[claim.node.index()].class).collect();
        let mut best: Option<((u64, usize), NodeId, Vec<PromiseId>)> = None;
        for node in nodes {
            let Some(left) = self.make_room(node, claim, value) else { continue };
            let price = (left.iter().map(|(_, victim)| victim.value).max().unwrap_or(0), left.len());
            let ids = left.iter().map(|(id, _)| *id).collect();
            for (id, victim) in left {
                self.put(id, victim);
            }
            if best.as_ref().is_none_or(|(least, ..)| price < *least) {
                best = Some((price, node, ids));
            }
        }
        let (_, node, ids) = best?;
        let left = ids.into_iter().filter_map(|id| Some((id, self.take(id)?))).collect();
        Some((node, left))
    }

    /// Takes out as few promises of a node as make room for a claim, the least value first; none if all of them do not.
    fn make_room(&mut self, node: NodeId, claim: &Claim, value: u64) -> Option<Vec<(PromiseId, Promise)>> {
        let room = |ledger: &Ledger| ledger.nodes[node.index()].has_room(&claim.shape, claim.window);
        let mut left = Vec::new();
        for id in self.least_first(node) {
            if room(self) {
                break;
            }
            let promise = &self.promises[&id];
            let in_the_way = |other: &Claim| other.node == node && competes(other, claim, self.now);
            if promise.stage == Stage::Promised
                && promise.value < value
                && promise.claims.iter().any(in_the_way)
            {
                left.extend(self.take(id).map(|promise| (id, promise)));
            }
        }
        let enough = room(self);
        // The last that left was needed. Of the others those that are worth most stay if they can.
        let mut needed = Vec::new();
        while let Some((id, promise)) = left.pop() {
            self.put(id, promise);
            if enough && !room(self) {
                needed.extend(self.take(id).map(|promise| (id, promise)));
            }
        }
        enough.then_some(needed)
    }

    /// Moves what is promised on a cordoned node to where there is room.
    pub(crate) fn move_away(&mut self, node: NodeId) -> Replan {
        let mut replan = Replan::default();
        for id in self.least_first(node).into_iter().rev() {
            if self.promises[&id].stage == Stage::Running {
                continue;
            }
            let Some(promise) = self.take(id) else { continue };
            let was: Vec<NodeId> = promise.claims.iter().map(|claim| claim.node).collect();
            let as_it_was = promise.clone();
            let promise = self.place(promise, false).map_or(as_it_was, |(promise, _)| promise);
            if promise.claims.iter().any(|claim| claim.node == node) {
                replan.stranded.push(id);
            }
            self.note_moves(id, &was, &promise, &mut replan);
            self.put(id, promise);
        }
        replan
    }
}

/// The two claims want the same resource at the same time.
fn competes(one: &Claim, other: &Claim, now: u64) -> bool {
    let shared = one.shape.parts().any(|(number, _)| other.shape.parts().any(|(wanted, _)| wanted == number));
    shared && one.window.from(now).is_some_and(|window: Window| window.overlaps(other.window))
}
