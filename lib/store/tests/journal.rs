//! The journal and its folds on SQLite, PostgreSQL and MariaDB alike.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Place, all, fold, journaled, owned, value};
use estimand_store::{DataRow, DataRowRef, Error, Group, Key};

on_every_store!(
    a_fold_leaves_the_values_as_they_are,
    a_fold_that_is_cut_short_changes_nothing,
    a_fold_under_an_older_claim_fails,
    what_is_stored_again_is_there_once,
    a_row_that_was_replaced_is_not_cut,
    a_large_group_is_folded_in_parts,
    a_node_is_known_by_values_in_the_journal,
);

fn puts<'a>(revision: i64, rows: &[DataRowRef<'a>]) -> Group<'a> {
    Group { revision, upserts: rows.to_vec(), ..Group::default() }
}

fn deletes<'a>(revision: i64, names: &[&'a str]) -> Group<'a> {
    let deletes = names.iter().map(|data_name| Key { data_name, node_name: "n" }).collect();
    Group { revision, deletes, ..Group::default() }
}

fn a_fold_leaves_the_values_as_they_are(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let [a, b, c] = [value("a", "n", 1), value("b", "n", 2), value("c", "n", 3)];
    connection.commit(&claim, &puts(3, &[a, b, c])).unwrap();
    fold(&mut connection, &claim).unwrap();
    connection.commit(&claim, &deletes(4, &["a", "b"])).unwrap();
    let [late, new] = [
        DataRowRef { data_value: "7", provenance: Some("{}"), ..value("b", "n", 5) },
        DataRowRef { valid_for: Some(9), failed: true, lost: true, ..value("d", "n", 6) },
    ];
    let added = connection.commit(&claim, &puts(6, &[late, new])).unwrap();
    assert_eq!((added.changes, added.revision), (2, 6));
    let expected: Vec<DataRow> = [late, c, new].iter().map(owned).collect();
    assert_eq!((all(&mut connection), journaled(&mut connection)), (expected.clone(), 4));
    fold(&mut connection, &claim).unwrap();
    assert_eq!((all(&mut connection), journaled(&mut connection)), (expected, 0));
    assert!(connection.read_journal().unwrap().fold().unwrap().is_done());
}

fn a_node_is_known_by_values_in_the_journal(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let known = |connection: &mut estimand_store::Connection, folded| {
        if folded {
            fold(connection, &claim).unwrap();
        }
        ["n", "other"].map(|node| connection.what_is_known_of(node).unwrap())
    };
    for folded in [false, true] {
        connection.commit(&claim, &puts(1, &[value("a", "n", 1), value("b", "n", 1)])).unwrap();
        assert_eq!(known(&mut connection, folded), [Some("values"), None]);
        connection.commit(&claim, &deletes(2, &["a"])).unwrap();
        assert_eq!(known(&mut connection, folded), [Some("values"), None]);
        connection.commit(&claim, &deletes(3, &["b"])).unwrap();
        assert_eq!(known(&mut connection, folded), [None, None]);
    }
}

/// More than one transaction of a fold stores.
fn many(nodes: &[String], revision: i64) -> Vec<DataRowRef<'_>> {
    nodes.iter().map(|node| value("many", node, revision)).collect()
}

fn nodes() -> Vec<String> {
    (0..5_000).map(|number| format!("n{number:04}")).collect()
}

fn a_fold_that_is_cut_short_changes_nothing(place: &Place) {
    let nodes = nodes();
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    connection.commit(&claim, &puts(1, &many(&nodes, 1))).unwrap();
    fold(&mut connection, &claim).unwrap();
    connection.commit(&claim, &puts(2, &many(&nodes, 2))).unwrap();
    let page = connection.read_journal().unwrap();
    let mut begun = page.fold().unwrap();
    let stored = connection.fold_piece(&claim, &mut begun).unwrap();
    assert!((1..nodes.len()).contains(&stored) && !begun.is_done());
    connection.commit(&claim, &puts(3, &many(&nodes[..1], 3))).unwrap();

    // Another process begins here.
    drop(connection);
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let mut expected = many(&nodes, 2);
    expected[0] = value("many", &nodes[0], 3);
    let expected: Vec<DataRow> = expected.iter().map(owned).collect();
    assert!(all(&mut connection) == expected);
    assert_eq!(journaled(&mut connection), nodes.len() + 1);
    fold(&mut connection, &claim).unwrap();
    assert!(all(&mut connection) == expected);
    assert_eq!(journaled(&mut connection), 0);
}

fn a_fold_under_an_older_claim_fails(place: &Place) {
    let nodes = nodes();
    let (mut one, mut other) = (place.open(), place.open());
    let old = one.claim("data", 0).unwrap();
    one.commit(&old, &puts(1, &many(&nodes, 1))).unwrap();
    let page = one.read_journal().unwrap();
    let mut late = page.fold().unwrap();
    one.fold_piece(&old, &mut late).unwrap();

    let new = other.claim("data", 10).unwrap();
    other.commit(&new, &puts(20, &many(&nodes, 20))).unwrap();
    fold(&mut other, &new).unwrap();
    for _ in 0..2 {
        let refused = one.fold_piece(&old, &mut late);
        assert!(matches!(refused, Err(Error::Fenced { epoch, .. }) if epoch == old.epoch), "{refused:?}");
    }
    let expected: Vec<DataRow> = many(&nodes, 20).iter().map(owned).collect();
    assert!(all(&mut other) == expected);
    assert_eq!(journaled(&mut other), 0);
}

fn what_is_stored_again_is_there_once(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    connection.commit(&claim, &puts(1, &[value("a", "n", 1)])).unwrap();
    for is_folded in [false, true] {
        // As after a connection that broke during the commit of the first of both.
        connection.commit(&claim, &puts(3, &[value("a", "n", 2), value("b", "n", 3)])).unwrap();
        if is_folded {
            fold(&mut connection, &claim).unwrap();
        }
        let [a, b] = [2, 3].map(|revision| DataRowRef { received_at: 99, ..value("a", "n", revision) });
        let again = [a, DataRowRef { data_name: "b", ..b }];
        connection.commit(&claim, &Group { erase_from: Some(2), ..puts(3, &again) }).unwrap();
        assert_eq!(all(&mut connection), again.map(|row| owned(&row)));
        assert_eq!(journaled(&mut connection), if is_folded { 2 } else { 3 });
    }
}

fn a_row_that_was_replaced_is_not_cut(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    connection.commit(&claim, &puts(1, &[value("a", "n", 1)])).unwrap();
    let page = connection.read_journal().unwrap();
    let mut folding = page.fold().unwrap();
    let again = DataRowRef { received_at: 99, ..value("a", "n", 1) };
    connection.commit(&claim, &Group { erase_from: Some(1), ..puts(1, &[again]) }).unwrap();
    connection.fold_piece(&claim, &mut folding).unwrap();
    assert!(folding.is_done());
    assert_eq!((all(&mut connection), journaled(&mut connection)), (vec![owned(&again)], 1));
}

fn a_large_group_is_folded_in_parts(place: &Place) {
    let nodes = nodes();
    let large = "x".repeat(64 << 10);
    let rows: Vec<_> =
        many(&nodes[..400], 5).iter().map(|row| DataRowRef { data_value: &large, ..*row }).collect();
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let added = connection.commit(&claim, &puts(5, &rows)).unwrap();
    assert_eq!(added.changes, rows.len());
    let page = connection.read_journal().unwrap();
    assert_eq!(page.complete_up_to(), Some(4), "the rest of it is behind the page");
    fold(&mut connection, &claim).unwrap();
    assert_eq!((all(&mut connection).len(), journaled(&mut connection)), (rows.len(), 0));
}

#[test]
fn commits_go_on_while_a_fold_is_under_way_on_postgres() {
    commits_go_on_while_a_fold_is_under_way(&Place::postgres());
}

#[test]
fn commits_go_on_while_a_fold_is_under_way_on_mariadb() {
    commits_go_on_while_a_fold_is_under_way(&Place::mariadb());
}

fn commits_go_on_while_a_fold_is_under_way(place: &Place) {
    let nodes = nodes();
    let (mut writing, mut folding) = (place.open(), place.open());
    let claim = writing.claim("data", 0).unwrap();
    std::thread::scope(|scope| {
        let folder = scope.spawn(|| {
            let mut pieces = 0;
            while pieces < 20 {
                let page = folding.read_journal().unwrap();
                let mut fold = page.fold().unwrap();
                while !fold.is_done() {
                    folding.fold_piece(&claim, &mut fold).unwrap();
                    pieces += 1;
                }
            }
        });
        for revision in 1.. {
            writing.commit(&claim, &puts(revision, &many(&nodes, revision))).unwrap();
            if folder.is_finished() {
                let expected: Vec<DataRow> = many(&nodes, revision).iter().map(owned).collect();
                assert!(all(&mut writing) == expected);
                return;
            }
        }
    });
}
