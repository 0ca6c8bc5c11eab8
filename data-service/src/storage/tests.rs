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
