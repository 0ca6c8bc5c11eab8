//! Reads: one look into the published snapshot, then the bytes of what is there.
//!
//! Nothing here waits for a writer, a database or another reader. The reader says which values are good
//! enough (`state`, `maxAge`, `where`); without a say everything comes, with its state. A part of a value (`field`) is
//! cut out of its text.

use actix_web::body::BoxBody;
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::condition::Condition;
use estimand_api::duration::SpanText;
use estimand_api::names::DataName;
use estimand_api::order::{Rank, ValueOrder};
use estimand_api::pointer::Pointer;
use estimand_api::problem::Problem;
use estimand_api::selector::ReadSelector;
use estimand_api::value::Value as StoredValue;
use estimand_web::{Body, Failure, Query, ResponseBudget, User, has_already, set_digest, wants_lines};

use crate::DataService;
use crate::core::view::ShownValue;
use crate::http::asked::{
    self, Filter, LISTS, Limit, NodeNames, PARAMETERS, Question, States, field_of, limit_of, named_nodes,
    nodes_of,
};
use crate::http::names::{AskedNames, Names};
use crate::http::node_labels::NodeChoice;
use crate::http::rendered::{
    EMPTY, JSON, LINES, array_of, hint, joined_tables, json, lines_of, respond_with, whole_table,
};

/// Room for the names of very many nodes.
const MAX_QUESTION_BYTES: usize = 2 * 1024 * 1024;

/// Values by name, all of one snapshot.
///
/// Several names with commas come from the same revision; `*` is every name that has values of its own, and a `*` in a
/// name stands for any text. A parameter that takes a list may be given several times. If nothing was found for a reason
/// that is known, `Estimand-Hint` says it.
#[utoipa::path(
    get,
    path = "/api/data",
    tag = "data",
    params(
        ("dataName" = Names, Query, description = "One name, several with commas, patterns such as `cpu*`, or `*`"),
        ("dataNode" = Option<NodeNames>, Query, description = "Only values of this node, or of several with commas; also spelt `nodeName`"),
        ("nodes" = Option<ReadSelector>, Query, description = "Only values of nodes with these labels, e.g. `zone=a,gpu`"),
        ("state" = Option<States>, Query, description = "Only values in one of these states, with commas"),
        ("maxAge" = Option<SpanText>, Query, description = "Only values collected no longer ago, e.g. `5s`"),
        ("where" = Option<Condition>, Query, description = "Only values for which this holds, e.g. `value>0.9` or `/one>2,/state=up`"),
        ("field" = Option<Pointer>, Query, description = "Only this part of each value, a JSON pointer such as `/value`; values without it are left out"),
        ("sort" = Option<ValueOrder>, Query, description = "The values in this order: by the number or text at a JSON pointer such as `/one`, or by the `value` itself; with `-` before it the greatest first. Values without one come last"),
        ("limit" = Option<Limit>, Query, description = "At most so many values, the first ones"),
    ),
    responses(
        (status = 200, description = "The values, `[]` if there are none; the header `Estimand-Revision` says of which revision. With `Accept: application/x-ndjson` a value a line", body = [StoredValue]),
        (status = 304, description = "They are what `If-None-Match` says"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn read(
    req: HttpRequest,
    service: ThinData<DataService>,
    budget: ThinData<ResponseBudget>,
) -> Result<HttpResponse, Failure> {
    let query = Query::with_lists(req.query_string(), &PARAMETERS, &LISTS)?;
    answer(&req, &service, &budget, |name| query.get(name))
}

/// Values by name, for questions that are too long for the URL of `GET /api/data`.
///
/// The parameters are the fields of the body. Nothing is changed.
#[utoipa::path(
    post,
    path = "/api/data/query",
    tag = "data",
    request_body(content = Question, description = "The parameters; at most 2 MiB"),
    responses(
        (status = 200, description = "The values, `[]` if there are none; the header `Estimand-Revision` says of which revision. With `Accept: application/x-ndjson` a value a line", body = [StoredValue]),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn query(
    req: HttpRequest,
    body: Body<MAX_QUESTION_BYTES>,
    service: ThinData<DataService>,
    budget: ThinData<ResponseBudget>,
) -> Result<HttpResponse, Failure> {
    let parameters = body.parse(asked::parameters).await?;
    answer(&req, &service, &budget, |name| parameters.get(name).map(String::as_str))
}

fn answer<'q>(
    req: &HttpRequest,
    service: &DataService,
    budget: &ResponseBudget,
    asked: impl Fn(&str) -> Option<&'q str>,
) -> Result<HttpResponse, Failure> {
    let named = named_nodes(asked("dataNode"), asked("nodeName"))?;
    let filter = Filter::of(service, asked("state"), asked("maxAge"), asked("where"))?;
    let snapshot = service.snapshot()?;
    let in_lines = wants_lines(req);
    let plain = !in_lines && ["nodes", "field", "sort", "limit"].iter().all(|name| asked(name).is_none());
    if let Some(name) =
        asked("dataName").filter(|name| plain && filter.takes_all() && DataName::is_valid(name))
    {
        let body = match (snapshot.table(name), &named) {
            (None, _) => EMPTY,
            (Some(table), None) => return Ok(whole_table(req, &snapshot, table)),
            (Some(table), Some(named)) => array_of(named.iter().filter_map(|node| table.shown(node))),
        };
        return Ok(json(&snapshot, body));
    }
    let names = AskedNames::parse(asked("dataName"))?;
    let field = field_of(asked("field"))?;
    let order = asked("sort").map(ValueOrder::parse).transpose();
    let order = order.map_err(|error| Problem::invalid_field(error.at("sort")))?;
    let limit = asked("limit").map_or(Ok(usize::MAX), limit_of)?;
    let choice = nodes_of(service, asked("nodes"))?;
    let chosen = choice.as_ref().map(NodeChoice::nodes);
    if plain && named.is_none() && filter.takes_all() {
        let tables = names.of(&snapshot).into_iter().filter_map(|name| snapshot.table(name));
        let (pieces, digest) = joined_tables(req, tables);
        let is_empty = pieces.iter().map(Bytes::len).sum::<usize>() == EMPTY.len();
        // An answer that the caller has already takes no room among the large responses.
        let body = if digest.is_some_and(|digest| has_already(req, &digest)) {
            BoxBody::new(())
        } else {
            budget.body(User::of(req).as_ref(), pieces)?
        };
        let mut response = respond_with(&snapshot, JSON, body);
        digest.into_iter().for_each(|digest| set_digest(&mut response, digest));
        hint(&mut response, if is_empty { names.hint(&snapshot) } else { None });
        return Ok(response);
    }
    let mut found = Vec::new();
    for table in names.of(&snapshot).into_iter().filter_map(|name| snapshot.table(name)) {
        match (&named, chosen) {
            (Some(named), chosen) => {
                let both = named.iter().filter(|node| chosen.is_none_or(|chosen| chosen.contains(**node)));
                found.extend(both.filter_map(|node| table.shown(node)));
            }
            (None, Some(chosen)) => found.extend(chosen.iter().filter_map(|node| table.shown(node.as_str()))),
            (None, None) => found.extend(table.all()),
        }
    }
    let taken = found.into_iter().filter(|shown| filter.takes(shown));
    let shown: Vec<ShownValue<'_>> = match order {
        Some(order) => ordered(&order, taken, field.as_ref()).into_iter().take(limit).collect(),
        None => taken.filter_map(|shown| shown.narrow(field.as_ref())).take(limit).collect(),
    };
    let reason = || choice.as_ref().and_then(NodeChoice::hint).or_else(|| names.hint(&snapshot));
    let reason = if shown.is_empty() { reason() } else { None };
    let mut response = if in_lines {
        respond_with(&snapshot, LINES, budget.body(User::of(req).as_ref(), vec![lines_of(shown)])?)
    } else {
        json(&snapshot, array_of(shown))
    };
    hint(&mut response, reason);
    Ok(response)
}

/// The values in an order, each in the part that is asked for; equal ones stay in theirs.
fn ordered<'s>(
    order: &ValueOrder,
    taken: impl Iterator<Item = ShownValue<'s>>,
    field: Option<&Pointer>,
) -> Vec<ShownValue<'s>> {
    let ranked = taken.filter_map(|shown| Some((order.rank(shown.text()), shown.narrow(field)?)));
    let mut ranked: Vec<(Rank, ShownValue<'s>)> = ranked.collect();
    ranked.sort_by(|(one, _), (other, _)| order.compare(one, other));
    ranked.into_iter().map(|(_, shown)| shown).collect()
}
