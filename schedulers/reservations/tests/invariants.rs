//! Properties that hold for all requests: capacity, money, truth and deadlines.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use estimand_reservations::credits::{Credits, Entry, INCOME, Reason};
use estimand_reservations::predict::{Profile, Season};
use estimand_reservations::simulation::{Recipe, Setup, replay};
use estimand_reservations::{Answer, Bid, Job, Money, Quote, Rate, Terms};
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

/// Credits with their whole journal, as a service stores it.
#[derive(Default)]
struct Accounts {
    credits: Credits,
    journal: Vec<Entry>,
}

impl Accounts {
    /// Moves money; new money if there is no payer. False, and nothing moves, if there is not so much.
    fn pay(&mut self, payer: Option<&str>, payee: &str, amount: Money) -> bool {
        let entry = Entry {
            number: self.credits.last_entry + 1,
            payer: payer.map(str::to_owned),
            payee: payee.to_owned(),
            amount,
            reason: if payer.is_some() { Reason::Payment } else { Reason::Grant },
            reservation: None,
            key: None,
            actor: "test".to_owned(),
        };
        let moved = self.credits.apply(&entry);
        self.journal.extend(moved.then_some(entry));
        moved
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn promised_never_exceeds_the_capacity_and_money_is_conserved(
        wanted in wanted(), capacity in 1..8_u64, operations in proptest::collection::vec(operation(), 1..40),
    ) {
        let (mut pricing, mut accounts) = (pricing(&wanted, terms(capacity, 1)), Accounts::default());
        prop_assert!(accounts.pay(None, "ann", Money::microcredits(600)));
        let mut kept: Vec<Quote> = Vec::new();
        for operation in operations {
            match operation {
                Operation::Bid { asked: (units, length, from, more), value } => {
                    let from = pricing.now() + from;
                    let request = request(units, length, from, from + length + more);
                    let value = Money::microcredits(value).min(accounts.credits.balance("ann"));
                    if let Ok(Answer::Accepted(quote)) = pricing.reserve(&Bid { request, value }) {
                        prop_assert!(accounts.credits.check("ann", quote.cost).is_ok());
                        prop_assert!(accounts.pay(Some("ann"), INCOME, quote.cost));
                        kept.push(quote);
                    }
                }
                Operation::Cancel(which) if which < kept.len() => {
                    let quote = kept.swap_remove(which);
                    let left = quote.end().saturating_sub(pricing.now()).min(quote.request.length);
                    pricing.release(&quote);
                    let refund = quote.cost.part(left, quote.request.length);
                    prop_assert!(accounts.pay(Some(INCOME), "ann", refund));
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
            prop_assert_eq!(accounts.credits.sum(), Some(accounts.credits.granted()));
            let mut again = Credits::default();
            prop_assert!(accounts.journal.iter().all(|entry| again.apply(entry)));
            prop_assert_eq!(&again, &accounts.credits);
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
        let terms = Terms { capacity, floor: Rate::ZERO, ceiling: Rate::microcredits(100_000_000) };
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
fn credits_that_do_not_add_up_are_refused() {
    let mut accounts = Accounts::default();
    let micros = Money::microcredits;
    assert!(accounts.pay(None, "ann", micros(5)));
    let error = accounts.credits.check("ann", micros(6)).unwrap_err();
    assert!(error.to_string().starts_with("`ann` has 0.000005 credits, and 0.000006 are needed"), "{error}");
    assert!(!accounts.pay(Some("ann"), "bob", micros(6)) && !accounts.pay(Some("bob"), "ann", micros(1)));
    assert!(accounts.credits.check_grant(Money::MAX).is_err() && !accounts.pay(None, "bob", Money::MAX));
    assert!(accounts.pay(Some("ann"), "ann", micros(5)));
    assert_eq!((accounts.credits.balance("ann"), accounts.credits.granted()), (micros(5), micros(5)));
    assert_eq!(accounts.journal.len(), 2);
}
