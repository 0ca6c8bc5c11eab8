//! One resource over time: what is promised of it at each tick, and what the next units cost there.

use std::sync::Arc;

use estimand_capacity::Tick;

use crate::demand::Demand;
use crate::predict::Predictor;
use crate::starts::Costs;
use crate::terms::Terms;

/// The ticks from `now` on, one after another. The tables have an entry a tick; what a quote reads of most ticks
/// stands in the first three.
#[derive(Clone)]
pub(crate) struct Market {
    terms: Terms,
    predictor: Arc<dyn Predictor>,
    promised: Vec<u64>,
    /// The price of the next unit, in parts of a [`Rate`](crate::Rate).
    price: Vec<u64>,
    /// The units that have this price before the next ones are dearer, or there are no more.
    run: Vec<u64>,
    /// The place of this price among those of the demand.
    step: Vec<u32>,
    demand: Arc<Vec<Arc<Demand>>>,
}

impl Market {
    pub fn new(now: Tick, horizon: usize, terms: Terms, predictor: Arc<dyn Predictor>) -> Market {
        let none = Arc::new(Demand::none(&terms));
        let mut market = Market {
            terms,
            predictor,
            promised: vec![0; horizon],
            price: vec![0; horizon],
            run: vec![0; horizon],
            step: vec![0; horizon],
            demand: Arc::new(vec![none; horizon]),
        };
        market.predict(now);
        market
    }

    pub fn terms(&self) -> Terms {
        self.terms
    }

    pub fn promised(&self, place: usize) -> u64 {
        self.promised[place]
    }

    /// Another predictor, from now on.
    pub fn set_predictor(&mut self, now: Tick, predictor: Arc<dyn Predictor>) {
        self.predictor = predictor;
        self.predict(now);
    }

    /// Another capacity. Promises stay, also where they are more than that: nothing is free there then.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.terms.capacity = capacity;
        self.price_all();
    }

    /// Time has passed: forgets the ticks that are over, and asks for the demand of those that are not.
    pub fn advance(&mut self, now: Tick, passed: usize) {
        let horizon = self.promised.len();
        self.promised.drain(..passed.min(horizon));
        self.promised.resize(horizon, 0);
        self.predict(now);
    }

    fn predict(&mut self, now: Tick) {
        let at = |place: usize| self.predictor.demand(now, now.saturating_add(place as u64));
        self.demand = Arc::new((0..self.demand.len()).map(at).collect());
        self.price_all();
    }

    fn price_all(&mut self) {
        for place in 0..self.promised.len() {
            self.price_one(place);
        }
    }

    fn price_one(&mut self, place: usize) {
        let free = self.terms.capacity.saturating_sub(self.promised[place]);
        let unit = self.demand[place].unit(free);
        (self.price[place], self.run[place]) = (self.bounded(unit.price), unit.run);
        self.step[place] = unit.place;
    }

    /// Adds the cost of so many more units to each tick, and marks those that have less than that free.
    pub fn add_costs(&self, first: usize, units: u64, costs: &mut Costs) {
        let places = first..first + costs.len();
        let prices = self.price[places.clone()].iter().zip(&self.run[places]);
        for (place, ((price, run), tick)) in prices.zip(costs.ticks_mut()).enumerate() {
            if units <= *run {
                tick.add(u128::from(units) * u128::from(*price));
                continue;
            }
            let free = self.terms.capacity.saturating_sub(self.promised[first + place]);
            if units > free {
                tick.forbid();
            } else {
                let at = first + place;
                let sum = self.demand[at].cost(self.step[at], free, units);
                tick.add(self.bounded_sum(units, sum));
            }
        }
    }

    /// Adds the cost of all that there is to each tick, at the price of the next unit there.
    pub fn add_worth(&self, first: usize, costs: &mut Costs) {
        for (price, tick) in self.price[first..].iter().zip(costs.ticks_mut()) {
            tick.add(u128::from(*price) * u128::from(self.terms.capacity));
        }
    }

    /// The terms hold whatever a predictor was trained under.
    fn bounded(&self, price: u64) -> u64 {
        let Terms { floor, ceiling, .. } = self.terms;
        price.clamp(floor.as_parts(), ceiling.as_parts())
    }

    fn bounded_sum(&self, units: u64, sum: u128) -> u128 {
        let Terms { floor, ceiling, .. } = self.terms;
        sum.clamp(floor.times(units), ceiling.times(units))
    }

    pub fn has_free(&self, first: usize, length: usize, units: u64) -> bool {
        let room = self.terms.capacity.checked_sub(units);
        room.is_some_and(|room| self.promised[first..first + length].iter().all(|promised| *promised <= room))
    }

    /// Counts units as promised. They were found to be free.
    pub fn take(&mut self, first: usize, length: usize, units: u64) {
        for place in first..first + length {
            self.promised[place] += units;
            self.price_one(place);
        }
    }

    /// Gives back units that were promised.
    pub fn give_back(&mut self, first: usize, length: usize, units: u64) {
        for place in first..first + length {
            self.promised[place] = self.promised[place].saturating_sub(units);
            self.price_one(place);
        }
    }
}
