//! A plan carried out as it is: every node gets its whole part when it starts, and nothing is learnt on the way.
//!
//! Only a loss changes anything: what the lost node had not told of is divided among the nodes at work, by the
//! capabilities of the start. A node that joins later works only on such remains.

use super::ledger::{Ledger, Source};
use super::{Action, Error, ItemId, Policy, remainder};

/// The policies `static` and `optimal` at run time.
#[derive(Debug, Clone)]
pub struct FixedPolicy {
    ledger: Ledger,
    nodes: Vec<Member>,
    finished: bool,
}

#[derive(Debug, Clone)]
struct Member {
    name: String,
    weight: f64,
    working: bool,
}

impl FixedPolicy {
    /// Nodes with their names and capabilities, and the items of each.
    pub fn new(nodes: Vec<(String, f64)>, parts: Vec<Vec<ItemId>>) -> Result<FixedPolicy, Error> {
        if nodes.len() != parts.len() {
            let what = format!("there are {} parts for {} nodes", parts.len(), nodes.len());
            return Err(Error::NotAPartition { what });
        }
        let ledger = Ledger::new(parts)?;
        let nodes = nodes.into_iter().map(|(name, weight)| Member { name, weight, working: false }).collect();
        Ok(FixedPolicy { ledger, nodes, finished: false })
    }

    /// Divides what lost nodes left among those at work.
    fn share_out(&mut self, actions: &mut Vec<Action>) {
        let left = self.ledger.pooled() as u64;
        let mut weights: Vec<f64> =
            self.nodes.iter().map(|node| if node.working { node.weight } else { 0.0 }).collect();
        if weights.iter().all(|weight| *weight <= 0.0) {
            weights = self.nodes.iter().map(|node| f64::from(u8::from(node.working))).collect();
        }
        if left == 0 || weights.iter().all(|weight| *weight <= 0.0) {
            return;
        }
        let shares = remainder::shares(left, &weights, &vec![0; weights.len()]);
        for (node, share) in shares.into_iter().enumerate() {
            let items = self.ledger.give(node, Source::Pool, share as usize);
            push_give(actions, node, items);
        }
    }

    fn finish(&mut self, actions: &mut Vec<Action>) {
        if self.ledger.undone() == 0 && !self.finished {
            self.finished = true;
            actions.push(Action::Finished);
        }
    }
}

fn push_give(actions: &mut Vec<Action>, node: usize, items: Vec<ItemId>) {
    if !items.is_empty() {
        actions.push(Action::Give { node, items });
    }
}

impl Policy for FixedPolicy {
    fn started(&mut self, node: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(member) = self.nodes.get_mut(node) else { return actions };
        member.working = true;
        let items = self.ledger.give(node, Source::Own, usize::MAX);
        push_give(&mut actions, node, items);
        self.share_out(&mut actions);
        self.finish(&mut actions);
        actions
    }

    fn done(&mut self, node: usize, items: &[ItemId], _seconds: f64) -> Vec<Action> {
        if node >= self.nodes.len() {
            return Vec::new();
        }
        let spared = self.ledger.done(node, items);
        let mut actions: Vec<Action> =
            spared.into_iter().map(|(node, items)| Action::TakeBack { node, items }).collect();
        self.finish(&mut actions);
        actions
    }

    fn lost(&mut self, node: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(member) = self.nodes.get_mut(node) else { return actions };
        member.working = false;
        self.ledger.lose(node);
        self.share_out(&mut actions);
        actions
    }

    fn joined(&mut self, name: &str, capability: f64) -> (usize, Vec<Action>) {
        let weight = if capability.is_finite() { capability.max(0.0) } else { 0.0 };
        if let Some(node) = self.nodes.iter().position(|member| member.name == name) {
            let actions = self.lost(node);
            self.nodes[node].weight = weight;
            return (node, actions);
        }
        self.nodes.push(Member { name: name.to_owned(), weight, working: false });
        (self.ledger.add_node(), Vec::new())
    }

    fn merged(&self) -> Vec<Option<usize>> {
        self.ledger.merged()
    }
}
