//! The shares of users: what one has of reservations, units and documents is bounded, and takes nothing from others.

use std::collections::HashMap;

use estimand_api::problem::Problem;
use estimand_api::share::{LimitChanges, Limits, ShareKind};
use estimand_web::{Principal, Users};

use super::*;
use crate::change::Rejection;
use crate::usage::{MAX_BYTES, MAX_UNITS};

fn limited(kind: ShareKind, limit: Option<u64>) -> Scope {
    let users = Users::default();
    let mut changes = LimitChanges::default();
    changes.set(kind, limit);
    let mut limits = Limits::default();
    limits.change(&changes);
    users.set_limits(HashMap::from([("eve".to_owned(), limits)]));
    Scope::of(&Principal::named("token").of_user(Some(users.admit("eve"))))
}

fn with_bytes(bytes: u64) -> Arc<Document> {
    let mut document = document(1);
    document.bytes = bytes;
    Arc::new(document)
}

impl World {
    /// The outcome of a request of `width` units at a price, with a document of so many bytes.
    fn open(
        &mut self,
        account: &str,
        scope: &Scope,
        document: &Arc<Document>,
        width: u64,
        price: u64,
    ) -> Result<(), Rejection> {
        let offer = Offer { price: Money::microcredits(price), start: 1_100, end: 1_200, width };
        let open = Open {
            parts: vec![(Arc::clone(document), offer)],
            list: None,
            key: None,
            account: account.to_owned(),
            scope: scope.clone(),
            places: 80,
            by: account.to_owned(),
            order: OrderKey { key: "one".to_owned(), revision: 1 },
        };
        if let Decision::Change(change, _) = open.decide(&self.state)? {
            self.state.stage(&change);
        }
        Ok(())
    }

    fn refuse(&mut self, number: u64) {
        let answer = Answer::Refused { reason: String::new() };
        self.decide(Answered { numbers: vec![number], order: "one".to_owned(), answer });
    }

    fn grant_to(&mut self, user: &str) {
        let amount = Money::microcredits(1_000_000_000);
        self.decide(Grant { user: user.to_owned(), amount, key: None, by: "operator".to_owned() });
    }

    fn bytes_of(&self, account: &str) -> u64 {
        self.state.table().usages.of(account).map_or(0, |usage| usage.bytes)
    }
}

#[track_caller]
fn is_full(outcome: Result<(), Rejection>, kind: ShareKind) {
    let Err(Rejection::Share(problem)) = outcome else { panic!("{outcome:?}") };
    let flag = format!("--{}", kind.declaration().flag);
    assert!(problem.status == 409 && problem.detail.contains(&flag), "{problem:?}");
}

#[test]
fn open_reservations_and_units_are_a_users_share_and_nobody_elses() {
    let mut world = World::new();
    ["eve", "bob"].iter().for_each(|user| world.grant_to(user));
    let small = with_bytes(1_000);
    let eve = limited(ShareKind::Reservations, Some(2));
    for _ in 0..2 {
        world.open("eve", &eve, &small, 1, 1).unwrap();
    }
    is_full(world.open("eve", &eve, &small, 1, 1), ShareKind::Reservations);
    // An operator who reserves for her has no share, and bob has his.
    world.open("eve", &Scope::default(), &small, 1, 1).unwrap();
    world.open("bob", &limited(ShareKind::Reservations, None), &small, 1, 1).unwrap();
    // A reservation that is over is not open.
    (1..=3).for_each(|number| world.refuse(number));
    world.open("eve", &eve, &small, 1, 1).unwrap();

    let eve = limited(ShareKind::Units, None);
    let fair = MAX_UNITS / 8;
    world.open("eve", &eve, &small, fair - 1, 1).unwrap();
    is_full(world.open("eve", &eve, &small, 1, 1), ShareKind::Units);
    world.refuse(6);
    // Units that cost nothing: a share of the 80 places.
    world.open("eve", &eve, &small, 10, 0).unwrap();
    is_full(world.open("eve", &eve, &small, 1, 0), ShareKind::Units);
    world.open("eve", &eve, &small, 11, 1).unwrap();
}

#[test]
fn documents_that_are_kept_are_a_users_share_and_their_own_oldest_go() {
    let mut world = World::new();
    ["eve", "bob"].iter().for_each(|user| world.grant_to(user));
    let large = with_bytes(256 << 10);
    world.open("bob", &Scope::default(), &large, 1, 1).unwrap();
    world.refuse(1);
    let eve = limited(ShareKind::ReservationBytes, None);
    let fair = MAX_BYTES / 8;
    // Again and again, kept though they are over: the oldest of her own make room.
    for number in 2..200 {
        world.open("eve", &eve, &large, 1, 1).unwrap();
        world.refuse(number);
        assert!(world.bytes_of("eve") <= fair, "{number}");
    }
    assert_eq!((world.bytes_of("eve"), world.bytes_of("bob")), (fair, 256 << 10));
    assert!(world.state.table().get(2).is_none() && world.state.table().get(199).is_some());
    // Open ones make no room.
    let open = (0..200).map_while(|_| world.open("eve", &eve, &large, 1, 1).ok()).count() as u64;
    assert_eq!(open, fair / (256 << 10));
    is_full(world.open("eve", &eve, &large, 1, 1), ShareKind::ReservationBytes);
    world.open("bob", &limited(ShareKind::ReservationBytes, None), &large, 1, 1).unwrap();
}

#[test]
fn a_store_over_the_bounds_loads_and_refuses_only_what_is_new() {
    let mut world = World::new();
    ["eve", "bob"].iter().for_each(|user| world.grant_to(user));
    // As one of before the bounds: twice as much as all may have, half of it over.
    let large = with_bytes(MAX_BYTES / 32);
    for number in 1..=64 {
        world.state.stage(&Change {
            reservations: vec![Arc::new(Reservation { number, ..kept(&large, number % 2 == 0) })],
            ..Change::default()
        });
    }
    assert_eq!(world.state.table().usages.bytes(), 2 * MAX_BYTES);
    // Each new one takes the place of two that are over: of hers, or of whoever has most.
    world.open("eve", &limited(ShareKind::ReservationBytes, None), &large, 1, 1).unwrap();
    assert_eq!(world.state.table().usages.bytes(), 2 * MAX_BYTES - MAX_BYTES / 32);
    let small = with_bytes(MAX_BYTES / 64);
    world.open("bob", &limited(ShareKind::ReservationBytes, None), &small, 1, 1).unwrap();
    assert_eq!(world.state.table().usages.bytes(), 2 * MAX_BYTES - MAX_BYTES / 32 - MAX_BYTES / 64);
    // Until there is nothing that is over.
    let operator = Scope::default();
    let opened = (0..64).map_while(|_| world.open("ops", &operator, &small, 1, 0).ok()).count();
    assert!(opened > 0 && opened < 64, "{opened}");
    let refused = world.open("ops", &operator, &small, 1, 0).unwrap_err();
    assert_eq!(Problem::from(refused).status, 503);
}

/// A reservation of eve's.
fn kept(document: &Arc<Document>, is_over: bool) -> Reservation {
    let offer = Offer { price: Money::ZERO, start: 1_100, end: 1_200, width: 1 };
    let mut progress = Progress::new(offer, OrderKey { key: "old".to_owned(), revision: 1 }, document);
    if is_over {
        progress.state = State::Over;
    }
    Reservation {
        number: 0,
        id: format!("r{}", fastrand::u64(..)),
        key: None,
        account: "eve".to_owned(),
        document: Arc::clone(document),
        progress,
        made_at: 0,
        made_by: String::new(),
        ended_at: None,
    }
}

#[test]
fn reservations_that_are_over_make_room_by_those_who_have_most() {
    let mut world = World::new();
    ["eve", "bob"].iter().for_each(|user| world.grant_to(user));
    let small = with_bytes(1_000);
    // Bob's are the oldest, and one of eve's is still open.
    for (number, user) in (1..).zip(["bob", "bob", "eve", "eve", "eve", "eve", "eve"]) {
        world.open(user, &Scope::default(), &small, 1, 1).unwrap();
        if number < 7 {
            world.refuse(number);
        }
    }
    let oldest_of_most = |count| {
        let mut numbers = world.state.table().usages.oldest_of_most(count)?;
        numbers.sort_unstable();
        Some(numbers)
    };
    assert_eq!(oldest_of_most(0), Some(vec![]));
    assert_eq!(oldest_of_most(2), Some(vec![3, 4]));
    // Each has one left.
    assert_eq!(oldest_of_most(4), Some(vec![1, 3, 4, 5]));
    assert_eq!(oldest_of_most(6), Some(vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(oldest_of_most(7), None);
}
