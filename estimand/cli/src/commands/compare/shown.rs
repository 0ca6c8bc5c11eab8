//! A comparison for people: a table with a line for each node and name, a sentence for each two names, and
//! remarks about what is not there.

use std::io;

use super::figures::NoShares;
use super::{Column, Comparison, NodeEntry, Pair};
use crate::output::Output;
use crate::output::table::{Cell, Table};
use crate::output::words;

pub fn show(out: &mut Output, comparison: &Comparison) -> io::Result<()> {
    out.table(&table(comparison))?;
    out.line("")?;
    comparison.pairs.iter().try_for_each(|pair| out.line(&sentence(pair)))
}

/// Each node's values stand together, because they are what is compared.
pub fn table(comparison: &Comparison) -> Table {
    let columns = &comparison.columns;
    // The served column is the one that the others would replace.
    let reference = columns.iter().find(|column| column.serves).or(columns.first());
    let mut table = Table::new(["NODE", "NAME", "NOW", "STATE", "SHARE", "APART", "PAST"], 2);
    let count = columns.first().map_or(0, |column| column.nodes.len());
    for place in 0..count {
        let expected = reference.and_then(|column| column.nodes[place].share);
        for (nth, column) in columns.iter().enumerate() {
            let node = &column.nodes[place];
            let is_reference = reference.is_some_and(|reference| reference.data_name == column.data_name);
            let apart = node.share.zip(expected).filter(|_| !is_reference);
            let mark = if column.serves { "*" } else { "" };
            table.row([
                Cell::from(if nth == 0 { node.node_name.as_str() } else { "" }),
                Cell::from(format!("{}{mark}", column.data_name)),
                Cell::from(now(node)),
                node.state.map_or_else(|| Cell::from("none"), words::state),
                Cell::from(node.share.map_or_else(dash, |share| format!("{:.1}%", share * 100.0))),
                Cell::from(apart.map_or_else(dash, |(is, expected)| points(is - expected))),
                Cell::from(past(node)),
            ]);
        }
    }
    table
}

fn dash() -> String {
    "-".to_owned()
}

/// The number with what goes with it; what is no number is shown as it is.
fn now(node: &NodeEntry) -> String {
    match (&node.value, node.number) {
        (None, _) => dash(),
        (Some(value), None) => value.to_string(),
        (Some(_), Some(number)) => with_spread(number, node.spread, node.samples),
    }
}

fn past(node: &NodeEntry) -> String {
    node.past.map_or_else(dash, |past| with_spread(past.mean, past.deviation, Some(past.count as f64)))
}

/// `0.42 ± 0.013 (12)`
fn with_spread(number: f64, spread: Option<f64>, count: Option<f64>) -> String {
    let spread = spread.map(|spread| format!(" ± {}", short(spread))).unwrap_or_default();
    let count = count.map(|count| format!(" ({count})")).unwrap_or_default();
    format!("{}{spread}{count}", short(number))
}

/// Points of a hundred, with a sign.
fn points(difference: f64) -> String {
    let rounded = (difference * 1_000.0).round() / 10.0;
    if rounded == 0.0 { "0.0".to_owned() } else { format!("{rounded:+.1}") }
}

/// A number in four digits that matter.
fn short(number: f64) -> String {
    let magnitude = number.abs();
    if number == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&magnitude) {
        return format!("{number:.3e}");
    }
    let decimals = (3 - magnitude.log10().floor() as i32).clamp(0, 8) as usize;
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// How far two names are apart, as a whole.
pub fn sentence(pair: &Pair) -> String {
    let Pair { a, b, .. } = pair;
    let distance = match pair.total_variation {
        Some(distance) => format!("{:.1}% of all work would go to other nodes", distance * 100.0),
        None => "no shares to compare".to_owned(),
    };
    let order = match (pair.same_order, pair.kendall_tau) {
        (None, _) => format!("{} in both, so no order to compare", words::count(pair.nodes_in_both, "node")),
        (Some(true), _) => "the same order of nodes".to_owned(),
        (Some(false), Some(tau)) => format!("another order of nodes (tau {tau:.2})"),
        (Some(false), None) => "one of them does not order the nodes".to_owned(),
    };
    format!("{a} and {b}: {distance}; {order}")
}

/// Remarks about missing values and histories, and hints.
pub fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    let served = comparison.columns.iter().find(|column| column.serves);
    match (&comparison.bound_to, served) {
        (Some(to), None) => {
            remarks.push(format!("`{}` serves `{to}` now, which is not compared", comparison.name));
        }
        (Some(to), Some(_)) => remarks.push(format!("* `{}` serves `{to}` now", comparison.name)),
        (None, _) => {}
    }
    for column in &comparison.columns {
        remarks.extend(no_shares(column));
    }
    for column in &comparison.columns {
        let name = &column.data_name;
        // A column without values has said so already.
        if column.nodes.iter().all(|node| node.value.is_none() && node.past.is_none()) {
            continue;
        }
        if !column.history_kept {
            remarks.push(format!(
                "no history is kept of `{name}`; a registration with --history, e.g. --history 1h, keeps one"
            ));
        } else if column.history_cut {
            remarks.push(format!("there is more past of `{name}` than was read; a later --since reads less"));
        }
    }
    remarks
}

fn no_shares(column: &Column) -> Option<String> {
    let name = &column.data_name;
    let why = match column.no_shares? {
        NoShares::NoNumbers if column.nodes.iter().all(|node| node.value.is_none()) => {
            return Some(format!("there is no value of `{name}`"));
        }
        NoShares::NoNumbers => {
            format!("there is no number in it, neither as a whole nor at `{}`", column.field)
        }
        NoShares::ZeroSum => "its numbers add up to zero".to_owned(),
        NoShares::Negative => "one of its numbers is negative".to_owned(),
    };
    Some(format!("`{name}` gives no node a share: {why}"))
}
