//! Histories of values on SQLite, PostgreSQL and MariaDB alike.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Place, history, query, revisions};
use estimand_store::{Group, HistoryDelete, HistoryQuery, HistoryRowRef, MAX_HISTORY_BYTES};

on_every_store!(
    history_is_read_and_pruned,
    history_begins_once,
    of_a_large_history_the_newest_part_that_fits_is_read,
    history_of_an_attempt_is_erased,
);

fn history_is_read_and_pruned(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let rows = (1..=10).map(|n| history("a", if n % 2 == 0 { "even" } else { "odd" }, n));
    let group =
        Group { revision: 11, history: rows.chain([history("b", "odd", 11)]).collect(), ..Group::default() };
    connection.commit(&claim, &group).unwrap();

    let even = HistoryQuery { node_name: Some("even".to_owned()), ..query("a") };
    assert_eq!(revisions(&mut connection, &query("a")), (1..=10).collect::<Vec<_>>());
    assert_eq!(revisions(&mut connection, &even), [2, 4, 6, 8, 10]);
    assert_eq!(revisions(&mut connection, &HistoryQuery { limit: 2, ..even.clone() }), [8, 10]);
    let between = HistoryQuery { since: Some(30), until: Some(60), ..query("a") };
    assert_eq!(revisions(&mut connection, &between), [3, 4, 5]);

    connection.prune_history("a", Some(30)).unwrap();
    assert_eq!(revisions(&mut connection, &query("a")), (3..=10).collect::<Vec<_>>());
    connection.prune_history_count("a", "even", 2).unwrap();
    assert_eq!(revisions(&mut connection, &query("a")), [3, 5, 7, 8, 9, 10]);
    connection.prune_history_count("a", "even", 2).unwrap();
    connection.prune_history_count("a", "odd", 0).unwrap();
    assert_eq!(revisions(&mut connection, &query("a")), [8, 10]);

    let group = Group {
        revision: 12,
        history_deletes: vec![HistoryDelete::Node { data_name: "a", node_name: "even" }],
        history: vec![history("a", "even", 12), history("a", "odd", 12)],
        ..Group::default()
    };
    connection.commit(&claim, &group).unwrap();
    assert_eq!(revisions(&mut connection, &even), [12], "a delete comes before what is written");
    let group = Group { revision: 13, history_deletes: vec![HistoryDelete::Name("a")], ..Group::default() };
    connection.commit(&claim, &group).unwrap();
    assert_eq!(revisions(&mut connection, &query("a")), [0; 0]);
    connection.prune_history("b", None).unwrap();
    assert_eq!(revisions(&mut connection, &query("b")), [0; 0]);
}

fn history_begins_once(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let kept = vec![history("a", "n", 3)];
    connection.commit(&claim, &Group { revision: 3, history: kept, ..Group::default() }).unwrap();
    let begins = |revision| Group {
        revision,
        history_begins: vec![history("a", "n", 3), history("a", "m", 2), history("b", "n", 4)],
        ..Group::default()
    };
    connection.commit(&claim, &Group { history: vec![history("b", "n", 5)], ..begins(5) }).unwrap();
    connection.commit(&claim, &begins(6)).unwrap();
    assert_eq!(revisions(&mut connection, &query("a")), [2, 3]);
    assert_eq!(revisions(&mut connection, &query("b")), [4, 5]);
}

fn of_a_large_history_the_newest_part_that_fits_is_read(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let large = "x".repeat(MAX_HISTORY_BYTES as usize / 32);
    for n in 1..=35 {
        let kept = vec![HistoryRowRef { data_value: &large, ..history("large", "n", n) }];
        connection.commit(&claim, &Group { revision: n, history: kept, ..Group::default() }).unwrap();
    }
    let all = HistoryQuery { limit: 100_000, ..query("large") };
    let read = connection.read_history(&all).unwrap();
    let revisions: Vec<i64> = read.rows.iter().map(|row| row.revision).collect();
    assert_eq!((revisions, read.is_cut), ((4..=35).collect(), true));
    let read = connection.read_history(&HistoryQuery { since: Some(40), ..all }).unwrap();
    assert_eq!((read.rows.len(), read.is_cut), (32, false));
}

fn history_of_an_attempt_is_erased(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let first = vec![history("a", "n", 1), history("a", "n", 2), history("a", "n", 3)];
    connection.commit(&claim, &Group { revision: 3, history: first, ..Group::default() }).unwrap();
    // The same change once more, under the same revisions, as after an attempt of unknown outcome.
    let other = vec![history("a", "m", 9)];
    connection.commit(&claim, &Group { revision: 9, history: other, ..Group::default() }).unwrap();
    let again = vec![history("a", "n", 2), history("b", "n", 3)];
    let group = Group { revision: 3, erase_from: Some(2), history: again, ..Group::default() };
    connection.commit(&claim, &group).unwrap();
    assert_eq!(revisions(&mut connection, &query("a")), [1, 2, 9], "another node's is left alone");
    assert_eq!(revisions(&mut connection, &query("b")), [3]);
}
