//! Where a registration runs that runs on a number of nodes: a function of values, with no memory.
//!
//! What must hold for whatever it is given: those that keep their place, those that are taken away and not
//! gone yet, and those that are added are never more than the number asked for, unless they were before;
//! then nothing is added. Who runs stays where it is as long as it may.

use estimand_api::names::{DataName, NodeName};

/// How an instance stands on the node that it was given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is delivered.
    Shown,
    /// It is not delivered, but may run there.
    Held,
    /// Nobody was told of it yet.
    Planned,
}

#[derive(Debug, Clone)]
pub struct Holder<'a> {
    pub node: &'a NodeName,
    pub moves: u32,
    pub standing: Standing,
    /// Whether the node still matches and is heard of.
    pub fits: bool,
}

/// One registration, and where it is now.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub name: &'a DataName,
    /// On how many nodes it runs.
    pub count: usize,
    pub holders: &'a [Holder<'a>],
    /// On how many further nodes something of that name may still run.
    pub others: usize,
}

/// A node that may be given an instance, and how many it has.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub node: &'a NodeName,
    pub load: usize,
}

/// Holders that are not kept are taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub keep: Vec<NodeName>,
    pub add: Vec<NodeName>,
}

/// Decides anew. The candidates fit and are no holders; they are looked at only if somebody is to be added.
pub fn place<'a>(ask: &Ask<'_>, candidates: impl Iterator<Item = Candidate<'a>>) -> Plan {
    let mut fitting: Vec<_> = ask.holders.iter().filter(|holder| holder.fits).collect();
    // The oldest stay.
    fitting.sort_by_key(|holder| (holder.moves, holder.node));
    let of = |standing| fitting.iter().filter(move |holder| holder.standing == standing);
    let planned = ask.holders.iter().filter(|holder| holder.standing == Standing::Planned).count();
    let occupied = ask.holders.len() - planned + ask.others;
    let mut room = ask.count.saturating_sub(occupied);

    let mut keep: Vec<_> = of(Standing::Shown).take(ask.count).map(|holder| holder.node.clone()).collect();
    // One that was taken away may have ended long ago. To deliver it again is to start it, and so only right
    // if there would be room for all who may run.
    if occupied <= ask.count {
        keep.extend(of(Standing::Held).map(|holder| holder.node.clone()));
    }
    let still_planned: Vec<_> = of(Standing::Planned).take(room).map(|holder| holder.node.clone()).collect();
    room -= still_planned.len();
    keep.extend(still_planned);
    let add = if room == 0 { Vec::new() } else { best(ask.name, room, candidates) };
    Plan { keep, add }
}

/// Those with the least load; among equals those that the name likes best, so that names spread.
fn best<'a>(name: &DataName, count: usize, candidates: impl Iterator<Item = Candidate<'a>>) -> Vec<NodeName> {
    let liking = |node: &NodeName| std::cmp::Reverse(rendezvous(name.as_str(), node.as_str()));
    let mut ranked: Vec<_> = candidates.map(|c| (c.load, liking(c.node), c.node)).collect();
    if count < ranked.len() {
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, _, node)| node.clone()).collect()
}

/// The same on every machine and in every version: FNV-1a, and a last mixing so that names that differ in
/// their last letter alone differ everywhere.
fn rendezvous(name: &str, node: &str) -> u64 {
    let bytes = name.bytes().chain([b'/']).chain(node.bytes());
    let mut hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
