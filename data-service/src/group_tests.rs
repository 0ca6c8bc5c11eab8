use estimand_api::value::State;
use estimand_api::write::Order;

use super::*;

fn name(text: &str) -> DataName {
    DataName::parse(text).unwrap()
}

fn node(text: &str) -> NodeName {
    NodeName::parse(text).unwrap()
}

fn value(of: &str, on: &str, text: &str, order: Option<(u64, u64)>) -> Write {
    let content = Content::Value { text: text.into(), valid_for: None, provenance: None };
    let order = order.map(|(epoch, sequence)| Order { epoch, sequence });
    Write { data_name: name(of), node_name: node(on), content, collected_at: None, order }
}

fn failure(of: &str, on: &str, order: Option<(u64, u64)>) -> Write {
    Write { content: Content::Failed, ..value(of, on, "0", order) }
}

/// A group over nothing.
fn group() -> Group {
    Group::new(&Snapshot::empty(10), 1_000)
}

#[allow(clippy::needless_pass_by_value)] // Every operation is written where it is applied.
fn apply(group: &mut Group, op: Op) -> Result<Done, Problem> {
    group.apply(&op, &Retention::new())
}

fn text(group: &Group, of: &str, on: &str) -> Option<String> {
    group.get(of, on).map(|entry| entry.text().to_owned())
}

fn state(group: &Group, of: &str, on: &str) -> Option<State> {
    group.get(of, on).map(|entry| entry.facts.marks.state())
}

#[test]
fn an_older_write_of_a_slot_never_replaces_a_newer_one() {
    let mut group = group();
    for (order, text) in [((2, 5), "new"), ((2, 4), "old"), ((1, 9), "older"), ((2, 5), "again")] {
        apply(&mut group, Op::Write(value("a", "n", &format!("\"{text}\""), Some(order)))).unwrap();
    }
    assert_eq!(text(&group, "a", "n").as_deref(), Some("\"new\""));
    assert_eq!(group.changes.len(), 1);
    // A plain write takes the order of arrival, and does not let an old delivery back in.
    apply(&mut group, Op::Write(value("a", "n", "1", None))).unwrap();
    apply(&mut group, Op::Write(value("a", "n", "2", Some((2, 5))))).unwrap();
    assert_eq!(text(&group, "a", "n").as_deref(), Some("1"));
}

#[test]
fn a_failure_keeps_the_last_good_value_and_an_old_one_is_ignored() {
    let mut group = group();
    assert!(matches!(
        apply(&mut group, Op::Write(failure("a", "n", None))),
        Ok(Done::Written(Written { outcome: Outcome::NoValue, .. }))
    ));
    apply(&mut group, Op::Write(value("a", "n", "1", Some((1, 2))))).unwrap();
    apply(&mut group, Op::Write(failure("a", "n", Some((1, 1))))).unwrap();
    assert_eq!(state(&group, "a", "n"), Some(State::Fresh));
    apply(&mut group, Op::Write(failure("a", "n", Some((1, 3))))).unwrap();
    assert_eq!(
        (state(&group, "a", "n"), text(&group, "a", "n")),
        (Some(State::Failed), Some("1".to_owned()))
    );
    apply(&mut group, Op::Write(value("a", "n", "2", Some((1, 3))))).unwrap();
    assert_eq!(text(&group, "a", "n").as_deref(), Some("1"), "the run that failed brings no value later");
    apply(&mut group, Op::Write(value("a", "n", "2", Some((1, 4))))).unwrap();
    assert_eq!(state(&group, "a", "n"), Some(State::Fresh));
}

#[test]
fn a_batch_with_one_bound_name_does_nothing() {
    let mut group = group();
    apply(&mut group, Op::Bind { name: name("b"), to: name("a") }).unwrap();
    let revision = group.next.revision;
    let refused = apply(&mut group, Op::Batch(vec![value("a", "n", "1", None), value("b", "n", "1", None)]));
    assert!(refused.unwrap_err().detail.starts_with("item [1]: "));
    assert_eq!((group.next.values, group.next.revision), (0, revision));
}

#[test]
fn only_the_last_of_several_changes_is_stored() {
    let mut group = group();
    apply(&mut group, Op::Write(value("a", "n", "1", None))).unwrap();
    apply(&mut group, Op::Write(value("a", "n", "2", None))).unwrap();
    apply(&mut group, Op::Write(value("a", "m", "3", None))).unwrap();
    apply(&mut group, Op::Delete { name: name("a"), node: Some(node("m")) }).unwrap();
    let stored: Vec<&str> = group.stored().iter().map(|entry| entry.text()).collect();
    assert_eq!(stored, ["2"]);
    assert_eq!(group.removed().len(), 1);
    apply(&mut group, Op::Write(value("a", "m", "4", None))).unwrap();
    assert_eq!((group.stored().len(), group.removed().len()), (2, 0));
    let revisions: Vec<u64> = group.changes.iter().map(Change::revision).collect();
    assert_eq!(revisions, [11, 12, 13, 14, 15], "without gaps, since watchers count on it");
}

#[test]
fn a_binding_serves_what_its_target_has_from_then_on() {
    let mut group = group();
    apply(&mut group, Op::Write(value("v1", "n", "1", None))).unwrap();
    apply(&mut group, Op::Write(value("v2", "n", "2", None))).unwrap();
    apply(&mut group, Op::Bind { name: name("c"), to: name("v1") }).unwrap();
    assert_eq!(text(&group, "c", "n").as_deref(), Some("1"));
    apply(&mut group, Op::Write(value("v1", "n", "11", None))).unwrap();
    assert_eq!(text(&group, "c", "n").as_deref(), Some("11"));
    apply(&mut group, Op::Bind { name: name("c"), to: name("v2") }).unwrap();
    assert_eq!(text(&group, "c", "n").as_deref(), Some("2"));
    apply(&mut group, Op::Delete { name: name("v2"), node: None }).unwrap();
    assert_eq!(text(&group, "c", "n"), None);
    assert_eq!(group.next.values, 1, "a binding has no values of its own");
    apply(&mut group, Op::Unbind { name: name("c") }).unwrap();
    assert_eq!(apply(&mut group, Op::Unbind { name: name("c") }).unwrap_err().status, 404);
}

#[test]
fn bindings_that_cannot_be_are_refused() {
    let mut group = group();
    apply(&mut group, Op::Write(value("own", "n", "1", None))).unwrap();
    apply(&mut group, Op::Bind { name: name("b"), to: name("a") }).unwrap();
    for (of, to) in [("x", "x"), ("x", "b"), ("a", "x"), ("own", "a")] {
        let refused = apply(&mut group, Op::Bind { name: name(of), to: name(to) });
        assert_eq!(refused.unwrap_err().status, 409, "{of} to {to}");
    }
}

#[test]
fn a_lost_node_comes_back_with_what_was_known_of_it() {
    let mut group = group();
    for (of, on) in [("a", "n"), ("b", "n"), ("a", "m")] {
        apply(&mut group, Op::Write(value(of, on, "1", None))).unwrap();
    }
    apply(&mut group, Op::Write(failure("b", "n", None))).unwrap();
    apply(&mut group, Op::MarkNode { node: node("n"), lost: true }).unwrap();
    assert_eq!(state(&group, "a", "n"), Some(State::NodeLost));
    assert_eq!(state(&group, "a", "m"), Some(State::Fresh));
    apply(&mut group, Op::MarkNode { node: node("n"), lost: false }).unwrap();
    assert_eq!((state(&group, "a", "n"), state(&group, "b", "n")), (Some(State::Fresh), Some(State::Failed)));
}

#[test]
fn history_is_kept_of_every_value_until_it_is_deleted() {
    let mut group = group();
    let retention = Retention::from([(name("a"), History { keep: None, max: Some(9) })]);
    for (of, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
        group.apply(&Op::Write(value(of, "n", text, None)), &retention).unwrap();
    }
    let past = |group: &Group| group.past.iter().map(|entry| entry.text().to_owned()).collect::<Vec<_>>();
    assert_eq!(past(&group), ["1", "3"]);
    group.apply(&Op::Delete { name: name("a"), node: Some(node("n")) }, &retention).unwrap();
    group.apply(&Op::Write(value("a", "n", "4", None)), &retention).unwrap();
    assert_eq!(past(&group), ["4"]);
}

#[test]
fn whoever_holds_a_snapshot_sees_it_as_it_was() {
    let mut first = group();
    for on in ["m", "n"] {
        apply(&mut first, Op::Write(value("a", on, "1", None))).unwrap();
    }
    apply(&mut first, Op::Bind { name: name("b"), to: name("a") }).unwrap();
    first.settle();
    let held = first.next.clone();
    let shown = |snapshot: &Snapshot, of: &str| {
        let array = snapshot.table(of).unwrap().array();
        array
            .windows(13)
            .filter(|w| w.starts_with(b"\"dataValue\":"))
            .map(|w| char::from(w[12]))
            .collect::<String>()
    };
    assert_eq!((shown(&held, "a"), shown(&held, "b")), ("11".to_owned(), "11".to_owned()));

    let mut second = Group::new(&held, 2_000);
    for (on, text) in [("m", "2"), ("n", "2"), ("m", "3")] {
        apply(&mut second, Op::Write(value("a", on, text, None))).unwrap();
    }
    assert_eq!(shown(&held, "a"), "11", "nothing is shown before it is settled");
    let slots = second.settle();
    assert_eq!((shown(&held, "a"), shown(&held, "b")), ("11".to_owned(), "11".to_owned()));
    assert_eq!((shown(&second.next, "a"), shown(&second.next, "b")), ("32".to_owned(), "32".to_owned()));
    assert_eq!(held.get("a", "m").unwrap().text(), "1");

    slots.iter().for_each(|slot| slot.forget(held.revision));
    assert_eq!(held.get("a", "m").unwrap().text(), "1", "somebody still looks");
    slots.iter().for_each(|slot| slot.forget(second.next.revision));
    assert_eq!(second.next.get("a", "m").unwrap().text(), "3");
}
