//! A trial: a ledger with some claims more and some promises less, as it would be. The ledger stays as it is, and nothing of
//! it is copied, so a trial costs what is tried, however much is promised.

use std::collections::HashMap;

use crate::amounts::Shape;
use crate::error::LedgerError;
use crate::ids::{NodeId, PromiseId};
use crate::ledger::Ledger;
use crate::promise::Claim;
use crate::steps::{Changes, Steps};
use crate::window::{Tick, Window};

#[derive(Debug, Clone)]
pub struct Trial<'l> {
    pub(crate) ledger: &'l Ledger,
    /// By node and the ledger's number of a resource.
    changes: HashMap<(NodeId, usize), Changes>,
}

impl Ledger {
    /// The ledger as it is, to try something on.
    pub fn trial(&self) -> Trial<'_> {
        Trial { ledger: self, changes: HashMap::new() }
    }
}

impl Trial<'_> {
    /// Counts a claim, whether there is room for it or not.
    pub fn claim(&mut self, node: NodeId, shape: &Shape, window: Window) {
        self.change(node, shape, window, 1);
    }

    /// Counts a promise as given back.
    pub fn release(&mut self, id: PromiseId) -> Result<(), LedgerError> {
        let promise = self.ledger.promise(id).ok_or(LedgerError::UnknownPromise(id))?;
        for claim in &promise.claims {
            self.change(claim.node, &claim.shape, claim.window, -1);
        }
        Ok(())
    }

    fn change(&mut self, node: NodeId, shape: &Shape, window: Window, sign: i128) {
        for (resource, amount) in shape.parts() {
            let (changes, by) =
                (self.changes.entry((node, resource)).or_default(), i128::from(amount) * sign);
            *changes.entry(window.start()).or_default() += by;
            *changes.entry(window.end()).or_default() -= by;
        }
    }

    /// The most of a resource of a node that would be in use in a window.
    fn most_used(&self, node: NodeId, resource: usize, window: Window) -> u128 {
        let place = &self.ledger.nodes[node.index()];
        let Some(changes) = self.changes.get(&(node, resource)) else {
            return place.most_used(resource, window);
        };
        match place.used.get(resource) {
            Some(steps) => steps.most_after(changes, window),
            None => Steps::default().most_after(changes, window),
        }
    }

    /// The amount of a resource that would be promised to nobody all through a window.
    pub(crate) fn free(&self, node: NodeId, resource: usize, window: Window) -> u64 {
        let used = u64::try_from(self.most_used(node, resource, window)).unwrap_or(u64::MAX);
        self.ledger.nodes[node.index()].capacity(resource).saturating_sub(used)
    }

    /// There would be room for a claim, whatever the standing of its node.
    pub(crate) fn check_room(&self, claim: &Claim) -> Result<(), LedgerError> {
        let free = |resource: usize| self.free(claim.node, resource, claim.window);
        let short = claim.shape.parts().find(|(resource, asked)| free(*resource) < *asked);
        let Some((resource, asked)) = short else { return Ok(()) };
        let node = self.ledger.nodes[claim.node.index()].name.clone();
        let free = free(resource);
        Err(LedgerError::NoRoom { node, resource: self.ledger.resources[resource].clone(), asked, free })
    }

    /// The ticks after `from` at which a resource of a node would be free again.
    pub(crate) fn falls_after(
        &self,
        node: NodeId,
        resource: usize,
        from: Tick,
    ) -> impl Iterator<Item = Tick> {
        let steps = self.ledger.nodes[node.index()].used.get(resource);
        let tried = self.changes.get(&(node, resource)).into_iter().flatten();
        let tried = tried.filter(move |(at, change)| **at > from && **change < 0).map(|(at, _)| *at);
        steps.into_iter().flat_map(move |steps| steps.falls_after(from)).chain(tried)
    }
}
