//! Requests in any order: no credit is made or lost, whatever is decided.

use std::sync::{Arc, Mutex};

use estimand_api::promise::{PromiseRecord, PromiseState, PromiseTasks};
use estimand_ordering::OrderKey;
use estimand_runtime::Clock;
use estimand_service::{Request, State as _};
use estimand_web::Scope;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::document::Document;
use crate::reservation::{Offer, PendingChange, Progress, TaskStanding};
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

#[derive(Debug, Clone)]
enum Step {
    Grant { user: u8, amount: u64, key: Option<u8> },
    Open { user: u8, prices: Vec<u64>, key: Option<u8> },
    Promise { of: u64 },
    Refuse { of: u64 },
    Reprice { of: u64, price: u64 },
    Hear { of: u64, revision: u64, state: usize, tasks: Option<PromiseTasks> },
    LookAtTasks { of: u64, tasks: Option<PromiseTasks> },
    Cancel { of: u64, in_full: bool },
    Rebid { of: u64, value: u64 },
    Tidy { of: u64 },
    PlanChange { of: u64, price: u64, key: u8, width: u64 },
    AnswerChange { of: u64, key: u8, is_made: bool, revision: u64 },
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let amount = prop_oneof![0..1_000_u64, Just(i64::MAX as u64), Just(u64::MAX)];
    let key = || prop::option::of(0..3_u8);
    prop_oneof![
        (0..3_u8, amount, key()).prop_map(|(user, amount, key)| Step::Grant { user, amount, key }),
        (0..3_u8, prop::collection::vec(0..500_u64, 1..4), key())
            .prop_map(|(user, prices, key)| Step::Open { user, prices, key }),
        (1..9_u64).prop_map(|of| Step::Promise { of }),
        (1..9_u64).prop_map(|of| Step::Refuse { of }),
        (1..9_u64, 0..900_u64).prop_map(|(of, price)| Step::Reprice { of, price }),
        (1..9_u64, 0..9_u64, 0..5_usize, tasks()).prop_map(|(of, revision, state, tasks)| Step::Hear {
            of,
            revision,
            state,
            tasks
        }),
        (1..9_u64, tasks()).prop_map(|(of, tasks)| Step::LookAtTasks { of, tasks }),
        (1..9_u64, any::<bool>()).prop_map(|(of, in_full)| Step::Cancel { of, in_full }),
        (1..9_u64, 0..900_u64).prop_map(|(of, value)| Step::Rebid { of, value }),
        (1..9_u64).prop_map(|of| Step::Tidy { of }),
        (1..9_u64, 0..900_u64, 0..2_u8, 1..3_u64).prop_map(|(of, price, key, width)| Step::PlanChange {
            of,
            price,
            key,
            width
        }),
        (1..9_u64, 0..2_u8, any::<bool>(), 0..9_u64)
            .prop_map(|(of, key, is_made, revision)| Step::AnswerChange { of, key, is_made, revision }),
        (0..300_u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

fn tasks() -> impl Strategy<Value = Option<PromiseTasks>> {
    let amounts = (0..3_u32, 0..3_u32, 0..300_000_u64, 0..300_000_u64, prop::option::of(1_000..1_300_u64));
    let some = amounts.prop_map(|(open, over, had_milliseconds, missed_milliseconds, ended)| PromiseTasks {
        open,
        silent: 0,
        over,
        had_milliseconds,
        missed_milliseconds,
        ended,
    });
    prop::option::of(some)
}

fn document(width: u64) -> Document {
    let body = json!({ "resources": { "cpu": 1 }, "duration": 100, "width": width, "value": 1, "task": { "command": "x" } });
    Document::from_map(body.as_object().unwrap().clone(), 0).unwrap()
}

fn promise(id: String, state: usize, revision: u64, from: u64, until: u64) -> PromiseRecord {
    PromiseRecord {
        id,
        state: PromiseState::ALL[state],
        resources: Default::default(),
        class: "default".to_owned(),
        from,
        until,
        value: 0,
        user: None,
        units: vec!["m".to_owned()],
        cause: "because".to_owned(),
        tasks: None,
        revision,
        made_at: 0,
        made_by: String::new(),
    }
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
        let offer =
            |price: u64| Offer { price: Money::microcredits(price), start: 1_100, end: 1_200, width: 1 };
        let order = OrderKey { key: "one".to_owned(), revision: 1 };
        // All of a list, or one alone.
        let numbers = |state: &ReservationsState, of: u64| -> Vec<u64> {
            let list = state.table().get(of).and_then(|one| one.progress.list);
            let all = state
                .table()
                .all()
                .filter(|one| one.number == of || list.is_some() && one.progress.list == list);
            all.map(|one| one.number).collect()
        };
        let answered = |state: &ReservationsState, of: u64, answer: Answer| Answered {
            numbers: numbers(state, of),
            order: "one".to_owned(),
            answer,
        };
        match step {
            Step::Grant { user, amount, key } => self.decide(Grant {
                user: name(user),
                amount: Money::microcredits(amount),
                key: key.map(|key| key.to_string()),
                by: "operator".to_owned(),
            }),
            Step::Open { user, prices, key } => {
                let document = Arc::new(document(1));
                let list = (prices.len() > 1).then_some(Money::microcredits(1_000_000));
                self.decide(Open {
                    parts: prices.into_iter().map(|price| (Arc::clone(&document), offer(price))).collect(),
                    list,
                    key: key.map(|key| key.to_string()),
                    account: name(user),
                    scope: Scope::default(),
                    places: 0,
                    by: name(user),
                    order,
                });
            }
            Step::Promise { of } => {
                let units = numbers(&self.state, of).iter().map(|_| (2, vec!["n".to_owned()])).collect();
                self.decide(answered(&self.state, of, Answer::Promised(units)));
            }
            Step::Refuse { of } => {
                self.decide(answered(&self.state, of, Answer::Refused { reason: String::new() }));
            }
            Step::Reprice { of, price } => {
                let numbers = numbers(&self.state, of);
                let parts = numbers.iter().map(|_| (Arc::new(document(1)), offer(price))).collect();
                self.decide(answered(&self.state, of, Answer::Repriced { parts, order }));
            }
            Step::PlanChange { of, price, key, width } => {
                let Some(reservation) = self.state.table().get(of).cloned() else { return };
                let change = PendingChange {
                    key: key.to_string(),
                    document: Arc::new(document(width)),
                    offer: Offer { width, ..offer(price) },
                    revision: 3,
                    held: Money::ZERO,
                };
                let before = Arc::clone(&reservation.document);
                self.decide(PlanChange { number: of, before, change, by: name(0) });
            }
            Step::AnswerChange { of, key, is_made, revision } => {
                let answer = match is_made {
                    true => ChangeAnswer::Made(vec![promise(format!("p{of}"), 0, revision, 1_100, 1_200)]),
                    false => ChangeAnswer::Refused,
                };
                self.decide(ChangeAnswered { number: of, key: key.to_string(), answer });
            }
            Step::Hear { of, revision, state, tasks } => {
                let Some(reservation) = self.state.table().get(of).cloned() else { return };
                let Offer { start, end, .. } = reservation.progress.offer;
                let record = promise(reservation.promise_id(), state, revision, start, end);
                self.decide(Hear(PromiseRecord { tasks, ..record }));
            }
            Step::LookAtTasks { of, tasks } => self.decide(TasksKnown { number: of, tasks }),
            Step::Cancel { of, in_full } => {
                let (scope, in_full) = (Scope::default(), in_full.then(String::new));
                self.decide(Cancel { id: id(of), by: name(0), scope, in_full, tasks: None });
            }
            Step::Rebid { of, value } => {
                let (value, scope) = (Money::microcredits(value), Scope::default());
                self.decide(Rebid { id: id(of), value, scope, by: name(0) });
            }
            Step::Tidy { of } => {
                self.decide(Released(vec![of]));
                self.decide(TaskWithdrawn(of));
                let key = self.state.table().get(of).map(|one| one.task_key()).unwrap_or_default();
                let task = TaskStanding::Submitted("t".to_owned());
                self.decide(TaskKnown { number: of, key, task });
            }
            Step::Wait { seconds } => *self.clock.0.lock().unwrap() += seconds as i64 * 1_000_000,
        }
    }

    /// All accounts together have what was granted, and what is held is the price of what is not over.
    fn check(&self) {
        let table = self.state.table();
        assert_eq!(table.credits.sum(), Some(table.credits.granted()));
        let open = table.all().filter(|reservation| !reservation.state().is_final());
        let held = open
            .map(|reservation| {
                let Progress { offer, change, .. } = &reservation.progress;
                let more = change.as_ref().map(|change| change.held).unwrap_or_default();
                offer.price.as_microcredits() + more.as_microcredits()
            })
            .sum::<u64>();
        assert_eq!(table.credits.balance(HELD), Money::microcredits(held));
        let spent = |reservation: &&Arc<Reservation>| reservation.state().is_final();
        let kept = table.all().filter(spent).map(|reservation| {
            let progress = &reservation.progress;
            progress.offer.price.as_microcredits() - progress.refund.as_microcredits()
        });
        let fees = table.all().map(|reservation| reservation.progress.fees.as_microcredits());
        let income = kept.sum::<u64>() + fees.sum::<u64>();
        assert_eq!(table.credits.balance(INCOME), Money::microcredits(income));
        for reservation in table.all() {
            let is_pending = reservation.state() == State::Pending;
            assert_eq!(reservation.progress.order.is_some(), is_pending, "{reservation:?}");
            assert_eq!(reservation.ended_at.is_some(), reservation.state().is_final(), "{reservation:?}");
            let is_live = matches!(reservation.state(), State::Promised | State::Active);
            assert!(is_live || reservation.progress.change.is_none(), "{reservation:?}");
            let Progress { offer, given_back, missed, delivered, .. } = reservation.progress;
            let length = offer.end - offer.start;
            let units = reservation.width();
            assert!(delivered + given_back <= length && missed <= length * units, "{reservation:?}");
            if reservation.state() == State::Over {
                assert_eq!(delivered + given_back + missed.div_ceil(units), length, "{reservation:?}");
            }
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

/// A reservation of 100 from 1,100 to 1,200 s by a user who was granted 1,000, with its task submitted. It is 1,000 s now.
fn promised() -> World {
    let mut world = World::new();
    for step in [
        Step::Grant { user: 1, amount: 1_000, key: None },
        Step::Open { user: 1, prices: vec![100], key: None },
        Step::Promise { of: 1 },
        Step::Tidy { of: 1 },
    ] {
        world.take(step);
        world.check();
    }
    world
}

#[test]
fn a_change_holds_what_it_costs_more_and_gives_back_the_rest_but_for_a_twentieth() {
    for (price, while_asked, refused, made) in
        [(300, 700, 900, 700), (100, 900, 900, 900), (40, 900, 900, 957)]
    {
        for (is_made, expected) in [(false, refused), (true, made)] {
            let mut world = promised();
            let balance = |world: &World| world.state.table().credits.balance("user 1").as_microcredits();
            world.take(Step::PlanChange { of: 1, price, key: 1, width: 2 });
            assert_eq!(balance(&world), while_asked, "{price}");
            world.take(Step::AnswerChange { of: 1, key: 2, is_made: true, revision: 5 });
            assert_eq!(balance(&world), while_asked, "the answer to another change");
            world.take(Step::AnswerChange { of: 1, key: 1, is_made, revision: 5 });
            world.check();
            assert_eq!(balance(&world), expected, "{price} {is_made}");
            let after = world.state.table().get(1).unwrap();
            assert_eq!((after.width(), after.document.width), if is_made { (2, 2) } else { (1, 1) });
            let task = &after.progress.task;
            let stale = TaskStanding::Stale("t".to_owned());
            assert_eq!(*task == stale, is_made, "an array of another width is another task: {task:?}");
        }
    }
}

#[test]
fn a_change_that_breaks_meanwhile_gives_back_all_that_is_held() {
    let mut world = promised();
    world.take(Step::PlanChange { of: 1, price: 300, key: 1, width: 1 });
    let broken = PromiseState::ALL.iter().position(|state| *state == PromiseState::Broken).unwrap();
    world.take(Step::Hear { of: 1, revision: 8, state: broken, tasks: None });
    world.check();
    assert_eq!(world.state.table().credits.balance("user 1"), Money::microcredits(1_000));
    world.take(Step::AnswerChange { of: 1, key: 1, is_made: true, revision: 9 });
    world.check();
    assert_eq!(world.state.table().get(1).unwrap().state(), State::Broken);
}

#[test]
fn a_change_waits_for_no_money_and_comes_before_the_start_alone() {
    let change = |world: &mut World, price: u64| {
        world.take(Step::PlanChange { of: 1, price, key: 1, width: 1 });
        world.state.table().get(1).unwrap().progress.change.is_some()
    };
    assert!(!change(&mut promised(), 1_001), "900 are left, and 901 more are needed");
    assert!(change(&mut promised(), 1_000));
    let mut late = promised();
    late.take(Step::Wait { seconds: 100 });
    assert!(!change(&mut late, 50), "its time has come");
    let mut busy = promised();
    assert!(change(&mut busy, 200));
    busy.take(Step::Cancel { of: 1, in_full: false });
    assert_eq!(busy.state.table().get(1).unwrap().state(), State::Promised, "one after the other");
}

#[test]
fn a_list_is_paid_as_one_and_to_others_it_is_not_there() {
    let mut world = World::new();
    world.take(Step::Grant { user: 1, amount: 100, key: None });
    world.take(Step::Open { user: 1, prices: vec![60, 50], key: Some(1) });
    assert_eq!(world.state.table().len(), 0, "each alone could be paid");
    world.take(Step::Open { user: 1, prices: vec![60, 40], key: Some(1) });
    assert_eq!(world.state.table().len(), 2);
    world.take(Step::Reprice { of: 2, price: 51 });
    world.check();
    let states: Vec<State> = world.state.table().all().map(|one| one.state()).collect();
    assert_eq!(states, [State::Refused, State::Refused]);
    let again = Step::Open { user: 1, prices: vec![30, 40], key: Some(1) };
    for _ in 0..2 {
        world.take(again.clone());
        world.check();
        assert_eq!(world.state.table().len(), 4, "refused, its key is free, and the next has it");
    }
    let scope = |user: &str| Scope::of(&estimand_web::Principal::named("t").of_user(Some(user.into())));
    let table = world.state.table();
    assert!(table.find(&scope("user 1"), "r1").is_some() && table.find(&scope("user 2"), "r1").is_none());
}

mod settling;
mod shares;
