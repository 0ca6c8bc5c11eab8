//! Properties that hold for all requests: capacity, money, truth and deadlines.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use estimand_reservations::predict::{Profile, Season};
use estimand_reservations::simulation::{Recipe, Setup, replay};
use estimand_reservations::{Accounts, Answer, Bid, Job, Money, OPERATOR, Quote, Terms};
use proptest::prelude::*;

mod common;

use common::{HORIZON, asked, name, pricing, request, terms, wanted};

/// Something that happens to a pricing.
#[derive(Debug, Clone)]
enum Operation {
    Bid { asked: (u64, u64, u64, u64), value: u64 },
    Cancel(usize),
    Advance(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (asked(), 0..200_u64).prop_map(|(asked, value)| Operation::Bid { asked, value }),
        2 => (0..20_usize).prop_map(Operation::Cancel),
        2 => (1..4_u64).prop_map(Operation::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn promised_never_exceeds_the_capacity_and_money_is_conserved(
        wanted in wanted(), capacity in 1..8_u64, operations in proptest::collection::vec(operation(), 1..40),
    ) {
        let (mut pricing, mut accounts) = (pricing(&wanted, terms(capacity, 1)), Accounts::default());
        accounts.grant("ann", Money::microcredits(600)).unwrap();
        let mut kept: Vec<Quote> = Vec::new();
        for operation in operations {
            match operation {
                Operation::Bid { asked: (units, length, from, more), value } => {
                    let from = pricing.now() + from;
                    let request = request(units, length, from, from + length + more);
                    let value = Money::microcredits(value).min(accounts.balance("ann"));
                    if let Ok(Answer::Accepted(quote)) = pricing.reserve(&Bid { request, value }) {
                        accounts.pay("ann", OPERATOR, quote.cost).unwrap();
                        kept.push(quote);
                    }
                }
                Operation::Cancel(which) if which < kept.len() => {
                    let quote = kept.swap_remove(which);
                    let left = quote.end().saturating_sub(pricing.now()).min(quote.request.length);
                    pricing.release(&quote);
                    accounts.pay(OPERATOR, "ann", quote.cost.part(left, quote.request.length)).unwrap();
                }
                Operation::Cancel(_) => {}
                Operation::Advance(ticks) => pricing.advance(pricing.now() + ticks),
            }
            for at in pricing.now()..pricing.end() {
                let running = kept.iter().filter(|quote| quote.start <= at && at < quote.end());
                let counted: u64 = running.map(|quote| quote.request.amounts.get(&name("cpu"))).sum();
                prop_assert_eq!(pricing.promised(&name("cpu"), at), counted);
                prop_assert!(counted <= capacity, "{} of {} at {}", counted, capacity, at);
            }
            let sum: u64 = accounts.balances().map(|(_, amount)| amount.as_microcredits()).sum();
            prop_assert_eq!(sum, accounts.granted().as_microcredits());
            let again = Accounts::replay(accounts.journal()).unwrap();
            prop_assert!(accounts.balances().eq(again.balances()));
        }
    }

    #[test]
    fn no_bid_gains_more_than_the_true_value(
        wanted in wanted(), capacity in 1..8_u64,
        before in proptest::collection::vec((asked(), 0..200_u64), 0..8), asked in asked(), worth in 0..200_u64,
    ) {
        let mut pricing = pricing(&wanted, terms(capacity, 1));
        for ((units, length, from, more), value) in before {
            let request = request(units, length, from, from + length + more);
            let _ = pricing.reserve(&Bid { request, value: Money::microcredits(value) });
        }
        let (units, length, from, more) = asked;
        let request = request(units, length, from, from + length + more);
        let mut gain = |value: u64| -> i64 {
            let bid = Bid { request: request.clone(), value: Money::microcredits(value) };
            match pricing.reserve(&bid) {
                Ok(Answer::Accepted(quote)) => {
                    pricing.release(&quote);
                    worth as i64 - quote.cost.as_microcredits() as i64
                }
                Ok(Answer::TooExpensive(_)) | Err(_) => 0,
            }
        };
        let truth = gain(worth);
        prop_assert!(truth >= 0);
        for value in 0..=500 {
            prop_assert!(gain(value) <= truth, "{} gains {}, and the truth {}", value, gain(value), truth);
        }
    }

}

proptest! {
    // A case is a whole day.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn an_accepted_job_is_never_late(
        seed: u64, capacity in 20..400_u64, bucket in 1..200_u64,
    ) {
        let recipe = Recipe { jobs: 12, closes: false };
        let (past, jobs) = (recipe.draw(seed), recipe.draw(!seed));
        let terms = Terms { capacity, floor: Money::ZERO, ceiling: Money::microcredits(100_000_000) };
        let predictor = Arc::new(Profile::seasonal(&past, Season { period: 4_320, bucket }, &terms));
        let outcome = replay(&Setup { horizon: 1_440, terms, predictor }, &jobs).unwrap();
        prop_assert_eq!((outcome.late, outcome.overfull), (0, 0));
        for (job, grant) in jobs.iter().zip(&outcome.grants) {
            let Some(grant) = grant else { continue };
            prop_assert!(grant.start >= job.arrival && grant.start + job.length <= job.deadline);
            prop_assert!(grant.cost <= job.value);
        }
    }
}

#[test]
fn what_is_late_or_overfull_would_be_seen() {
    // The account of a day counts from the grants, so a wrong one shows.
    let job = |width| Job {
        arrival: 0,
        from: 0,
        width,
        length: 2,
        deadline: 4,
        value: Money::microcredits(HORIZON),
    };
    let terms = terms(4, 0);
    let predictor = Arc::new(estimand_reservations::predict::Nothing::new(&terms));
    let mut outcome = replay(&Setup { horizon: 8, terms, predictor }, &[job(3), job(2)]).unwrap();
    let grants = outcome.grants.clone();
    assert_eq!(grants.iter().flatten().map(|grant| grant.start).collect::<Vec<_>>(), [0, 2]);
    outcome.grants[1].as_mut().unwrap().start = 3;
    outcome.account(&[job(3), job(2)], 4);
    assert_eq!((outcome.late, outcome.overfull), (1, 0));
    outcome.grants[1].as_mut().unwrap().start = 1;
    outcome.account(&[job(3), job(2)], 4);
    assert_eq!((outcome.late, outcome.overfull), (0, 1));
}

#[test]
fn accounts_refuse_what_does_not_add_up() {
    let mut accounts = Accounts::default();
    accounts.grant("ann", Money::microcredits(5)).unwrap();
    let error = accounts.pay("ann", "bob", Money::microcredits(6)).unwrap_err();
    assert_eq!(error.to_string(), "`ann` has 0.000005 credits, and 0.000006 are needed");
    assert!(accounts.pay("bob", "ann", Money::microcredits(1)).is_err());
    assert!(accounts.grant("bob", Money::MAX).is_err());
    accounts.pay("ann", "ann", Money::microcredits(5)).unwrap();
    assert_eq!(
        (accounts.balance("ann"), accounts.granted()),
        (Money::microcredits(5), Money::microcredits(5))
    );
}
