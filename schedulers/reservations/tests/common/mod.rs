//! Demand and prices that tests make up.

#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use estimand_capacity::{Amounts, Resource, Tick};
use estimand_reservations::predict::Predictor;
use estimand_reservations::{Demand, Pricing, Rate, Request, Terms};
use proptest::prelude::*;

pub const HORIZON: u64 = 16;
pub const CEILING: u64 = 12;

/// Units wanted at exactly a price, by tick.
pub type Wanted = Vec<Vec<(u64, u64)>>;

pub struct KnownDemand(pub Vec<Arc<Demand>>);

impl KnownDemand {
    pub fn new(wanted: &Wanted, terms: &Terms) -> KnownDemand {
        let demand = wanted.iter().map(|wanted| {
            Arc::new(Demand::of(
                wanted.iter().map(|(price, units)| (Rate::microcredits(*price), *units)),
                terms,
            ))
        });
        KnownDemand(demand.collect())
    }
}

impl Predictor for KnownDemand {
    fn demand(&self, _: Tick, at: Tick) -> Arc<Demand> {
        Arc::clone(&self.0[at as usize % self.0.len()])
    }
}

/// The units wanted at a price or above it, counted one by one.
pub fn wanted_at(wanted: &Wanted, at: usize, price: u64) -> u64 {
    let wanted = &wanted[at % wanted.len()];
    wanted.iter().filter(|(at_price, _)| *at_price >= price).map(|(_, units)| units).sum()
}

pub fn wanted() -> impl Strategy<Value = Wanted> {
    let tick = proptest::collection::vec((0..=CEILING, 0..6_u64), 0..5);
    proptest::collection::vec(tick, HORIZON as usize)
}

pub fn terms(capacity: u64, floor: u64) -> Terms {
    Terms { capacity, floor: Rate::microcredits(floor), ceiling: Rate::microcredits(CEILING) }
}

pub fn name(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

pub fn pricing(wanted: &Wanted, terms: Terms) -> Pricing {
    let mut pricing = Pricing::new(0, HORIZON).unwrap();
    pricing.add(name("cpu"), terms, Arc::new(KnownDemand::new(wanted, &terms))).unwrap();
    pricing
}

pub fn amounts(units: u64) -> Amounts {
    [(name("cpu"), units)].into_iter().collect()
}

pub fn request(units: u64, length: u64, from: Tick, deadline: Tick) -> Request {
    Request { amounts: amounts(units), length, from, deadline }
}

/// Units, length, start of the window and what it is longer than the length.
pub fn asked() -> impl Strategy<Value = (u64, u64, u64, u64)> {
    (1..7_u64, 1..6_u64, 0..HORIZON, 0..8_u64)
}
