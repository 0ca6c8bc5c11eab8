//! Step 1 of Algorithm 1 where items have copies on several nodes: each item is assigned to one holder.
//!
//! The paper's step 1 is the plain distribution of the data and knows no capability, so none is looked at here: copies
//! are resolved so that the first shares are about even. Neither the order of nodes, of items nor of copies matters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Error, ItemId};

/// An item by its name, and the names of the nodes that hold a copy of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub on: Vec<String>,
}

/// All items, the holders of their copies, and the node that each belongs to at first. Nodes and items are numbered by
/// name.
#[derive(Debug, Clone)]
pub struct Holdings {
    nodes: Vec<String>,
    items: Vec<String>,
    /// By item, in order.
    holders: Vec<Vec<usize>>,
    /// By node, in order.
    first: Vec<Vec<ItemId>>,
    nowhere: u64,
}

impl Holdings {
    /// Gives every item to one of the nodes that hold it: the one that has the fewest so far, the first by name of
    /// several. Items with the fewest copies go first, since they leave the least choice. An item of which none of
    /// these nodes holds a copy goes to the node with the fewest, which has to fetch it.
    ///
    /// The shares are as even as a greedy choice, item by item, can make them.
    pub fn resolve(mut nodes: Vec<String>, mut items: Vec<Item>) -> Result<Holdings, Error> {
        if nodes.is_empty() {
            return Err(Error::NoNodes);
        }
        if u32::try_from(items.len()).is_err() {
            return Err(Error::TooManyItems { items: items.len() });
        }
        nodes.sort_unstable();
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::DuplicateNode { node: pair[0].clone() });
        }
        items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = items.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(Error::DuplicateItem { item: pair[0].name.clone() });
        }
        let holders: Vec<Vec<usize>> = items.iter().map(|item| numbers(&nodes, &item.on)).collect();
        let first = first_shares(nodes.len(), &holders);
        let nowhere = holders.iter().filter(|holders| holders.is_empty()).count() as u64;
        let items = items.into_iter().map(|item| item.name).collect();
        Ok(Holdings { nodes, items, holders, first, nowhere })
    }

    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The names of the items, by number.
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// How many items are the node's at first; 0 for a node that is not among these.
    pub fn load(&self, node: &str) -> u64 {
        self.nodes
            .binary_search_by(|name| name.as_str().cmp(node))
            .map_or(0, |node| self.first[node].len() as u64)
    }

    /// The items that are the node's at first.
    pub fn first(&self, node: usize) -> &[ItemId] {
        &self.first[node]
    }

    /// The nodes that hold a copy of the item.
    pub fn holders(&self, item: ItemId) -> &[usize] {
        &self.holders[item as usize]
    }

    /// How many items none of the nodes holds.
    pub fn nowhere(&self) -> u64 {
        self.nowhere
    }
}

/// The numbers of the nodes named, in order, once each; names of others are passed over.
fn numbers(nodes: &[String], names: &[String]) -> Vec<usize> {
    let mut numbers: Vec<usize> = names.iter().filter_map(|name| nodes.binary_search(name).ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn first_shares(nodes: usize, holders: &[Vec<usize>]) -> Vec<Vec<ItemId>> {
    let mut first: Vec<Vec<ItemId>> = vec![Vec::new(); nodes];
    let mut order: Vec<usize> = (0..holders.len()).filter(|item| !holders[*item].is_empty()).collect();
    order.sort_by_key(|item| holders[*item].len());
    for item in order {
        if let Some(node) = holders[item].iter().copied().min_by_key(|node| first[*node].len()) {
            first[node].push(item as ItemId);
        }
    }
    let mut fewest: BinaryHeap<_> = (0..nodes).map(|node| Reverse((first[node].len(), node))).collect();
    for item in (0..holders.len()).filter(|item| holders[*item].is_empty()) {
        if let Some(Reverse((load, node))) = fewest.pop() {
            first[node].push(item as ItemId);
            fewest.push(Reverse((load + 1, node)));
        }
    }
    for items in &mut first {
        items.sort_unstable();
    }
    first
}
