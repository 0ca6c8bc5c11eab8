//! Costs of ticks in parts of a [`Rate`](crate::Rate), and their sums over every stretch of some ticks in a row.

/// The cost of one tick. A tick at which too little is free has no cost; it is no tick with a high cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TickCost {
    cost: u128,
    infeasible: bool,
}

impl TickCost {
    pub fn add(&mut self, cost: u128) {
        self.cost += cost;
    }

    pub fn forbid(&mut self) {
        self.infeasible = true;
    }
}

/// The costs of some ticks in a row.
pub(crate) struct Costs(Vec<TickCost>);

impl Costs {
    pub fn new(ticks: usize) -> Costs {
        Costs(vec![TickCost::default(); ticks])
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Each tick costs at least what it does there.
    pub fn raise_to(&mut self, least: &Costs) {
        for (tick, least) in self.0.iter_mut().zip(&least.0) {
            tick.cost = tick.cost.max(least.cost);
            tick.infeasible |= least.infeasible;
        }
    }

    /// Each tick costs at least so many units' part of what all costs there, rounded up.
    pub fn raise_to_part(&mut self, all: &Costs, units: u64, of: u64) {
        for (tick, all) in self.0.iter_mut().zip(&all.0) {
            let part = (all.cost * u128::from(units)).div_ceil(u128::from(of.max(1)));
            tick.cost = tick.cost.max(part);
        }
    }

    pub fn ticks_mut(&mut self) -> impl Iterator<Item = &mut TickCost> {
        self.0.iter_mut()
    }

    /// The sums over all stretches of this length, from the first start on.
    pub fn starts(&self, length: usize) -> Starts<'_> {
        let (head, tail) = self.0.split_at(length.saturating_sub(1).min(self.0.len()));
        let mut starts = Starts { entering: tail, leaving: &self.0, sum: 0, infeasible: 0 };
        head.iter().for_each(|tick| starts.enter(*tick));
        starts
    }
}

/// A stretch that moves on by a tick each time. None stands for one with a tick at which too little is free.
pub(crate) struct Starts<'a> {
    entering: &'a [TickCost],
    leaving: &'a [TickCost],
    sum: u128,
    /// The ticks of the stretch at which too little is free.
    infeasible: usize,
}

impl Starts<'_> {
    fn enter(&mut self, tick: TickCost) {
        self.sum += tick.cost;
        self.infeasible += usize::from(tick.infeasible);
    }

    /// The least sum and its place, of equals the first. Places can be left out.
    pub fn cheapest(self, is_out: impl Fn(usize) -> bool) -> Option<(usize, u128)> {
        let mut cheapest: Option<(usize, u128)> = None;
        for (place, cost) in self.enumerate() {
            let Some(cost) = cost else { continue };
            if cheapest.is_none_or(|(_, least)| cost < least) && !is_out(place) {
                cheapest = Some((place, cost));
            }
        }
        cheapest
    }
}

impl Iterator for Starts<'_> {
    type Item = Option<u128>;

    fn next(&mut self) -> Option<Option<u128>> {
        let (entering, rest) = self.entering.split_first()?;
        self.entering = rest;
        self.enter(*entering);
        let cost = (self.infeasible == 0).then_some(self.sum);
        if let Some((leaving, rest)) = self.leaving.split_first() {
            self.leaving = rest;
            self.sum -= leaving.cost;
            self.infeasible -= usize::from(leaving.infeasible);
        }
        Some(cost)
    }
}
