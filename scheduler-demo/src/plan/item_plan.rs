//! The items of a plan's transfers.
//!
//! The paper only counts items. Where items have copies the choice decides how much is fetched: an item of which the
//! receiver holds a copy costs nothing to move. The counts are always the plan's.

use std::collections::HashMap;

use super::{Error, Holdings, ItemId, Plan};

/// A plan in items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemPlan {
    /// The items of each node, in order.
    pub parts: Vec<Vec<ItemId>>,
    /// The items of each transfer, in order.
    pub transfers: Vec<Vec<ItemId>>,
    /// The number of items done on nodes that hold no copy of them, so that they have to be fetched.
    pub fetched: u64,
}

/// Chooses the items of each transfer: first those of which the taker holds a copy, then the last ones by name.
pub fn pick_items(plan: &Plan, holdings: &Holdings) -> Result<ItemPlan, Error> {
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
    Ok(ItemPlan { parts, transfers, fetched })
}

/// The plan has to be of these nodes and first shares: numbers of nodes and items mean nothing else otherwise.
fn check(plan: &Plan, holdings: &Holdings) -> Result<(), Error> {
    let (planned, known) = (plan.parts.len(), holdings.nodes().len());
    if planned != known {
        return Err(Error::PlanMismatch {
            what: format!("it is of {planned} nodes, the items are of {known}"),
        });
    }
    for (node, (part, name)) in plan.parts.iter().zip(holdings.nodes()).enumerate() {
        let first = holdings.first(node).len() as u64;
        if part.held != first {
            let held = part.held;
            return Err(Error::PlanMismatch {
                what: format!("node {name} has {held} items in it, and {first} at first"),
            });
        }
    }
    Ok(())
}
