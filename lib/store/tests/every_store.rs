//! The store's guarantees on SQLite, PostgreSQL and MariaDB alike.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Barrier;
use std::thread;

use common::{Place, all, entry, history, owned, put, query, registration, removed, value};
use estimand_store::{
    BindingRef, BindingRow, Change, Connection, DataRowRef, Error, Group, HistoryQuery, Key, RetentionRef,
    RetentionRow, SwapRef, Upload,
};

on_every_store!(
    registrations_are_kept_with_every_change,
    values_come_back_as_they_were_written,
    a_later_commit_replaces_and_deletes,
    groups_of_any_size_are_written_whole,
    large_values_go_through,
    keys_differ_in_case_and_are_loaded_in_pages,
    bindings_and_retention_are_kept,
    every_swap_is_kept_once,
    a_file_is_stored_once_and_kept_while_a_registration_names_it,
    a_claim_ends_the_one_before,
    a_refused_commit_leaves_nothing,
    claims_at_once_are_all_different,
    a_deadlock_is_not_seen,
    migrations_at_once_break_nothing,
);

fn a_file_is_stored_once_and_kept_while_a_registration_names_it(place: &Place) {
    let mut connection = place.open();
    let (named, loose, fresh) = ("a1".repeat(32), "b2".repeat(32), "c3".repeat(32));
    let content: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    assert_eq!(connection.put_upload(&named, &content, 100, 3).unwrap(), Upload::New);
    assert_eq!(connection.put_upload(&named, &content, 90, 3).unwrap(), Upload::Known);
    assert_eq!(connection.load_upload(&named).unwrap(), Some(content));
    assert_eq!(connection.load_upload(&loose).unwrap(), None);
    assert_eq!(connection.put_upload(&loose, b"#!", 100, 3).unwrap(), Upload::New);
    assert_eq!(connection.put_upload(&fresh, b"#!", 100, 3).unwrap(), Upload::New);
    assert_eq!(connection.put_upload(&"d4".repeat(32), b"#!", 100, 3).unwrap(), Upload::Full);
    assert!(!connection.touch_upload(&"d4".repeat(32), 1).unwrap());

    let claim = connection.claim("registry", 0).unwrap();
    let mut change = entry("load", 1, "create");
    change.spec = format!("{{\"upload\":{{\"sha256\":\"{named}\"}}}}");
    connection.change_registrations(&claim, &[put(&registration("load", 1), change)]).unwrap();
    assert!(connection.touch_upload(&fresh, 200).unwrap());
    assert_eq!(connection.sweep_uploads(150).unwrap(), 1);
    // A name that is registered no more was registered once: its history names it.
    connection.change_registrations(&claim, &[removed(entry("load", 2, "delete"))]).unwrap();
    assert_eq!(connection.sweep_uploads(150).unwrap(), 0);
    let there = [&named, &loose, &fresh].map(|digest| connection.load_upload(digest).unwrap().is_some());
    assert_eq!(there, [true, false, true]);
}

fn registrations_are_kept_with_every_change(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("registry", 0).unwrap();
    let first = registration("load", 1);
    let mut second = registration("load", 2);
    second.time_max = None;
    second.spec = "{\"grüße\":\"\u{1F980}\\u0000\"}".to_owned();
    let other = registration("Load", 1);
    connection.change_registrations(&claim, &[put(&first, entry("load", 1, "create"))]).unwrap();
    connection.change_registrations(&claim, &[put(&other, entry("Load", 1, "create"))]).unwrap();
    connection.change_registrations(&claim, &[put(&second, entry("load", 2, "replace"))]).unwrap();
    assert_eq!(connection.load_registrations().unwrap(), [other.clone(), second]);

    connection.change_registrations(&claim, &[removed(entry("load", 3, "delete"))]).unwrap();
    assert_eq!(connection.load_registrations().unwrap(), [other]);
    let actions: Vec<_> =
        connection.registration_history("load", 2).unwrap().into_iter().map(|entry| entry.action).collect();
    assert_eq!(actions, ["delete", "replace"]);
    assert_eq!(connection.last_versions().unwrap(), [("Load".to_owned(), 1), ("load".to_owned(), 3)]);

    // All or nothing: the last entry is there already.
    let before = connection.load_registrations().unwrap();
    let (new, again) = (registration("new", 1), registration("Load", 1));
    let changes = [
        put(&new, entry("new", 1, "create")),
        removed(entry("Load", 2, "delete")),
        put(&again, entry("Load", 1, "create")),
    ];
    connection.change_registrations(&claim, &changes).unwrap_err();
    assert_eq!(connection.load_registrations().unwrap(), before);
    connection.change_registrations(&claim, &changes[..2]).unwrap();
    assert_eq!(connection.load_registrations().unwrap(), [new]);
    assert_eq!(connection.last_versions().unwrap().len(), 3);
}

fn values_come_back_as_they_were_written(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 100).unwrap();
    let rows = [
        DataRowRef {
            data_value: "{\"a\":[1,null,\"ü\u{1F980}'`\\\"\"]}",
            valid_for: Some(i64::MAX),
            failed: true,
            collected_at: i64::MIN,
            provenance: Some("{\"exit\":1}"),
            ..value("a", "n1", 101)
        },
        DataRowRef { lost: true, data_value: "", ..value("a", "n2", 102) },
    ];
    let group = Group { revision: 102, upserts: rows.to_vec(), ..Group::default() };
    connection.commit(&claim, &group).unwrap();
    drop(connection);
    assert_eq!(all(&mut place.open()), rows.map(|row| owned(&row)));
}

fn a_later_commit_replaces_and_deletes(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let rows = vec![value("a", "1", 1), value("a", "2", 2), value("b", "1", 3)];
    connection.commit(&claim, &Group { revision: 3, upserts: rows, ..Group::default() }).unwrap();

    let newer = DataRowRef { data_value: "2", failed: true, ..value("a", "2", 4) };
    let group = Group {
        revision: 5,
        deletes: vec![Key { data_name: "a", node_name: "1" }, Key { data_name: "never", node_name: "x" }],
        upserts: vec![newer],
        ..Group::default()
    };
    connection.commit(&claim, &group).unwrap();
    assert_eq!(all(&mut connection), [owned(&newer), owned(&value("b", "1", 3))]);

    let again = connection.claim("data", 1_000).unwrap();
    assert_eq!((again.epoch, again.revision), (claim.epoch + 1, 1_005));
}

fn groups_of_any_size_are_written_whole(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let nodes: Vec<_> = (0..1_500).map(|n| format!("n{n:05}")).collect();
    for (round, size) in [1, 2, 3, 5, 255, 256, 257, 1_000, 1_500].into_iter().enumerate() {
        let name = format!("d{round}");
        let upserts: Vec<_> = nodes[..size].iter().zip(1..).map(|(node, n)| value(&name, node, n)).collect();
        let kept: Vec<_> = nodes[..size].iter().zip(1..).map(|(node, n)| history(&name, node, n)).collect();
        let group =
            Group { revision: size as i64, upserts: upserts.clone(), history: kept, ..Group::default() };
        connection.commit(&claim, &group).unwrap();
        let found: Vec<_> = all(&mut connection);
        assert_eq!(found, upserts.iter().map(owned).collect::<Vec<_>>());
        let kept = connection.read_history(&HistoryQuery { limit: 2_000, ..query(&name) }).unwrap().rows;
        assert_eq!(kept.len(), size);

        let deletes = nodes[..size].iter().map(|node| Key { data_name: &name, node_name: node }).collect();
        connection.commit(&claim, &Group { revision: 0, deletes, ..Group::default() }).unwrap();
        assert_eq!(all(&mut connection), []);
    }
}

fn large_values_go_through(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let large = "x".repeat(64 * 1024);
    let nodes: Vec<_> = (0..400).map(|n| format!("{n:03}")).collect();
    let upserts: Vec<_> =
        nodes.iter().map(|node| DataRowRef { data_value: &large, ..value("large", node, 1) }).collect();
    connection.commit(&claim, &Group { revision: 1, upserts, ..Group::default() }).unwrap();
    let mut seen = 0;
    connection
        .load_data(&mut |change| {
            assert!(matches!(change, Change::Put(row) if row.data_value.len() == large.len()));
            seen += 1;
        })
        .unwrap();
    assert_eq!(seen, nodes.len());
}

fn keys_differ_in_case_and_are_loaded_in_pages(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    // More than two pages, with names whose order depends on the collation.
    let mut nodes: Vec<_> = (0..4_100).map(|n| format!("N-{n}")).collect();
    nodes.extend(["n-1", "n_1", "n.1", "n1", "N1"].map(str::to_owned));
    nodes.push("x".repeat(253));
    let long = "d".repeat(128);
    for name in ["Cpu", "cpu", "cpu:1", &long] {
        for some in nodes.chunks(1_000) {
            let upserts = some.iter().map(|node| value(name, node, 1)).collect();
            connection.commit(&claim, &Group { revision: 1, upserts, ..Group::default() }).unwrap();
        }
    }
    let found: Vec<_> =
        all(&mut connection).into_iter().map(|row| format!("{}/{}", row.data_name, row.node_name)).collect();
    assert_eq!(found.len(), 4 * nodes.len());
    assert!(found.is_sorted(), "ids are ordered byte by byte, and none comes twice");
}

fn bindings_and_retention_are_kept(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let binding = |data_name, target, at, field| BindingRef { data_name, target, at, field };
    let keep = |data_name, keep_us, max_count| RetentionRef { data_name, keep_us, max_count };
    let group = Group {
        revision: 1,
        bindings_set: vec![binding("a", "x", 1, None), binding("b", "x", 1, Some("/old"))],
        retention: Some(vec![keep("a", Some(5), None), keep("b", None, Some(7))]),
        ..Group::default()
    };
    connection.commit(&claim, &group).unwrap();
    let group = Group {
        revision: 2,
        bindings_set: vec![binding("b", "y", 2, Some("/\u{e9}"))],
        bindings_removed: vec!["a", "never"],
        ..Group::default()
    };
    connection.commit(&claim, &group).unwrap();
    let bound = BindingRow {
        data_name: "b".to_owned(),
        target: "y".to_owned(),
        at: 2,
        field: Some("/\u{e9}".to_owned()),
    };
    assert_eq!(connection.load_bindings().unwrap(), [bound]);
    let kept =
        |name: &str, keep_us, max_count| RetentionRow { data_name: name.to_owned(), keep_us, max_count };
    assert_eq!(connection.load_retention().unwrap(), [kept("a", Some(5), None), kept("b", None, Some(7))]);

    let group = Group { revision: 3, retention: Some(vec![keep("c", None, None)]), ..Group::default() };
    connection.commit(&claim, &group).unwrap();
    assert_eq!(connection.load_retention().unwrap(), [kept("c", None, None)]);
}

fn swap<'a>(data_name: &'a str, revision: i64, target: &'a str) -> SwapRef<'a> {
    let before_target = (revision > 1).then_some("earlier");
    SwapRef {
        data_name,
        revision,
        action: "bound",
        at: revision * 10,
        actor: "somebody",
        target,
        field: Some("/value"),
        before_target,
        before_field: None,
    }
}

fn every_swap_is_kept_once(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let group = Group {
        revision: 3,
        swaps: vec![swap("a", 1, "x"), swap("a", 2, "y"), swap("b", 3, "x")],
        ..Group::default()
    };
    connection.commit(&claim, &group).unwrap();
    // An attempt of unknown outcome that was stored after all, and the same again at other revisions.
    let lost = Group { revision: 4, swaps: vec![swap("a", 4, "z")], ..Group::default() };
    connection.commit(&claim, &lost).unwrap();
    let again = Group {
        revision: 6,
        erase_from: Some(4),
        swaps: vec![swap("a", 5, "z"), swap("a", 6, "w")],
        ..Group::default()
    };
    connection.commit(&claim, &again).unwrap();
    let kept = |connection: &mut Connection, name: &str, limit| -> Vec<(i64, String)> {
        let rows = connection.binding_history(name, limit).unwrap();
        rows.into_iter().map(|row| (row.revision, row.target)).collect()
    };
    let [w, z, y, x] = [(6, "w"), (5, "z"), (2, "y"), (1, "x")].map(|(n, to)| (n, to.to_owned()));
    assert_eq!(kept(&mut connection, "a", 9), [w.clone(), z, y, x], "newest first");
    assert_eq!(kept(&mut connection, "a", 1), [w]);
    assert_eq!(kept(&mut connection, "never", 9), []);
    let last = connection.last_swaps().unwrap();
    assert_eq!(
        last.iter().map(|row| (row.data_name.as_str(), row.revision)).collect::<Vec<_>>(),
        [("a", 6), ("b", 3)]
    );
    assert_eq!((last[0].before_target.as_deref(), &last[0].before_field), (Some("earlier"), &None));
    assert_eq!(
        (last[1].field.as_deref(), last[1].at, last[1].actor.as_str()),
        (Some("/value"), 30, "somebody")
    );
}

fn a_claim_ends_the_one_before(place: &Place) {
    let (mut one, mut other) = (place.open(), place.open());
    let old = one.claim("data", 10).unwrap();
    let registry = one.claim("registry", 0).unwrap();
    let group = Group { revision: old.revision + 1, upserts: vec![value("a", "n", 11)], ..Group::default() };
    one.commit(&old, &group).unwrap();
    // The same figures again: a row that is found but not changed is still a row.
    one.commit(&old, &group).unwrap();

    let new = other.claim("data", 10).unwrap();
    assert_eq!((new.epoch, new.revision), (old.epoch + 1, old.revision + 11));
    let late = Group { revision: 99, upserts: vec![value("late", "n", 99)], ..Group::default() };
    let refused = one.commit(&old, &late);
    assert!(
        matches!(&refused, Err(Error::Fenced { owner, epoch }) if owner == "data" && *epoch == old.epoch)
    );
    other.commit(&new, &Group { revision: new.revision, ..Group::default() }).unwrap();
    assert_eq!(all(&mut one).len(), 1, "the connection is usable, and nothing of the late commit is there");

    // Owners don't fence each other, and registrations are fenced like data.
    let put = |connection: &mut Connection, claim| {
        connection.change_registrations(claim, &[put(&registration("a", 1), entry("a", 1, "create"))])
    };
    put(&mut one, &registry).unwrap();
    other.claim("registry", 0).unwrap();
    assert!(matches!(put(&mut one, &registry), Err(Error::Fenced { .. })));
    let deleted = one.change_registrations(&registry, &[removed(entry("a", 2, "delete"))]);
    assert!(matches!(deleted, Err(Error::Fenced { .. })));
    assert_eq!(one.load_registrations().unwrap().len(), 1);
}

fn a_refused_commit_leaves_nothing(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("data", 0).unwrap();
    let twice = vec![history("a", "n", 7), history("a", "n", 7)];
    let group = Group {
        revision: 7,
        upserts: vec![value("a", "n", 7)],
        history: twice,
        bindings_set: vec![BindingRef { data_name: "a", target: "b", at: 1, field: None }],
        ..Group::default()
    };
    let refused = connection.commit(&claim, &group);
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    assert_eq!(all(&mut connection), []);
    assert_eq!(connection.load_bindings().unwrap(), []);
    assert_eq!(connection.claim("data", 0).unwrap().revision, 0);
}

fn claims_at_once_are_all_different(place: &Place) {
    drop(place.open());
    let start = Barrier::new(4);
    let mut epochs: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = Connection::open(&place.url).unwrap();
                    start.wait();
                    (0..5).map(|_| connection.claim("data", 1).unwrap().epoch).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    epochs.sort_unstable();
    assert_eq!(epochs, (1..=20).collect::<Vec<_>>());
}

/// Two owners that remove the same bindings in opposite orders lock them crosswise.
fn a_deadlock_is_not_seen(place: &Place) {
    let mut connection = place.open();
    let claims = [connection.claim("data", 0).unwrap(), connection.claim("registry", 0).unwrap()];
    let names: Vec<_> = (0..200).map(|n| format!("b{n:03}")).collect();
    let there: Vec<_> =
        names.iter().map(|name| BindingRef { data_name: name, target: "t", at: 0, field: None }).collect();
    for _ in 0..5 {
        let group = Group { revision: 1, bindings_set: there.clone(), ..Group::default() };
        connection.commit(&claims[0], &group).unwrap();
        let start = Barrier::new(2);
        thread::scope(|scope| {
            for (claim, reversed) in claims.iter().zip([false, true]) {
                let (names, start) = (&names, &start);
                scope.spawn(move || {
                    let mut connection = Connection::open(&place.url).unwrap();
                    let mut bindings_removed: Vec<_> = names.iter().map(String::as_str).collect();
                    if reversed {
                        bindings_removed.reverse();
                    }
                    start.wait();
                    let group = Group { revision: 1, bindings_removed, ..Group::default() };
                    connection.commit(claim, &group).unwrap();
                });
            }
        });
        assert_eq!(connection.load_bindings().unwrap(), []);
    }
}

fn migrations_at_once_break_nothing(place: &Place) {
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                let mut connection = Connection::open(&place.url).unwrap();
                connection.migrate().unwrap();
                connection.migrate().unwrap();
                connection.claim("data", 0).unwrap();
            });
        }
    });
    assert_eq!(place.open().claim("data", 0).unwrap().epoch, 5);
}
