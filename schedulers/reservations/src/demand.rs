//! Predicted demand for one tick: how many units are wanted at each price or above.

use crate::rate::Rate;
use crate::terms::Terms;

/// One price in parts of a [`Rate`], the units that are wanted at it or above, and the prices of all these units together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    price: u64,
    units: u64,
    sum: u128,
}

/// Units wanted by price. As the price falls, more are wanted.
///
/// The units are ranked by price, the dearest first. The price of the unit with rank `n` is the highest at which at
/// least `n` units are wanted; beyond the last one it is the floor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// By falling price and growing units.
    steps: Vec<Step>,
    floor: u64,
}

impl Demand {
    /// No demand at all: every unit has the floor price.
    pub fn none(terms: &Terms) -> Demand {
        Demand { steps: Vec::new(), floor: terms.floor.as_parts() }
    }

    /// Demand of so many units at exactly these prices, in any order. Prices above the ceiling count as the ceiling; what
    /// is wanted below the floor does not count, nor what is beyond the capacity.
    pub fn of(wanted: impl IntoIterator<Item = (Rate, u64)>, terms: &Terms) -> Demand {
        let floor = terms.floor.as_parts();
        let ceiling = terms.ceiling.as_parts();
        let mut wanted: Vec<(u64, u64)> = wanted
            .into_iter()
            .map(|(price, units)| (price.as_parts().min(ceiling), units))
            .filter(|(price, units)| *price > floor && *units > 0)
            .collect();
        wanted.sort_unstable_by(|one, other| other.cmp(one));
        let mut steps: Vec<Step> = Vec::with_capacity(wanted.len());
        let mut units = 0_u64;
        let mut sum = 0_u128;
        for (price, more) in wanted {
            let more = more.min(terms.capacity - units);
            if more == 0 {
                break;
            }
            units += more;
            sum += u128::from(more) * u128::from(price);
            match steps.last_mut() {
                Some(last) if last.price == price => (last.units, last.sum) = (units, sum),
                _ => steps.push(Step { price, units, sum }),
            }
        }
        Demand { steps, floor }
    }

    /// The same of parts of units: what is wanted at a price or above counts as whole units, rounded up. So at least
    /// `n` units are wanted exactly where more than `n - 1` are.
    pub(crate) fn of_parts(wanted: impl IntoIterator<Item = (Rate, f64)>, terms: &Terms) -> Demand {
        let mut wanted: Vec<(Rate, f64)> = wanted.into_iter().collect();
        wanted.sort_unstable_by_key(|(price, _)| std::cmp::Reverse(*price));
        let (mut sum, mut units) = (0.0, 0);
        let whole = wanted.into_iter().map(|(price, part)| {
            sum += part;
            let more = sum.ceil() as u64 - units;
            units += more;
            (price, more)
        });
        Demand::of(whole, terms)
    }

    /// The units that are wanted at a price or above it.
    pub fn at(&self, price: Rate) -> u64 {
        let above = self.steps.partition_point(|step| step.price >= price.as_parts());
        above.checked_sub(1).map_or(0, |last| self.steps[last].units)
    }

    /// The unit with this rank: its place among the prices, its price, and how many units down to rank 1 have the same.
    pub(crate) fn unit(&self, rank: u64) -> Unit {
        let place = self.steps.partition_point(|step| step.units < rank);
        let dearer = place.checked_sub(1).map_or(0, |last| self.steps[last].units);
        Unit { place: place as u32, price: self.price(place), run: rank.saturating_sub(dearer) }
    }

    /// The prices of so many units, from the one with this rank and place towards rank 1.
    pub(crate) fn cost(&self, place: u32, rank: u64, units: u64) -> u128 {
        let last = rank - units;
        let lower = self.steps[..place as usize].partition_point(|step| step.units < last);
        self.sum(place as usize, rank).saturating_sub(self.sum(lower, last))
    }

    fn price(&self, place: usize) -> u64 {
        self.steps.get(place).map_or(self.floor, |step| step.price)
    }

    /// The prices of the units with ranks from 1 to `rank` together.
    fn sum(&self, place: usize, rank: u64) -> u128 {
        let dearer = place.checked_sub(1).map(|last| self.steps[last]);
        let (units, sum) = dearer.map_or((0, 0), |step| (step.units, step.sum));
        u128::from(rank - units) * u128::from(self.price(place)) + sum
    }

    /// The price of the first unit of an empty tick with this capacity.
    pub fn first_price(&self, capacity: u64) -> Rate {
        Rate::parts(self.unit(capacity).price)
    }
}

/// One unit among those that are ranked by price.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    pub place: u32,
    pub price: u64,
    /// Units from this one towards rank 1 that have its price.
    pub run: u64,
}
