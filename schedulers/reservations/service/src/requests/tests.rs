//! Requests in any order: no credit is made or lost, whatever is decided.

use std::sync::{Arc, Mutex};

use estimand_api::promise::{PromiseRecord, PromiseState};
use estimand_runtime::Clock;
use estimand_runtime::single_writer::{Request, State as _};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::document::Document;
use crate::reservation::{Offer, Order, TaskStanding};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::storage::Storage;

/// A clock that a test sets.
struct SetClock(Mutex<i64>);

impl Clock for SetClock {
    fn now_micros(&self) -> i64 {
        *self.0.lock().unwrap()
    }

    fn steady_micros(&self) -> i64 {
        self.now_micros()
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Grant { user: u8, amount: u64, key: Option<u8> },
    Open { user: u8, price: u64, key: Option<u8> },
    Promise { of: u64 },
    Refuse { of: u64 },
    Reprice { of: u64, price: u64 },
    Hear { of: u64, revision: u64, state: usize },
    Cancel { of: u64, in_full: bool },
    Rebid { of: u64, value: u64 },
    Tidy { of: u64 },
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let amount = prop_oneof![0..1_000_u64, Just(i64::MAX as u64), Just(u64::MAX)];
    let key = || prop::option::of(0..3_u8);
    prop_oneof![
        (0..3_u8, amount, key()).prop_map(|(user, amount, key)| Step::Grant { user, amount, key }),
        (0..3_u8, 0..500_u64, key()).prop_map(|(user, price, key)| Step::Open { user, price, key }),
        (1..9_u64).prop_map(|of| Step::Promise { of }),
        (1..9_u64).prop_map(|of| Step::Refuse { of }),
        (1..9_u64, 0..900_u64).prop_map(|(of, price)| Step::Reprice { of, price }),
        (1..9_u64, 0..9_u64, 0..5_usize).prop_map(|(of, revision, state)| Step::Hear { of, revision, state }),
        (1..9_u64, any::<bool>()).prop_map(|(of, in_full)| Step::Cancel { of, in_full }),
        (1..9_u64, 0..900_u64).prop_map(|(of, value)| Step::Rebid { of, value }),
        (1..9_u64).prop_map(|of| Step::Tidy { of }),
        (0..300_u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

struct World {
    state: ReservationsState,
    clock: Arc<SetClock>,
}

impl World {
    fn new() -> World {
        let clock = Arc::new(SetClock(Mutex::new(1_000_000_000)));
        let shared = Arc::new(Shared::new(Arc::clone(&clock) as Arc<dyn Clock>, Settings::default()));
        // Nothing is stored, so no file is made.
        let storage = Storage::new("sqlite:///nowhere/nothing.db".parse().unwrap());
        World { state: ReservationsState::new(shared, storage), clock }
    }

    /// Has a request decided, and what it decides take effect.
    fn decide<R: Request<ReservationsState>>(&mut self, request: R) {
        if let Ok(Decision::Change(change, _)) = request.decide(&self.state) {
            self.state.stage(&change);
        }
    }

    fn take(&mut self, step: Step) {
        let name = |user: u8| format!("user {user}");
        let id = |of: u64| format!("r{of}");
        let offer = |price: u64| Offer { price: Money::microcredits(price), start: 1_100, end: 1_200 };
        let order = Order { key: "one".to_owned(), revision: 1 };
        let answered = |of: u64, answer: Answer| Answered { number: of, order: "one".to_owned(), answer };
        match step {
            Step::Grant { user, amount, key } => self.decide(Grant {
                user: name(user),
                amount: Money::microcredits(amount),
                key: key.map(|key| key.to_string()),
                by: "operator".to_owned(),
            }),
            Step::Open { user, price, key } => {
                let body = json!({ "resources": { "cpu": 1 }, "duration": 100, "value": 1, "task": { "command": "x" } });
                let document = Document::from_map(body.as_object().unwrap().clone(), 0).unwrap();
                self.decide(Open {
                    document: Arc::new(document),
                    key: key.map(|key| key.to_string()),
                    account: name(user),
                    by: name(user),
                    offer: offer(price),
                    order,
                });
            }
            Step::Promise { of } => {
                self.decide(answered(of, Answer::Promised { revision: 2, nodes: vec!["n".to_owned()] }));
            }
            Step::Refuse { of } => self.decide(answered(of, Answer::Refused { reason: String::new() })),
            Step::Reprice { of, price } => {
                self.decide(answered(of, Answer::Repriced { offer: offer(price), order }));
            }
            Step::Hear { of, revision, state } => {
                let Some(reservation) = self.state.table().get(of).cloned() else { return };
                let Offer { start, end, .. } = reservation.progress.offer;
                self.decide(Hear(PromiseRecord {
                    id: reservation.promise_id(),
                    state: PromiseState::ALL[state],
                    resources: Default::default(),
                    class: "default".to_owned(),
                    from: start,
                    until: end,
                    value: 0,
                    user: None,
                    units: vec!["m".to_owned()],
                    cause: "because".to_owned(),
                    revision,
                    made_at: 0,
                    made_by: String::new(),
                }));
            }
            Step::Cancel { of, in_full } => {
                self.decide(Cancel { id: id(of), by: name(0), in_full: in_full.then(String::new) });
            }
            Step::Rebid { of, value } => {
                self.decide(Rebid { id: id(of), value: Money::microcredits(value), by: name(0) });
            }
            Step::Tidy { of } => {
                self.decide(Released(of));
                self.decide(TaskKnown { number: of, task: TaskStanding::Submitted("t".to_owned()) });
            }
            Step::Wait { seconds } => *self.clock.0.lock().unwrap() += seconds as i64 * 1_000_000,
        }
    }

    /// All accounts together have what was granted, and what is held is the price of what is not over.
    fn check(&self) {
        let table = self.state.table();
        assert_eq!(table.credits.sum(), Some(table.credits.granted()));
        let open = table.all().filter(|reservation| !reservation.state().is_final());
        let held = open.map(|reservation| reservation.progress.offer.price.as_microcredits()).sum::<u64>();
        assert_eq!(table.credits.balance(HELD), Money::microcredits(held));
        let spent = |reservation: &&Arc<Reservation>| reservation.state().is_final();
        let kept = table.all().filter(spent).map(|reservation| {
            let progress = &reservation.progress;
            progress.offer.price.as_microcredits() - progress.refund.as_microcredits()
        });
        assert_eq!(table.credits.balance(INCOME), Money::microcredits(kept.sum()));
        for reservation in table.all() {
            let is_pending = reservation.state() == State::Pending;
            assert_eq!(reservation.progress.order.is_some(), is_pending, "{reservation:?}");
            assert_eq!(reservation.ended_at.is_some(), reservation.state().is_final(), "{reservation:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_credit_is_made_or_lost(steps in prop::collection::vec(step(), 0..80)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            world.check();
        }
    }
}

#[test]
fn cancelling_costs_a_twentieth_before_the_start_and_all_after_it() {
    for (wait, refund) in [(0, 95), (99, 95), (100, 0), (150, 0)] {
        let mut world = World::new();
        for step in [
            Step::Grant { user: 1, amount: 100, key: None },
            Step::Open { user: 1, price: 100, key: None },
            Step::Promise { of: 1 },
            Step::Wait { seconds: wait },
            Step::Cancel { of: 1, in_full: false },
        ] {
            world.take(step);
            world.check();
        }
        let refunded = world.state.table().credits.balance("user 1");
        assert_eq!(refunded, Money::microcredits(refund), "after {wait} s");
        assert!(world.state.table().get(1).unwrap().progress.is_to_release);
    }
}
