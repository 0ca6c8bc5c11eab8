//! `compare`: what several data names say of the same nodes, side by side.
//!
//! All of them are read in one request, so that what stands side by side is one snapshot. The past comes from
//! histories, of the names that keep one. The arithmetic is in `figures`.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;
use estimand_api::value::{Binding, State, Value};
use estimand_client::{HistoryQuery, Query};
use serde::Serialize;
use serde_json::Value as Json;

use super::Session;
use crate::arguments::data::CompareArgs;
use crate::output::failure::Failure;
use crate::output::remark;
use figures::{NoShares, Past};

mod figures;
mod shown;

/// Where the number stands in objects, unless somebody says otherwise.
const DEFAULT_FIELD: &str = "/value";
/// How many values of the past are read of a column: as many as the service gives at once.
const MAX_PAST: u32 = 100_000;

/// The output of `--json`; `estimand compare --help` describes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    name: DataName,
    /// The data name that the name serves, if it is bound.
    bound_to: Option<DataName>,
    /// That of the snapshot.
    revision: u64,
    /// From when on the past is summed up.
    since: String,
    columns: Vec<Column>,
    pairs: Vec<Pair>,
}

/// The values of one data name for all nodes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Column {
    data_name: DataName,
    /// It is the one that the name serves.
    serves: bool,
    /// Where the number stands in values that are objects.
    field: Pointer,
    no_shares: Option<NoShares>,
    history_kept: bool,
    /// There was more of it than is read at once; only the newest was.
    history_cut: bool,
    /// In the order of their names; the same nodes in every column.
    nodes: Vec<NodeEntry>,
}

/// The value of one data name for one node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeEntry {
    node_name: NodeName,
    value: Option<Json>,
    number: Option<f64>,
    spread: Option<f64>,
    samples: Option<f64>,
    state: Option<State>,
    share: Option<f64>,
    past: Option<Past>,
}

/// How far two columns are apart.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pair {
    a: DataName,
    b: DataName,
    total_variation: Option<f64>,
    kendall_tau: Option<f64>,
    same_order: Option<bool>,
    nodes_in_both: usize,
    nodes: Vec<Difference>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    node_name: NodeName,
    /// The share by `b` less that by `a`.
    difference: Option<f64>,
}

/// The past of one column.
#[derive(Debug, Default)]
struct ColumnPast {
    is_kept: bool,
    is_cut: bool,
    by_node: BTreeMap<NodeName, Past>,
}

pub async fn compare(session: &mut Session, args: &CompareArgs) -> Result<(), Failure> {
    let names = &args.columns;
    if let Some((_, twice)) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)) {
        return Err(Failure::Usage(format!("`{twice}` is named twice")));
    }
    let bindings = session.client.bindings().await?;
    let binding = bindings.iter().find(|binding| binding.data_name == args.name);
    let field = match (&args.field, binding.and_then(|binding| binding.field.as_ref())) {
        (Some(field), _) | (None, Some(field)) => field.clone(),
        (None, None) => Pointer::parse(DEFAULT_FIELD).map_err(|e| Failure::Usage(e.to_string()))?,
    };
    let query = Query { names: names.clone(), ..Query::default() };
    let (values, revision) = session.client.values(&query).await?;
    if values.is_empty() {
        return Err(Failure::Missing("there are no values of these names".to_owned()));
    }
    let mut kept = Vec::new();
    for name in names {
        kept.push(past(session, name, &bindings, &args.since, &field).await?);
    }
    let columns = columns(names, &values, &kept, binding, &field);
    let pairs = pairs(&columns);
    let bound_to = binding.map(|binding| binding.to.clone());
    let since = args.since.clone();
    let comparison = Comparison { name: args.name.clone(), bound_to, revision, since, columns, pairs };
    if session.out.json {
        return Ok(session.out.pretty(&comparison)?);
    }
    shown::show(&mut session.out, &comparison)?;
    shown::remarks(&comparison).iter().for_each(|text| remark(text));
    Ok(())
}

/// Reads the history of a column and sums it up.
async fn past(
    session: &Session,
    name: &DataName,
    bindings: &[Binding],
    since: &str,
    field: &Pointer,
) -> Result<ColumnPast, Failure> {
    // The past of a bound name is that of the name it leads to.
    let bound = bindings.iter().find(|binding| binding.data_name == *name);
    let of = bound.map_or(name, |binding| &binding.to);
    if !session.client.retention().await?.contains_key(of) {
        return Ok(ColumnPast::default());
    }
    let query =
        HistoryQuery { since: Some(since.to_owned()), limit: Some(MAX_PAST), ..HistoryQuery::default() };
    let values = session.client.history(name, &query).await?;
    let is_cut = values.len() as u64 >= u64::from(MAX_PAST);
    let mut numbers: BTreeMap<NodeName, Vec<f64>> = BTreeMap::new();
    for value in values {
        if let Some(number) = figures::number(&value.data_value, field) {
            numbers.entry(value.node_name).or_default().push(number);
        }
    }
    let summed_up = numbers.into_iter().filter_map(|(node, numbers)| Some((node, figures::past(numbers)?)));
    Ok(ColumnPast { is_kept: true, is_cut, by_node: summed_up.collect() })
}

fn columns(
    names: &[DataName],
    values: &[Value],
    kept: &[ColumnPast],
    binding: Option<&Binding>,
    field: &Pointer,
) -> Vec<Column> {
    // Histories of nodes that have no value now are compared as well.
    let past = kept.iter().flat_map(|kept| kept.by_node.keys());
    let nodes: BTreeSet<&NodeName> = values.iter().map(|value| &value.node_name).chain(past).collect();
    let column = |(name, kept): (&DataName, &ColumnPast)| {
        let own = values.iter().filter(|value| value.data_name == *name);
        let of_node: BTreeMap<&NodeName, &Value> = own.map(|value| (&value.node_name, value)).collect();
        let number = |node: &NodeName| figures::number(&of_node.get(node)?.data_value, field);
        let numbers: Vec<Option<f64>> = nodes.iter().map(|node| number(node)).collect();
        let shares = figures::shares(&numbers);
        let one = |(place, node): (usize, &&NodeName)| {
            let value = of_node.get(*node);
            let beside = |field: &str| value?.data_value.get(field)?.as_f64();
            NodeEntry {
                node_name: (*node).clone(),
                value: value.map(|value| value.data_value.clone()),
                number: numbers[place],
                spread: beside("spread"),
                samples: beside("samples"),
                state: value.map(|value| value.state),
                share: shares.as_ref().ok().map(|shares| shares[place]),
                past: kept.by_node.get(*node).copied(),
            }
        };
        Column {
            data_name: name.clone(),
            serves: binding.is_some_and(|binding| binding.to == *name),
            field: field.clone(),
            no_shares: shares.as_ref().err().copied(),
            history_kept: kept.is_kept,
            history_cut: kept.is_cut,
            nodes: nodes.iter().enumerate().map(one).collect(),
        }
    };
    names.iter().zip(kept).map(column).collect()
}

/// Each two columns, once.
fn pairs(columns: &[Column]) -> Vec<Pair> {
    let pair = |a: &Column, b: &Column| {
        let shares =
            |column: &Column| column.nodes.iter().map(|node| node.share).collect::<Option<Vec<f64>>>();
        let differences = shares(a).zip(shares(b)).map(|(one, other)| figures::differences(&one, &other));
        let numbers = |column: &Column| column.nodes.iter().map(|node| node.number).collect::<Vec<_>>();
        let order = figures::order(&numbers(a), &numbers(b));
        let of_node = |(place, node): (usize, &NodeEntry)| Difference {
            node_name: node.node_name.clone(),
            difference: differences.as_ref().map(|differences| differences[place]),
        };
        Pair {
            a: a.data_name.clone(),
            b: b.data_name.clone(),
            total_variation: differences.as_deref().map(figures::total_variation),
            kendall_tau: order.tau,
            same_order: order.same,
            nodes_in_both: order.in_both,
            nodes: a.nodes.iter().enumerate().map(of_node).collect(),
        }
    };
    let places = 0..columns.len();
    let all = places.flat_map(|one| (one + 1..columns.len()).map(move |other| (one, other)));
    all.map(|(one, other)| pair(&columns[one], &columns[other])).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
