//! Algorithm 1: from where the data is to where it should be, by capability, moving as little as possible.
//!
//! The step numbers are the paper's. Counts only: which items they are is [`super::pick`]'s business. The targets add
//! up to the load; a node either gives or receives; there are fewer transfers than nodes.

use super::{Problem, remainder};

/// One node's part of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Items that it has at first (the paper's L_i).
    pub held: u64,
    /// Items that it is to do (the paper's Lo_i).
    pub target: u64,
}

impl Part {
    pub fn kept(&self) -> u64 {
        self.held.min(self.target)
    }

    pub fn sent(&self) -> u64 {
        self.held.saturating_sub(self.target)
    }

    pub fn received(&self) -> u64 {
        self.target.saturating_sub(self.held)
    }
}

/// A number of items that changes nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    pub from: usize,
    pub to: usize,
    pub count: u64,
}

/// Remarks about a plan for its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// Nothing is known to be capable of anything: the work is divided equally.
    EqualSplit { among: usize },
}

/// The number of items of each node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// By node.
    pub parts: Vec<Part>,
    pub transfers: Vec<Transfer>,
    pub notes: Vec<Note>,
}

impl Plan {
    /// The plan by which each node does its target, with the transfers that takes.
    pub(crate) fn towards(problem: &Problem, targets: &[u64]) -> Plan {
        let parts: Vec<Part> = problem
            .nodes()
            .iter()
            .zip(targets)
            .map(|(node, target)| Part { held: node.load, target: *target })
            .collect();
        let transfers = transfers(&parts);
        let mut notes = Vec::new();
        if problem.is_equal_split() {
            let among = problem.weights().iter().filter(|weight| **weight > 0.0).count();
            notes.push(Note::EqualSplit { among });
        }
        Plan { parts, transfers, notes }
    }

    /// How many items change nodes.
    pub fn moved(&self) -> u64 {
        self.transfers.iter().map(|transfer| transfer.count).sum()
    }
}

/// Algorithm 1. Steps 1 to 3 are the problem.
pub fn partition(problem: &Problem) -> Plan {
    // Step 4.
    let held: Vec<u64> = problem.nodes().iter().map(|node| node.load).collect();
    let targets = remainder::shares(problem.total(), problem.weights(), &held);
    Plan::towards(problem, &targets)
}

/// Steps 5 to 8. The paper takes any node of H and any of L; here it is the first by name of each. A transfer of
/// min(Δh, Δl) settles at least one of the two and the last one settles both, hence fewer transfers than nodes; no
/// item moves twice, hence the least that can move for these targets.
fn transfers(parts: &[Part]) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    let mut high = parts.iter().enumerate().map(|(i, part)| (i, part.sent())).filter(|(_, over)| *over > 0);
    let mut low =
        parts.iter().enumerate().map(|(i, part)| (i, part.received())).filter(|(_, under)| *under > 0);
    let (mut giver, mut taker) = (high.next(), low.next());
    while let (Some((from, over)), Some((to, under))) = (giver, taker) {
        let count = over.min(under);
        transfers.push(Transfer { from, to, count });
        giver = if over > count { Some((from, over - count)) } else { high.next() };
        taker = if under > count { Some((to, under - count)) } else { low.next() };
    }
    transfers
}
