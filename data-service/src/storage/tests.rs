use estimand_api::names::NodeName;
use estimand_api::write::{Content, Write};
use tempfile::TempDir;

use super::*;
use crate::core::operations::{Bind, Delete, Operation, Unbind};

fn name(text: &str) -> DataName {
    DataName::parse(text).unwrap()
}

fn write(of: &str, text: &str) -> Write {
    let content = Content::Value { text: text.into(), valid_for: None, provenance: None };
    let node_name = NodeName::parse("n").unwrap();
    Write { data_name: name(of), node_name, content, collected_at: None, order: None }
}

fn store(folder: &TempDir) -> StoreUrl {
    StoreUrl::parse(&format!("sqlite://{}", folder.path().join("store.db").display())).unwrap()
}

/// A start.
fn load(store: &StoreUrl) -> StoredState {
    Storage::load(store, &Halt::default(), 0, &mut |_| {}).unwrap()
}

/// Stores operations as one group.
fn commit(stored: &mut StoredState, apply: impl FnOnce(&mut Group)) {
    let mut group = Group::new(&stored.snapshot, 0);
    apply(&mut group);
    stored.storage.commit(&group, None).unwrap();
    group.settle();
    stored.snapshot = group.next;
}

#[test]
fn what_is_deleted_and_bound_at_once_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let (none, by) = (Retention::new(), "me".to_owned());
    let mut stored = load(&store);
    commit(&mut stored, |group| {
        write("a", "1").apply(group, &none).unwrap();
        write("b", "2").apply(group, &none).unwrap();
    });
    commit(&mut stored, |group| {
        Delete { name: name("a"), node: None }.apply(group, &none).unwrap();
        let served = BindingTarget { to: name("b"), field: None };
        Bind { name: name("a"), served, from: None, by: by.clone() }.apply(group, &none).unwrap();
    });
    commit(&mut stored, |group| Unbind { name: name("a"), by }.apply(group, &none).unwrap());
    drop(stored);
    let snapshot = load(&store).snapshot;
    assert_eq!(snapshot.own_names(), [&name("b")]);
    assert_eq!(snapshot.values, 1);
}

#[test]
fn the_journal_is_loaded_over_what_was_folded() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let none = Retention::new();
    let mut stored = load(&store);
    commit(&mut stored, |group| {
        for of in ["a", "b", "c"] {
            write(of, "1").apply(group, &none).unwrap();
        }
    });
    fold(&store, &stored.storage.fold_right());
    commit(&mut stored, |group| {
        write("b", "2").apply(group, &none).unwrap();
        Delete { name: name("c"), node: None }.apply(group, &none).unwrap();
        write("d", "2").apply(group, &none).unwrap();
    });
    let before = stored.snapshot;
    let text = |snapshot: &Snapshot, of: &str| snapshot.get(of, "n").map(|entry| entry.text().to_owned());
    for in_journal in [3, 0] {
        let loaded = load(&store);
        assert_eq!((loaded.snapshot.values, loaded.journaled.changes), (3, in_journal));
        for of in ["a", "b", "c", "d"] {
            assert_eq!(text(&loaded.snapshot, of), text(&before, of), "{of}");
        }
        fold(&store, &loaded.storage.fold_right());
    }
}

fn fold(store: &StoreUrl, right: &FoldRight) {
    let mut connection = Connection::open(store).unwrap();
    let page = connection.read_journal().unwrap();
    let mut fold = page.fold().unwrap();
    while !fold.is_done() {
        connection.fold_piece(right.claim(), &mut fold).unwrap();
    }
}
