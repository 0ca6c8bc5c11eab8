//! The reference's charge: all running jobs pay at each round, changed or not, in milliseconds without progress.

use std::collections::HashSet;

use crate::planner::Costs;

const SECOND: u64 = 1_000;
/// Clusters of so many accelerators pay more.
const LARGE: u32 = 256;
/// Slots of so many milliseconds have rarer restarts.
const LONG_SLOT: u64 = 240 * SECOND;

/// The charge of one cluster.
#[derive(Debug, Clone)]
pub struct Charge {
    per_round: u64,
    per_restart: u64,
    restart_every: u64,
    rounds: u64,
    /// The sets of accelerators, by first one and width, that served a job since the last restart.
    served: HashSet<(u32, u32)>,
}

impl Charge {
    pub fn new(accelerators: u32, slot: u64) -> Charge {
        let is_large = accelerators >= LARGE;
        Charge {
            per_round: if is_large { 7 * SECOND } else { 2 * SECOND },
            per_restart: if is_large { 47 * SECOND } else { 27 * SECOND },
            restart_every: if slot >= LONG_SLOT { 240 } else { 60 },
            rounds: 0,
            served: HashSet::new(),
        }
    }

    /// The most that a running job may pay in the next round, by the exponent of its width.
    pub fn bound(&self) -> Costs {
        let is_restart = (self.rounds + 1).is_multiple_of(self.restart_every);
        let base = self.per_round + if is_restart { self.per_restart } else { 0 };
        Costs { by_width: std::array::from_fn(|exponent| base + 2 * SECOND * (exponent as u64 + 1)) }
    }

    /// The cost of this round for each job, in the order of the widths. Jobs are placed anew, the widest first,
    /// so each starts where the wider ones end.
    pub fn round(&mut self, widths: &[u32]) -> Vec<u64> {
        self.rounds += 1;
        let is_restart = self.rounds.is_multiple_of(self.restart_every);
        if is_restart {
            self.served.clear();
        }
        let mut order: Vec<usize> = (0..widths.len()).filter(|&at| widths[at] > 0).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(widths[at]));
        let mut costs = vec![0; widths.len()];
        let mut first = 0;
        for at in order {
            let width = widths[at];
            costs[at] = self.per_round + if is_restart { self.per_restart } else { 0 };
            if self.served.insert((first, width)) {
                costs[at] += 2 * SECOND * u64::from(width.ilog2() + 1);
            }
            first += width;
        }
        costs
    }
}
