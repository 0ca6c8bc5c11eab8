//! Placement of a registration that runs on a number of nodes: a function of values, with no memory.
//!
//! Invariant, for any input: the instances that keep their place, those that are withdrawn and not gone yet,
//! and those that are added are never more than the number asked for, unless they were before; then nothing
//! is added. An instance stays where it is as long as its node fits, and moves from a node that cannot run it
//! only while there is one that may.

use std::cmp::Reverse;

use estimand_api::names::{DataName, NodeName};

/// How an instance stands on the node that it was given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It is delivered.
    Delivered,
    /// It is not delivered, but may run there.
    Withdrawn,
    /// No agent has it yet.
    Planned,
}

/// How well a node runs a registration, as far as its agent has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suitability {
    /// It ran there, or nothing is known.
    Suitable,
    /// It failed there several times in a row.
    Failing,
    /// The agent does not run it, or there is nothing on the node that it could measure.
    Unsuitable,
}

#[derive(Debug, Clone)]
pub struct Holder<'a> {
    pub node: &'a NodeName,
    pub moves: u32,
    pub standing: Standing,
    /// True if the node still matches and is heard of.
    pub fits: bool,
    pub suitability: Suitability,
}

/// One registration, and where it is now.
#[derive(Debug, Clone)]
pub struct Demand<'a> {
    pub name: &'a DataName,
    /// On how many nodes it runs.
    pub count: usize,
    pub holders: &'a [Holder<'a>],
    /// On how many further nodes something of that name may still run.
    pub others: usize,
}

/// A node that may be given an instance.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub node: &'a NodeName,
    pub suitability: Suitability,
    /// How many counted instances it has.
    pub load: usize,
}

/// Holders that are not kept are withdrawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub keep: Vec<NodeName>,
    pub add: Vec<NodeName>,
}

/// The rank of a candidate: the fields are compared in their order, and the least comes first. All that counts in
/// placement is a field here, at the place that says how much it counts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score<'a> {
    /// A node that cannot run it is worse than a busy one.
    suitability: Suitability,
    /// Instances spread over nodes.
    load: usize,
    /// Among equals each name has its own order of nodes, always the same, so that names spread as well.
    preference: Reverse<u64>,
    /// Makes the order total.
    node: &'a NodeName,
}

impl<'a> Score<'a> {
    fn new(name: &DataName, candidate: Candidate<'a>) -> Self {
        let Candidate { node, suitability, load } = candidate;
        Score { suitability, load, preference: Reverse(rendezvous(name.as_str(), node.as_str())), node }
    }
}

/// Decides anew. The candidates fit and are no holders; they are looked at only if an instance is to be added or moved.
pub fn place<'a>(demand: &Demand<'_>, candidates: impl Iterator<Item = Candidate<'a>> + Clone) -> Plan {
    let planned = demand.holders.iter().filter(|holder| holder.standing == Standing::Planned).count();
    let occupied = demand.holders.len() - planned + demand.others;
    let mut room = demand.count.saturating_sub(occupied);

    let moving = moving(demand.holders, room, candidates.clone());
    let stays = |holder: &&Holder<'_>| holder.fits && !moving.contains(&holder.node);
    let mut fitting: Vec<_> = demand.holders.iter().filter(stays).collect();
    // Of equals the oldest stay.
    fitting.sort_by_key(|holder| (holder.suitability, holder.moves, holder.node));
    let of = |standing| fitting.iter().filter(move |holder| holder.standing == standing);

    let mut keep: Vec<_> =
        of(Standing::Delivered).take(demand.count).map(|holder| holder.node.clone()).collect();
    // One that was withdrawn may have ended long ago. To deliver it again is to start it, and so only right
    // if there would be room for all that may run.
    if occupied <= demand.count {
        keep.extend(of(Standing::Withdrawn).map(|holder| holder.node.clone()));
    }
    let still_planned: Vec<_> = of(Standing::Planned).take(room).map(|holder| holder.node.clone()).collect();
    room -= still_planned.len();
    keep.extend(still_planned);
    let add = if room == 0 { Vec::new() } else { best(demand.name, room, candidates) };
    Plan { keep, add }
}

/// The instances that leave nodes that cannot run them: as many as there are candidates that may, beyond those that
/// are needed for instances that are missing. First those that no agent has, last the oldest.
fn moving<'h, 'a>(
    holders: &[Holder<'h>],
    room: usize,
    candidates: impl Iterator<Item = Candidate<'a>>,
) -> Vec<&'h NodeName> {
    let fits = |holder: &&Holder<'_>| holder.fits;
    let unsuitable = |holder: &&Holder<'_>| holder.suitability == Suitability::Unsuitable;
    let mut misplaced: Vec<_> = holders.iter().filter(fits).filter(unsuitable).collect();
    if misplaced.is_empty() {
        return Vec::new();
    }
    let planned = holders.iter().filter(fits).filter(|holder| holder.standing == Standing::Planned).count();
    let missing = room.saturating_sub(planned);
    let better = candidates.filter(|candidate| candidate.suitability < Suitability::Unsuitable);
    let better = better.take(missing + misplaced.len()).count().saturating_sub(missing);
    misplaced.sort_by_key(|holder| Reverse((holder.standing, holder.moves, holder.node)));
    misplaced.into_iter().take(better).map(|holder| holder.node).collect()
}

fn best<'a>(name: &DataName, count: usize, candidates: impl Iterator<Item = Candidate<'a>>) -> Vec<NodeName> {
    let mut ranked: Vec<_> = candidates.map(|candidate| Score::new(name, candidate)).collect();
    if count < ranked.len() {
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|score| score.node.clone()).collect()
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
