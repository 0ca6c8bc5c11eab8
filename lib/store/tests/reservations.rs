//! Reservations, the journal of credits and bids on SQLite, PostgreSQL and MariaDB alike.
#![allow(clippy::unwrap_used)]

mod common;

use common::Place;
use estimand_store::{BidRow, CreditEntryRow, Error, ReservationGroup, ReservationRow, StoredReservations};

on_every_store!(reservations_and_credits_are_kept_together, the_journal_is_read_back_and_bids_are_cut);

fn reservation(number: i64) -> ReservationRow {
    ReservationRow {
        number,
        id: format!("r{number}"),
        idempotency_key: (number % 2 == 0).then(|| format!("key {number}")),
        account: "grüße".to_owned(),
        document: "{\"text\":\"\u{1F980}\"}".to_owned(),
        progress: "{}".to_owned(),
        made_at: number * 10,
        made_by: "somebody".to_owned(),
        ended_at: None,
    }
}

fn entry(number: i64, payer: Option<&str>, payee: &str, amount: i64) -> CreditEntryRow {
    CreditEntryRow {
        number,
        at: number,
        payer: payer.map(str::to_owned),
        payee: payee.to_owned(),
        amount,
        reason: "grant".to_owned(),
        reservation: payer.map(|_| 1),
        idempotency_key: payer.is_none().then(|| format!("grant {number}")),
        actor: "operator".to_owned(),
    }
}

fn reservations_and_credits_are_kept_together(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("reservations", 0).unwrap();
    assert_eq!(connection.load_reservations().unwrap(), StoredReservations::default());
    // Sums of a journal are exact, also beyond what a float has.
    let most = i64::MAX - 7;
    let group = ReservationGroup {
        reservations: vec![reservation(1), reservation(2), reservation(3)],
        entries: vec![entry(1, None, "a", most), entry(2, Some("a"), "b", 5), entry(3, None, "B", 7)],
        bids: vec![BidRow { number: 1, at: 4, bid: "{}".to_owned() }],
        predictor: Some("one".to_owned()),
        highest: 3,
        ..ReservationGroup::default()
    };
    connection.commit_reservations(&claim, &group).unwrap();
    let stored = connection.load_reservations().unwrap();
    assert_eq!(stored.reservations, group.reservations);
    let balances = [("B", 7), ("a", most - 5), ("b", 5)].map(|(account, sum)| (account.to_owned(), sum));
    assert_eq!((stored.balances, stored.granted), (balances.to_vec(), i64::MAX));
    assert_eq!((stored.last_entry, stored.last_bid), (3, 1));
    assert_eq!(stored.predictor.as_deref(), Some("one"));
    assert_eq!(stored.keyed_grants, [group.entries[0].clone(), group.entries[2].clone()]);

    let changed = ReservationRow { ended_at: Some(9), ..reservation(1) };
    let group = ReservationGroup {
        reservations: vec![changed.clone()],
        deleted: vec![2],
        predictor: Some("another".to_owned()),
        highest: 3,
        ..ReservationGroup::default()
    };
    connection.commit_reservations(&claim, &group).unwrap();
    let stored = connection.load_reservations().unwrap();
    assert_eq!(stored.reservations, [changed, reservation(3)]);
    assert_eq!(stored.predictor.as_deref(), Some("another"));

    // An entry is never written over: a journal that would have a number twice is refused whole.
    let group = ReservationGroup {
        reservations: vec![reservation(7)],
        entries: vec![entry(3, None, "c", 1)],
        highest: 7,
        ..ReservationGroup::default()
    };
    connection.commit_reservations(&claim, &group).unwrap_err();
    let stored = connection.load_reservations().unwrap();
    assert_eq!((stored.reservations.len(), stored.granted), (2, i64::MAX));

    let next = connection.claim("reservations", 0).unwrap();
    assert_eq!(next.revision, 3);
    let refused = connection.commit_reservations(&claim, &ReservationGroup::default()).unwrap_err();
    assert!(matches!(refused, Error::Fenced { .. }), "{refused}");
}

fn the_journal_is_read_back_and_bids_are_cut(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("reservations", 0).unwrap();
    let bid = |number| BidRow { number, at: number * 10, bid: format!("{{\"n\":{number}}}") };
    let group = ReservationGroup {
        entries: (1..=600).map(|at| entry(at, Some("a"), if at % 3 == 0 { "b" } else { "c" }, at)).collect(),
        bids: (1..=600).map(bid).collect(),
        ..ReservationGroup::default()
    };
    connection.commit_reservations(&claim, &group).unwrap();
    let numbers = |rows: Vec<CreditEntryRow>| rows.iter().map(|row| row.number).collect::<Vec<_>>();
    assert_eq!(numbers(connection.credit_entries(Some("b"), i64::MAX, 2).unwrap()), [600, 597]);
    assert_eq!(numbers(connection.credit_entries(Some("a"), 3, 9).unwrap()), [2, 1]);
    assert_eq!(numbers(connection.credit_entries(None, 2, 9).unwrap()), [1]);
    assert_eq!(connection.credit_entries(Some("d"), 600, 9).unwrap(), []);

    let group =
        ReservationGroup { bids: vec![bid(601)], removed_bids: Some(598), ..ReservationGroup::default() };
    connection.commit_reservations(&claim, &group).unwrap();
    assert_eq!(connection.bids(0, 10).unwrap(), [bid(599), bid(600), bid(601)]);
    assert_eq!(connection.bids(6_000, 10).unwrap(), [bid(600), bid(601)]);
    assert_eq!(connection.bids(0, 1).unwrap(), [bid(601)]);
    assert_eq!(connection.load_reservations().unwrap().last_bid, 601);
}
