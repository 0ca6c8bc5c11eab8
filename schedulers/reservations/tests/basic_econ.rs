//! Prices beside the pseudo-code of the paper, under any demand and promises.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use estimand_reservations::{ElasticRequest, ListAnswer, Money, Pricing, Quote, Refusal, Request};
use proptest::prelude::*;

mod common;
mod oracle;

use common::{
    CEILING, HORIZON, KnownDemand, Wanted, amounts, asked, name, pricing, request, terms, wanted, wanted_at,
};
use oracle::Oracle;

/// The answer of the pseudo-code. Prices run from the ceiling down to the floor, each microcredit.
fn literal(
    wanted: &Wanted,
    capacity: u64,
    floor: u64,
    promised: &[u64],
    request: &Request,
) -> Option<(u64, u64)> {
    let prices: Vec<u64> = (floor..=CEILING).rev().collect();
    let demand = |at: usize, price: u64| wanted_at(wanted, at, price);
    let oracle = Oracle { capacity, prices: &prices, demand: &demand, promised };
    let units = request.amounts.get(&name("cpu"));
    let found =
        oracle.cheapest(units, request.length as usize, request.from as usize, request.deadline as usize);
    found.map(|(start, cost)| (start as u64, cost))
}

fn found(quote: &Result<Quote, Refusal>) -> Option<(u64, u64)> {
    quote.as_ref().ok().map(|quote| (quote.start, quote.cost.as_microcredits()))
}

fn promised(pricing: &Pricing) -> Vec<u64> {
    (0..HORIZON).map(|at| pricing.promised(&name("cpu"), at)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn quotes_are_those_of_the_pseudo_code(
        wanted in wanted(), capacity in 1..12_u64, floor in 0..4_u64,
        asked in proptest::collection::vec(asked(), 1..12), given_back in 0..12_usize,
    ) {
        let mut pricing = pricing(&wanted, terms(capacity, floor));
        let mut promises = Vec::new();
        for (number, (units, length, from, more)) in asked.into_iter().enumerate() {
            let request = request(units.min(capacity), length, from, (from + length + more).min(HORIZON));
            if request.deadline < from + length {
                continue;
            }
            let quote = pricing.quote(&request);
            let literal = literal(&wanted, capacity, floor, &promised(&pricing), &request);
            prop_assert_eq!(found(&quote), literal, "{:?}", request);
            if let Ok(quote) = quote {
                prop_assert!(pricing.promise(&quote));
                promises.push(quote);
            }
            if number == given_back {
                promises.drain(..).for_each(|quote| pricing.release(&quote));
                prop_assert_eq!(promised(&pricing), vec![0; HORIZON as usize]);
            }
            prop_assert!(promised(&pricing).iter().all(|promised| *promised <= capacity));
        }
    }

    #[test]
    fn resources_of_a_bundle_add_up(
        one in wanted(), other in wanted(), capacities in [1..12_u64, 1..12_u64], asked in asked(),
    ) {
        let mut both = pricing(&one, terms(capacities[0], 0));
        let terms_of_other = terms(capacities[1], 0);
        both.add(name("gpu"), terms_of_other, Arc::new(KnownDemand::new(&other, &terms_of_other))).unwrap();
        let (units, length, from, more) = asked;
        let mut bundle = request(units.min(capacities[0]), length, from, from + length + more);
        let alone = [(one, "cpu", capacities[0]), (other, "gpu", capacities[1])].map(|(wanted, resource, capacity)| {
            let mut pricing = Pricing::new(0, HORIZON).unwrap();
            let terms = terms(capacity, 0);
            pricing.add(name(resource), terms, Arc::new(KnownDemand::new(&wanted, &terms))).unwrap();
            let amounts = [(name(resource), units.min(capacity))].into_iter().collect();
            pricing.curve(&Request { amounts, ..bundle.clone() })
        });
        bundle.amounts = bundle.amounts.with(name("gpu"), units.min(capacities[1]));
        match (both.curve(&bundle), alone) {
            (Ok(curve), [Ok(one), Ok(other)]) => {
                for ((both, one), other) in curve.iter().zip(one).zip(other) {
                    prop_assert_eq!(both.1, one.1.zip(other.1).and_then(|(one, other)| one.checked_add(other)));
                }
                let least = curve.iter().filter_map(|(at, cost)| Some(((*cost)?, *at))).min();
                let quote = both.quote(&bundle).ok().map(|quote| (quote.cost, quote.start));
                prop_assert_eq!(quote, least);
            }
            (Err(Refusal::BeyondHorizon { .. }), [Err(_), Err(_)]) => {}
            (both, alone) => panic!("{both:?} and {alone:?}"),
        }
    }

    #[test]
    fn an_elastic_request_is_the_cheapest_of_all_its_widths(
        wanted in wanted(), capacity in 1..12_u64, least in 1..5_u64, more in 0..9_u64, work in 1..30_u64,
        from in 0..HORIZON, window in 1..HORIZON,
    ) {
        let pricing = pricing(&wanted, terms(capacity, 1));
        let deadline = (from + window).min(HORIZON);
        let workers = least..=least + more;
        let elastic = ElasticRequest { amounts: amounts(1), workers: workers.clone(), work, from, deadline };
        let each = workers.filter_map(|workers| {
            pricing.quote(&request(workers, work.div_ceil(workers), from, deadline)).ok()
        });
        let cheapest = each.map(|quote| (quote.cost, quote.start)).min();
        let quote = pricing.quote_elastic(&elastic);
        prop_assert_eq!(quote.as_ref().ok().map(|quote| (quote.cost, quote.start)), cheapest);
        if let Ok(quote) = quote {
            let workers = quote.request.amounts.get(&name("cpu"));
            prop_assert!(workers * quote.request.length >= work);
        }
    }

    #[test]
    fn of_a_list_all_or_none_are_promised(
        wanted in wanted(), capacity in 1..8_u64, asked in proptest::collection::vec(asked(), 1..6), value in 0..400_u64,
    ) {
        let mut pricing = pricing(&wanted, terms(capacity, 1));
        let requests: Vec<Request> =
            asked.iter().map(|(units, length, from, more)| request(*units, *length, *from, from + length + more)).collect();
        let quotes = pricing.quote_all(&requests);
        prop_assert_eq!(promised(&pricing), vec![0; HORIZON as usize]);
        let answer = pricing.reserve_all(&requests, Money::microcredits(value));
        let units = match (&answer, quotes) {
            (Ok(ListAnswer::Accepted(accepted)), Ok(quotes)) => {
                prop_assert_eq!(accepted, &quotes);
                prop_assert!(accepted.iter().map(|quote| quote.cost.as_microcredits()).sum::<u64>() <= value);
                requests.iter().map(|request| request.amounts.get(&name("cpu")) * request.length).sum()
            }
            (Ok(ListAnswer::TooExpensive(dear)), Ok(quotes)) => {
                prop_assert_eq!(dear, &quotes);
                prop_assert!(dear.iter().map(|quote| quote.cost.as_microcredits()).sum::<u64>() > value);
                0
            }
            (Err(refusal), Err(same)) => {
                prop_assert_eq!(refusal, &same);
                let in_list = matches!(refusal, Refusal::InList { .. });
                prop_assert!(in_list);
                0
            }
            (answer, quotes) => panic!("{answer:?} and {quotes:?}"),
        };
        prop_assert_eq!(promised(&pricing).iter().sum::<u64>(), units);
        prop_assert!(promised(&pricing).iter().all(|promised| *promised <= capacity));
    }
}

#[test]
fn a_place_costs_its_part_of_all_that_nobody_has_without_it() {
    let mut wanted: Wanted = vec![Vec::new(); HORIZON as usize];
    wanted[8] = vec![(9, 4)];
    let flat = vec![Vec::new(); HORIZON as usize];
    let mut pricing = pricing(&wanted, terms(4, 3));
    let places = terms(8, 0);
    pricing.add_place(name("places"), places, Arc::new(KnownDemand::new(&flat, &places))).unwrap();
    let cost = |pricing: &Pricing, cpu: u64, places: u64, at: u64| {
        let amounts =
            [(name("cpu"), cpu), (name("places"), places)].into_iter().filter(|(_, units)| *units > 0);
        let request = Request { amounts: amounts.collect(), ..request(1, 1, at, at + 1) };
        pricing.quote(&request).map(|quote| quote.cost.as_microcredits())
    };
    // All costs 12 a tick, and an eighth of that a place.
    let costs =
        [(1, 0), (1, 1), (1, 2), (1, 4), (0, 8), (0, 1)].map(|(cpu, places)| cost(&pricing, cpu, places, 0));
    assert_eq!(costs, [Ok(3), Ok(3), Ok(3), Ok(6), Ok(12), Ok(2)]);
    assert_eq!(cost(&pricing, 0, 8, 8), Ok(36), "where others want it, too");
    assert!(matches!(cost(&pricing, 1, 9, 0), Err(Refusal::TooWide { .. })));
    // Its places are taken with it.
    let amounts = [(name("cpu"), 1), (name("places"), 6)].into_iter().collect();
    let taken = pricing.quote(&Request { amounts, ..request(1, 1, 0, 1) }).unwrap();
    assert!(pricing.promise(&taken));
    assert!(matches!(cost(&pricing, 1, 3, 0), Err(Refusal::Full { .. })));
}

#[test]
fn of_equal_starts_the_earliest_is_quoted_and_the_last_start_counts() {
    let flat: Wanted = vec![Vec::new(); HORIZON as usize];
    let mut pricing = pricing(&flat, terms(4, 3));
    let quote = pricing.quote(&request(2, 3, 1, 9)).unwrap();
    assert_eq!((quote.start, quote.cost), (1, Money::microcredits(18)));
    // Only the very last start is free: the range is closed.
    for at in 0..6 {
        let taken = pricing.quote(&request(4, 1, at, at + 1)).unwrap();
        assert!(pricing.promise(&taken));
    }
    assert_eq!(pricing.quote(&request(1, 3, 1, 9)).unwrap().start, 6);
    assert_eq!(pricing.quote(&request(1, 3, 6, 9)).unwrap().start, 6);
}

#[test]
fn a_unit_beyond_the_capacity_is_infeasible_and_changes_no_sum() {
    // One tick is full; the starts around it are priced to the last microcredit.
    let mut wanted: Wanted = vec![Vec::new(); HORIZON as usize];
    wanted[9] = vec![(7, 4)];
    let mut pricing = pricing(&wanted, terms(4, 0));
    let full = pricing.quote(&request(4, 1, 4, 5)).unwrap();
    assert!(pricing.promise(&full));
    let curve = pricing.curve(&request(1, 2, 0, 12)).unwrap();
    let costs: Vec<Option<u64>> = curve.iter().map(|(_, cost)| cost.map(Money::as_microcredits)).collect();
    let free = Some(0);
    assert_eq!(costs, [free, free, free, None, None, free, free, free, Some(7), Some(7), free]);
}
