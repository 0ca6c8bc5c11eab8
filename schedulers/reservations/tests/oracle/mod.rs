//! The pseudo-code of the paper, line by line and as slow as it stands there. It knows nothing of the crate.
//!
//! Added to it: the range of starts is closed, of equal starts the first is taken, a unit beyond the capacity is impossible
//! and not dear, and where no price is high enough the lowest one holds.

/// The state that the pseudo-code reads.
pub struct Oracle<'a> {
    pub capacity: u64,
    /// From the highest to the lowest.
    pub prices: &'a [u64],
    /// The units wanted at a tick at a price or above.
    pub demand: &'a dyn Fn(usize, u64) -> u64,
    pub promised: &'a [u64],
}

impl Oracle<'_> {
    /// `{W*T in [A, D)}`: the start and its total cost.
    pub fn cheapest(&self, w: u64, length: usize, a: usize, d: usize) -> Option<(usize, u64)> {
        let mut cost = vec![Some(0_u64); d];
        for t in a..d {
            for i in 1..=w {
                let price = self.price(t, i);
                cost[t] = cost[t].zip(price).map(|(cost, price)| cost + price);
            }
        }
        let mut best: Option<(usize, u64)> = None;
        for t in a..=d - length {
            let total: Option<u64> = cost[t..t + length].iter().copied().sum();
            if let Some(total) = total
                && best.is_none_or(|(_, least)| total < least)
            {
                best = Some((t, total));
            }
        }
        best
    }

    /// The highest price p such that `demand(t)(p) + promised[t] + i > capacity`.
    fn price(&self, t: usize, i: u64) -> Option<u64> {
        if self.promised[t] + i > self.capacity {
            return None;
        }
        for p in self.prices {
            if (self.demand)(t, *p) + self.promised[t] + i > self.capacity {
                return Some(*p);
            }
        }
        self.prices.last().copied()
    }
}
