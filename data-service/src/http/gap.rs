//! The values that readers of a name lose when it is bound to another one: some of them, which is a hint, or all, which
//! is refused.
//!
//! Compared beside the writer, which nothing should hold up; a value that comes or goes meanwhile makes no difference
//! that matters.

use estimand_api::fields::nearest;
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{Problem, kind};
use estimand_api::value::BindingTarget;

use crate::core::entry::Entry;
use crate::core::snapshot::Snapshot;

/// How many nodes a hint names.
const MAX_NODES_NAMED: usize = 5;

/// Refuses to bind a name that serves values to one that has none. The registry is not asked whether something will write
/// that one; a change that is wrong for another reason is left to the writer to reject.
pub fn refuse_to_empty(
    snapshot: &Snapshot,
    name: &DataName,
    then: Option<&BindingTarget>,
    from: Option<&DataName>,
) -> Result<(), Problem> {
    let (Some(then), Some(bound)) = (then, snapshot.bindings().get(name)) else { return Ok(()) };
    let is_rejected = from.is_some_and(|from| *from != bound.served.to)
        || then.to == *name
        || snapshot.bindings().contains_key(&then.to);
    if is_rejected || bound.served == *then || nodes(snapshot, then).next().is_some() {
        return Ok(());
    }
    let lost = match nodes(snapshot, &bound.served).count() {
        0 => return Ok(()),
        1 => "the value of 1 node".to_owned(),
        many => format!("the values of {many} nodes"),
    };
    let has_values = snapshot.table(then.to.as_str()).is_some_and(|table| !table.is_empty());
    let known = snapshot.own_names().into_iter().map(DataName::as_str);
    let meant = match nearest(then.to.as_str(), known).filter(|_| !has_values) {
        Some(near) => format!("; is it `{near}`?"),
        None => ";".to_owned(),
    };
    let detail = format!(
        "there is no {}, so readers of `{name}` would lose {lost}{meant} `force` binds it all the same",
        value_of(then)
    );
    Err(Problem::new(409, kind::SERVES_NOTHING, "The name would serve nothing", detail))
}

/// A hint for the operator if a name that serves `now` serves fewer nodes than it did by `until_now`, or none
/// at all. Goes through both in step, since there may be many of them.
pub fn gap(
    snapshot: &Snapshot,
    name: &DataName,
    now: &BindingTarget,
    until_now: Option<&BindingTarget>,
) -> Option<String> {
    let mut there = nodes(snapshot, now).peekable();
    let serves_some = there.peek().is_some();
    let mut before = 0;
    let mut missing = 0;
    let mut named = Vec::new();
    for node in until_now.into_iter().flat_map(|served| nodes(snapshot, served)) {
        while there.next_if(|other| *other < node).is_some() {}
        before += 1;
        if there.peek() != Some(&node) {
            missing += 1;
            if named.len() < MAX_NODES_NAMED {
                named.push(node.to_string());
            }
        }
    }
    let more =
        if missing > named.len() { format!(" and {} more", missing - named.len()) } else { String::new() };
    let named = format!("({}{more})", named.join(", "));
    let what = value_of(now);
    match (serves_some, missing) {
        (true, 0) => None,
        (true, _) => Some(format!(
            "nodes that have no {what} but had one under `{name}`: {missing} of {before} {named}"
        )),
        (false, 0) => Some(format!("there is no {what} yet, so `{name}` has none either")),
        (false, _) => Some(format!(
            "there is no {what}, so `{name}` has none any more; nodes that had one: {missing} {named}"
        )),
    }
}

/// A header is ASCII, and a pointer need not be.
fn value_of(BindingTarget { to, field }: &BindingTarget) -> String {
    let field = field.as_ref().map(|field| format!(" with `{}`", field.as_str().escape_default()));
    format!("value of `{to}`{}", field.unwrap_or_default())
}

/// The nodes that have a value with the served part, in order.
fn nodes<'s>(snapshot: &'s Snapshot, served: &'s BindingTarget) -> impl Iterator<Item = NodeName> + use<'s> {
    let entries = snapshot.table(served.to.as_str()).into_iter().flat_map(|values| values.entries());
    let has_part =
        |entry: &Entry| served.field.as_ref().is_none_or(|field| field.find(entry.text()).is_some());
    entries.filter(move |entry| has_part(entry)).map(|entry| entry.facts.node.clone())
}
