use estimand_api::pointer::Pointer;
use estimand_api::value::{BindingTarget, State, SwapAction};
use estimand_api::write::Order;

use super::super::operations::{Bind, Delete, MarkNode, Operation, Retain, RollBack, Unbind};
use super::*;
use crate::http::problems;
use crate::queue::SubmitError;

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

fn served(to: &str, field: Option<&str>) -> BindingTarget {
    BindingTarget { to: name(to), field: field.map(|text| Pointer::parse(text).unwrap()) }
}

fn bound(of: &str, to: &str) -> Bind {
    Bind { name: name(of), served: served(to, None), from: None, by: "me".to_owned() }
}

fn unbound(of: &str) -> Unbind {
    Unbind { name: name(of), by: "me".to_owned() }
}

fn rolled_back(of: &str, from: Option<&str>) -> RollBack {
    RollBack { name: name(of), from: from.map(name), by: "me".to_owned() }
}

fn target(group: &Group, of: &str) -> Option<String> {
    group.next.bindings().get(&name(of)).map(|bound| bound.served.to.to_string())
}

/// A group over nothing.
fn group() -> Group {
    Group::new(&Snapshot::empty(10), 1_000)
}

#[allow(clippy::needless_pass_by_value)] // Every operation is written where it is applied.
fn apply<O: Operation>(group: &mut Group, operation: O) -> Result<O::Reply, Rejection> {
    operation.apply(group, &Retention::new())
}

/// The status of a rejection over HTTP.
fn status(rejection: &Rejection) -> u16 {
    problems::of_submit(SubmitError::Rejected(rejection.clone())).status
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
        apply(&mut group, value("a", "n", &format!("\"{text}\""), Some(order))).unwrap();
    }
    assert_eq!(text(&group, "a", "n").as_deref(), Some("\"new\""));
    assert_eq!(group.changes.len(), 1);
    // A plain write takes the order of arrival, and does not let an old delivery back in.
    apply(&mut group, value("a", "n", "1", None)).unwrap();
    apply(&mut group, value("a", "n", "2", Some((2, 5)))).unwrap();
    assert_eq!(text(&group, "a", "n").as_deref(), Some("1"));
}

#[test]
fn a_failure_keeps_the_last_good_value_and_an_old_one_is_ignored() {
    let mut group = group();
    assert!(matches!(
        apply(&mut group, failure("a", "n", None)),
        Ok(WriteReceipt { outcome: Outcome::NoValue, .. })
    ));
    apply(&mut group, value("a", "n", "1", Some((1, 2)))).unwrap();
    apply(&mut group, failure("a", "n", Some((1, 1)))).unwrap();
    assert_eq!(state(&group, "a", "n"), Some(State::Fresh));
    apply(&mut group, failure("a", "n", Some((1, 3)))).unwrap();
    assert_eq!(
        (state(&group, "a", "n"), text(&group, "a", "n")),
        (Some(State::Failed), Some("1".to_owned()))
    );
    apply(&mut group, value("a", "n", "2", Some((1, 3)))).unwrap();
    assert_eq!(text(&group, "a", "n").as_deref(), Some("1"), "the run that failed brings no value later");
    apply(&mut group, value("a", "n", "2", Some((1, 4)))).unwrap();
    assert_eq!(state(&group, "a", "n"), Some(State::Fresh));
}

#[test]
fn a_batch_with_one_bound_name_does_nothing() {
    let mut group = group();
    apply(&mut group, bound("b", "a")).unwrap();
    let revision = group.next.revision;
    let refused = apply(&mut group, vec![value("a", "n", "1", None), value("b", "n", "1", None)]);
    assert!(refused.unwrap_err().to_string().starts_with("item [1]: "));
    assert_eq!((group.next.values, group.next.revision), (0, revision));
}

#[test]
fn only_the_last_of_several_changes_is_stored() {
    let mut group = group();
    apply(&mut group, value("a", "n", "1", None)).unwrap();
    apply(&mut group, value("a", "n", "2", None)).unwrap();
    apply(&mut group, value("a", "m", "3", None)).unwrap();
    apply(&mut group, Delete { name: name("a"), node: Some(node("m")) }).unwrap();
    let stored: Vec<&str> = group.stored().iter().map(|entry| entry.text()).collect();
    assert_eq!(stored, ["2"]);
    assert_eq!(group.removed().len(), 1);
    apply(&mut group, value("a", "m", "4", None)).unwrap();
    assert_eq!((group.stored().len(), group.removed().len()), (2, 0));
    let revisions: Vec<u64> = group.changes.iter().map(Change::revision).collect();
    assert_eq!(revisions, [11, 12, 13, 14, 15], "without gaps, since watchers count on it");
}

#[test]
fn a_binding_serves_what_its_target_has_from_then_on() {
    let mut group = group();
    apply(&mut group, value("v1", "n", "1", None)).unwrap();
    apply(&mut group, value("v2", "n", "2", None)).unwrap();
    apply(&mut group, bound("c", "v1")).unwrap();
    assert_eq!(text(&group, "c", "n").as_deref(), Some("1"));
    apply(&mut group, value("v1", "n", "11", None)).unwrap();
    assert_eq!(text(&group, "c", "n").as_deref(), Some("11"));
    apply(&mut group, bound("c", "v2")).unwrap();
    assert_eq!(text(&group, "c", "n").as_deref(), Some("2"));
    apply(&mut group, Delete { name: name("v2"), node: None }).unwrap();
    assert_eq!(text(&group, "c", "n"), None);
    assert_eq!(group.next.values, 1, "a binding has no values of its own");
    apply(&mut group, unbound("c")).unwrap();
    assert_eq!(apply(&mut group, unbound("c")), Err(Rejection::NotBound(name("c"))));
}

#[test]
fn bindings_that_cannot_be_are_refused() {
    let mut group = group();
    apply(&mut group, value("own", "n", "1", None)).unwrap();
    apply(&mut group, bound("b", "a")).unwrap();
    for (of, to) in [("x", "x"), ("x", "b"), ("a", "x"), ("own", "a")] {
        let refused = apply(&mut group, bound(of, to));
        assert_eq!(status(&refused.unwrap_err()), 409, "{of} to {to}");
    }
}

#[test]
fn a_rollback_goes_to_what_was_served_before_and_twice_is_back_again() {
    let mut group = group();
    let rolled =
        |group: &mut Group| apply(group, rolled_back("c", None)).map_err(|rejection| status(&rejection));
    assert_eq!(rolled(&mut group).unwrap_err(), 404, "never bound");
    apply(&mut group, bound("c", "v1")).unwrap();
    assert_eq!(rolled(&mut group).unwrap_err(), 409, "never anything else");
    apply(&mut group, bound("c", "v2")).unwrap();
    apply(&mut group, bound("c", "v3")).unwrap();
    for expected in ["v2", "v3", "v2"] {
        rolled(&mut group).unwrap();
        assert_eq!(target(&group, "c").as_deref(), Some(expected));
    }
    apply(&mut group, unbound("c")).unwrap();
    rolled(&mut group).unwrap();
    assert_eq!(target(&group, "c").as_deref(), Some("v2"), "what was served at last");
    rolled(&mut group).unwrap();
    assert_eq!(target(&group, "c").as_deref(), Some("v3"), "and before that");
    // Bound again to its last target, a name has served something else before that.
    apply(&mut group, unbound("c")).unwrap();
    apply(&mut group, bound("c", "v3")).unwrap();
    rolled(&mut group).unwrap();
    assert_eq!(target(&group, "c").as_deref(), Some("v2"));
    // A target that could not be bound cannot be rolled back to either.
    apply(&mut group, bound("v3", "v4")).unwrap();
    assert_eq!(rolled(&mut group).unwrap_err(), 409);

    use SwapAction::{Bound, RolledBack, Unbound};
    let noted: Vec<SwapAction> =
        group.swaps.iter().filter(|swap| swap.name == name("c")).map(|swap| swap.action).collect();
    let back = RolledBack;
    assert_eq!(noted, [Bound, Bound, Bound, back, back, back, Unbound, back, back, Unbound, Bound, back]);
    assert_eq!(group.swaps[0].before, None);
    assert_eq!(group.swaps[2].before, Some(served("v2", None)));
}

#[test]
fn a_swap_by_somebody_who_believes_otherwise_is_refused() {
    let mut group = group();
    let from = |to: &str, from: &str| {
        let served = served(to, Some("/value"));
        Bind { name: name("c"), served, from: Some(name(from)), by: "me".to_owned() }
    };
    assert_eq!(status(&apply(&mut group, from("v1", "v0")).unwrap_err()), 409, "it is not bound at all");
    apply(&mut group, bound("c", "v1")).unwrap();
    apply(&mut group, from("v2", "v1")).unwrap();
    let revision = group.next.revision;
    apply(&mut group, from("v2", "v1")).unwrap();
    assert_eq!(group.next.revision, revision, "the same sent twice is done once");
    assert_eq!(status(&apply(&mut group, from("v3", "v1")).unwrap_err()), 409);
    assert_eq!(status(&apply(&mut group, rolled_back("c", Some("v1"))).unwrap_err()), 409);
    apply(&mut group, rolled_back("c", Some("v2"))).unwrap();
    assert_eq!(target(&group, "c").as_deref(), Some("v1"));
}

#[test]
fn another_field_of_the_same_name_is_another_binding() {
    let mut group = group();
    apply(&mut group, value("v", "n", r#"{"a":1,"b":{"c":2.50}}"#, None)).unwrap();
    apply(&mut group, value("v", "m", "7", None)).unwrap();
    let mut shown = |field: Option<&str>| {
        let served = served("v", field);
        let op = Bind { name: name("c"), served, from: None, by: "me".to_owned() };
        apply(&mut group, op).unwrap();
        group.settle();
        let table = group.next.table("c").unwrap();
        table.all().map(|shown| shown.text().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(Some("/a")), ["1"], "a value without the field is not there");
    assert_eq!(shown(Some("/b/c")), ["2.50"]);
    assert_eq!(shown(None), ["7", r#"{"a":1,"b":{"c":2.50}}"#]);
    apply(&mut group, rolled_back("c", None)).unwrap();
    assert_eq!(group.next.bindings().get(&name("c")).unwrap().served, served("v", Some("/b/c")));
}

#[test]
fn a_lost_node_comes_back_with_what_was_known_of_it() {
    let mut group = group();
    for (of, on) in [("a", "n"), ("b", "n"), ("a", "m")] {
        apply(&mut group, value(of, on, "1", None)).unwrap();
    }
    apply(&mut group, failure("b", "n", None)).unwrap();
    apply(&mut group, MarkNode { node: node("n"), lost: true }).unwrap();
    assert_eq!(state(&group, "a", "n"), Some(State::NodeLost));
    assert_eq!(state(&group, "a", "m"), Some(State::Fresh));
    apply(&mut group, MarkNode { node: node("n"), lost: false }).unwrap();
    assert_eq!((state(&group, "a", "n"), state(&group, "b", "n")), (Some(State::Fresh), Some(State::Failed)));
}

#[test]
fn history_is_kept_of_every_value_until_it_is_deleted() {
    let mut group = group();
    let retention = Retention::from([(name("a"), History { keep: None, max: Some(9) })]);
    for (of, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
        value(of, "n", text, None).apply(&mut group, &retention).unwrap();
    }
    let past = |group: &Group| group.past.iter().map(|entry| entry.text().to_owned()).collect::<Vec<_>>();
    assert_eq!(past(&group), ["1", "3"]);
    Delete { name: name("a"), node: Some(node("n")) }.apply(&mut group, &retention).unwrap();
    value("a", "n", "4", None).apply(&mut group, &retention).unwrap();
    assert_eq!(past(&group), ["4"]);
}

#[test]
fn a_history_begins_with_the_value_that_is_there() {
    let mut group = group();
    let (none, kept) = (Retention::new(), History { keep: None, max: Some(9) });
    for (of, on, text) in [("a", "m", "1"), ("a", "n", "2"), ("b", "n", "3"), ("a", "n", "4")] {
        value(of, on, text, None).apply(&mut group, &none).unwrap();
    }
    let retention = Retention::from([(name("a"), kept), (name("c"), kept)]);
    Retain(retention.clone()).apply(&mut group, &none).unwrap();
    let texts = |entries: &[Entry]| {
        let mut texts: Vec<_> = entries.iter().map(|entry| entry.text().to_owned()).collect();
        texts.sort_unstable();
        texts
    };
    assert_eq!((texts(&group.first), texts(&group.past)), (vec!["1".into(), "4".into()], vec![]));
    Retain(retention).apply(&mut group, &none).unwrap();
    value("a", "n", "5", None).apply(&mut group, &none).unwrap();
    assert_eq!((texts(&group.first), texts(&group.past)), (vec!["1".into(), "4".into()], vec!["5".into()]));
    Delete { name: name("a"), node: Some(node("n")) }.apply(&mut group, &none).unwrap();
    assert_eq!((texts(&group.first), texts(&group.past)), (vec!["1".into()], vec![]));
}

#[test]
fn whoever_holds_a_snapshot_sees_it_as_it_was() {
    let mut first = group();
    for on in ["m", "n"] {
        apply(&mut first, value("a", on, "1", None)).unwrap();
    }
    apply(&mut first, bound("b", "a")).unwrap();
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
        apply(&mut second, value("a", on, text, None)).unwrap();
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

#[test]
fn an_order_that_was_never_given_keeps_nothing_away_for_long() {
    let highest = Some((i64::MAX as u64, i64::MAX as u64));
    let mut first = group();
    apply(&mut first, value("a", "n", "\"pinned\"", highest)).unwrap();
    apply(&mut first, value("of_nobody", "n", "\"pinned\"", highest)).unwrap();
    first.settle();
    let pinned = first.next.revision;
    let after = |settled: u64, given: u64, writes: &[Write]| {
        let epochs = GivenEpochs::new(BTreeMap::from([(name("a"), given)]), settled);
        let mut group = Group::under(&first.next, Arc::new(epochs), 2_000);
        let outcomes: Vec<_> =
            writes.iter().map(|write| group.write(write, &Retention::new()).unwrap().outcome).collect();
        (outcomes, group.superseded)
    };
    let own = value("a", "n", "1", Some((7, 1)));
    // While the manager may not know of it, it may be one that was given just now.
    assert_eq!(after(pinned - 2, 7, std::slice::from_ref(&own)), (vec![Outcome::Superseded], 1));
    let again = [own.clone(), own.clone(), value("a", "n", "0", Some((6, 9)))];
    let outcomes = vec![Outcome::Replaced, Outcome::Superseded, Outcome::Superseded];
    assert_eq!(after(pinned, 7, &again), (outcomes, 1), "the same write once more is no older one");
    assert_eq!(after(pinned, i64::MAX as u64, &[own]), (vec![Outcome::Superseded], 1), "it was given");
    assert_eq!(after(pinned, 7, &[failure("a", "n", Some((7, 1)))]).0, [Outcome::Replaced]);
    let unknown = value("of_nobody", "n", "1", Some((7, 1)));
    assert_eq!(after(pinned, 7, &[unknown]).0, [Outcome::Superseded], "nobody says what was given");
    // A plain write does not hand it on.
    let plain_first = [value("a", "n", "1", None), value("a", "n", "2", Some((1, 1)))];
    assert_eq!(after(pinned, 7, &plain_first).0, [Outcome::Replaced, Outcome::Replaced]);
}
