//! Which items a plan's transfers are.
//!
//! The paper counts only. Where there are copies the choice decides how much really travels: an item of which the
//! taker holds a copy costs nothing to move. Numbers of items only, and the counts are the plan's, never others.

use std::collections::HashMap;

use super::{Error, Holdings, ItemId, Plan};

/// A plan in items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picked {
    /// What each node is to do, in order.
    pub parts: Vec<Vec<ItemId>>,
    /// The items of each transfer, in order.
    pub transfers: Vec<Vec<ItemId>>,
    /// How many items are done on nodes that hold no copy of them: what has to be fetched.
    pub fetched: u64,
}

/// Chooses the items of each transfer: first those of which the taker holds a copy, then the last ones by name.
pub fn pick(plan: &Plan, holdings: &Holdings) -> Result<Picked, Error> {
    check(plan, holdings)?;
    let mut parts: Vec<Vec<ItemId>> =
        (0..plan.parts.len()).map(|node| holdings.first(node).to_vec()).collect();
    let mut transfers: Vec<Vec<ItemId>> = vec![Vec::new(); plan.transfers.len()];
    let mut start = 0;
    // A giver's transfers follow each other.
    for run in plan.transfers.chunk_by(|a, b| a.from == b.from) {
        let chosen = &mut transfers[start..start + run.len()];
        start += run.len();
        let takers: HashMap<usize, usize> = run.iter().enumerate().map(|(i, one)| (one.to, i)).collect();
        let stays = &mut parts[run[0].from];
        stays.retain(|item| {
            let wanted = |i: &usize| (chosen[*i].len() as u64) < run[*i].count;
            let taker =
                holdings.holders(*item).iter().filter_map(|node| takers.get(node).copied()).find(wanted);
            taker.map(|i| chosen[i].push(*item)).is_none()
        });
        for (one, items) in run.iter().zip(chosen) {
            let rest = stays.len() - (one.count as usize - items.len());
            items.extend(stays.drain(rest..));
            items.sort_unstable();
        }
    }
    for (one, items) in plan.transfers.iter().zip(&transfers) {
        parts[one.to].extend(items);
        parts[one.to].sort_unstable();
    }
    let fetched = parts
        .iter()
        .enumerate()
        .map(|(node, items)| items.iter().filter(|item| !holdings.holders(**item).contains(&node)).count())
        .sum::<usize>() as u64;
    Ok(Picked { parts, transfers, fetched })
}

/// The plan has to be of these nodes and first shares: numbers of nodes and items mean nothing else otherwise.
fn check(plan: &Plan, holdings: &Holdings) -> Result<(), Error> {
    let (planned, known) = (plan.parts.len(), holdings.nodes().len());
    if planned != known {
        return Err(Error::OtherItems {
            what: format!("it is of {planned} nodes, the items are of {known}"),
        });
    }
    for (node, (part, name)) in plan.parts.iter().zip(holdings.nodes()).enumerate() {
        let first = holdings.first(node).len() as u64;
        if part.held != first {
            let held = part.held;
            return Err(Error::OtherItems {
                what: format!("node {name} has {held} items in it, and {first} at first"),
            });
        }
    }
    Ok(())
}
