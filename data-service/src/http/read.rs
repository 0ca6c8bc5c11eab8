//! Reads: one look into the published snapshot, then the bytes of what is there.
//!
//! Nothing here waits for a writer, a database or another reader. The reader says which values are good
//! enough (`state`, `maxAge`); without a say everything comes, with its state. A part of a value (`field`) is
//! cut out of its text.

use actix_web::body::BoxBody;
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::described;
use estimand_api::duration::{Span, SpanText};
use estimand_api::names::{DataName, NodeName};
use estimand_api::order::{Rank, ValueOrder};
use estimand_api::pointer::Pointer;
use estimand_api::problem::{FieldError, Problem, kind};
use estimand_api::schema;
use estimand_api::selector::Selector;
use estimand_api::value::{State, Value as StoredValue};
use estimand_web::{Failure, Query, ResponseBudget, has_already, segment, set_digest, wants_text};
use serde_json::json;

use crate::DataService;
use crate::core::snapshot::Snapshot;
use crate::core::view::ShownValue;
use crate::http::names::{AskedNames, Names};
use crate::http::node_labels::NodeChoice;
use crate::http::rendered::{
    EMPTY, JSON, TEXT, array_of, hint, joined_tables, json, respond, respond_with, whole_table,
};

/// The most values that a query can limit itself to.
const MAX_LIMIT: usize = 1_000_000;
/// How many existing fields an error names when the one asked for is not there.
const MAX_FIELDS_NAMED: usize = 20;

/// The states of a query.
#[derive(Debug)]
pub enum States {}

described!(
    States,
    [],
    schema::text(
        "One or several, with commas, of `fresh`, `stale`, `failed` and `node-lost`",
        "^(fresh|stale|failed|node-lost)(,(fresh|stale|failed|node-lost))*$",
        "fresh,stale"
    )
);

/// The switch of a query that asks for provenance.
#[derive(Debug)]
pub enum Explain {}

described!(Explain, [], json!({ "type": "string", "enum": ["1", "true", "", "0", "false"] }));

/// The limit of a query.
#[derive(Debug)]
pub enum Limit {}

described!(Limit, [], json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT }));

/// The values that a reader takes.
#[derive(Debug, Default)]
struct Filter {
    states: Vec<State>,
    /// Only values known since this instant or later.
    since: Option<i64>,
}

impl Filter {
    fn takes_all(&self) -> bool {
        self.states.is_empty() && self.since.is_none()
    }

    fn takes(&self, shown: &ShownValue<'_>) -> bool {
        let facts = shown.facts();
        (self.states.is_empty() || self.states.contains(&facts.marks.state()))
            && self.since.is_none_or(|since| facts.known_since() >= since)
    }
}

/// Values by name, all of one snapshot.
///
/// Several names with commas come from the same revision; `*` is every name that has values of its own, and a `*` in a
/// name stands for any text. If nothing was found for a reason that is known, `Estimand-Hint` says it.
#[utoipa::path(
    get,
    path = "/api/data",
    tag = "data",
    params(
        ("dataName" = Names, Query, description = "One name, several with commas, patterns such as `cpu*`, or `*`"),
        ("dataNode" = Option<NodeName>, Query, description = "Only the value of this node; also spelt `nodeName`"),
        ("nodes" = Option<Selector>, Query, description = "Only values of nodes with these labels, e.g. `zone=a,gpu`"),
        ("state" = Option<States>, Query, description = "Only values in one of these states, with commas"),
        ("maxAge" = Option<SpanText>, Query, description = "Only values collected no longer ago, e.g. `5s`"),
        ("field" = Option<Pointer>, Query, description = "Only this part of each value, a JSON pointer such as `/value`; values without it are left out"),
        ("sort" = Option<ValueOrder>, Query, description = "The values in this order: by the number or text at a JSON pointer such as `/one`, or by the `value` itself; with `-` before it the greatest first. Values without one come last"),
        ("limit" = Option<Limit>, Query, description = "At most so many values, the first ones"),
    ),
    responses(
        (status = 200, description = "The values, `[]` if there are none; the header `Estimand-Revision` says of which revision", body = [StoredValue]),
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
    let allowed = &["dataName", "dataNode", "nodeName", "nodes", "state", "maxAge", "field", "sort", "limit"];
    let query = Query::parse(req.query_string(), allowed)?;
    let node = node_of(query.get("dataNode"), query.get("nodeName"))?;
    let filter = filter_of(&service, query.get("state"), query.get("maxAge"))?;
    let snapshot = service.snapshot()?;
    let plain = ["nodes", "field", "sort", "limit"].iter().all(|name| query.get(name).is_none());
    if let Some(name) =
        query.get("dataName").filter(|name| plain && filter.takes_all() && DataName::is_valid(name))
    {
        let body = match (snapshot.table(name), node) {
            (None, _) => EMPTY,
            (Some(table), None) => return Ok(whole_table(&req, &snapshot, table)),
            (Some(table), Some(node)) => array_of(table.shown(node)),
        };
        return Ok(json(&snapshot, body));
    }
    let names = AskedNames::parse(query.get("dataName"))?;
    let field = field_of(query.get("field"))?;
    let order = query.get("sort").map(ValueOrder::parse).transpose();
    let order = order.map_err(|error| Problem::invalid_field(error.at("sort")))?;
    let limit = query.get("limit").map_or(Ok(usize::MAX), limit_of)?;
    let choice = nodes_of(&service, query.get("nodes"))?;
    let chosen = choice.as_ref().map(NodeChoice::nodes);
    if plain && node.is_none() && filter.takes_all() {
        let tables = names.of(&snapshot).into_iter().filter_map(|name| snapshot.table(name));
        let (pieces, digest) = joined_tables(&req, tables);
        let is_empty = pieces.iter().map(Bytes::len).sum::<usize>() == EMPTY.len();
        // An answer that the caller has already takes no room among the large responses.
        let body = match digest.is_some_and(|digest| has_already(&req, &digest)) {
            true => BoxBody::new(()),
            false => budget.body(pieces)?,
        };
        let mut response = respond_with(&snapshot, JSON, body);
        digest.into_iter().for_each(|digest| set_digest(&mut response, digest));
        hint(&mut response, if is_empty { names.hint(&snapshot) } else { None });
        return Ok(response);
    }
    let mut found = Vec::new();
    for table in names.of(&snapshot).into_iter().filter_map(|name| snapshot.table(name)) {
        match (node, chosen) {
            (Some(node), Some(chosen)) if !chosen.contains(node) => {}
            (Some(node), _) => found.extend(table.shown(node)),
            (None, Some(chosen)) => found.extend(chosen.iter().filter_map(|node| table.shown(node.as_str()))),
            (None, None) => found.extend(table.all()),
        }
    }
    let taken = found.into_iter().filter(|shown| filter.takes(shown));
    let body = match order {
        Some(order) => array_of(ordered(&order, taken, field.as_ref()).into_iter().take(limit)),
        None => array_of(taken.filter_map(|shown| shown.narrow(field.as_ref())).take(limit)),
    };
    let reason = || choice.as_ref().and_then(NodeChoice::hint).or_else(|| names.hint(&snapshot));
    let reason = if body == EMPTY { reason() } else { None };
    let mut response = json(&snapshot, body);
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

fn limit_of(text: &str) -> Result<usize, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| wrong("limit", text, "a whole number from 1 to 1000000"))
}

/// The nodes that a query selects by their labels.
pub fn nodes_of(service: &DataService, selector: Option<&str>) -> Result<Option<NodeChoice>, Problem> {
    let selector = selector.map(selector_of).transpose()?;
    selector.map(|selector| service.labels().choose(selector)).transpose()
}

/// The selector in the parameter `nodes`.
pub fn selector_of(text: &str) -> Result<Selector, Problem> {
    Selector::parse(text).map_err(|error| {
        let error = FieldError::new("nodes", format!("is no selector: {error}"));
        Problem::invalid_field(error.given(text).expected("labels with commas, such as `zone=a,gpu,!old`"))
    })
}

/// One value.
///
/// With `Accept: text/plain` just the value: a string without its quotes, anything else as JSON.
#[utoipa::path(
    get,
    path = "/api/data/{dataName}/{nodeName}",
    tag = "data",
    params(
        ("dataName" = DataName, Path),
        ("nodeName" = NodeName, Path),
        ("state" = Option<States>, Query, description = "404 unless the value is in one of these states"),
        ("maxAge" = Option<SpanText>, Query, description = "404 unless it was collected no longer ago, e.g. `5s`"),
        ("explain" = Option<Explain>, Query, description = "`1`: with what produced it"),
        ("field" = Option<Pointer>, Query, description = "Only this part of the value, a JSON pointer such as `/value`"),
    ),
    responses(
        (status = 200, description = "The value", body = StoredValue),
        (status = 304, description = "It is what `If-None-Match` says"),
        (status = 400, description = "A name or the query is not valid", body = Problem),
        (status = 404, description = "There is no such value; or, of the type `no-such-field`, it has no such part", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn read_one(req: HttpRequest, service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let snapshot = service.snapshot()?;
    let (name, node) = (segment(&req, "dataName"), segment(&req, "nodeName"));
    let shown = snapshot.table(name).and_then(|table| table.shown(node));
    let Some(shown) = shown else { return Err(no_value(&req, &snapshot, name, node).into()) };
    if !req.query_string().is_empty() {
        return read_one_asked(&req, &service, &snapshot, shown);
    }
    if wants_text(&req) {
        return Ok(respond(&snapshot, TEXT, plain(&shown)));
    }
    Ok(json(&snapshot, shown.json()))
}

/// The same when the query says more.
fn read_one_asked(
    req: &HttpRequest,
    service: &DataService,
    snapshot: &Snapshot,
    shown: ShownValue<'_>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["state", "maxAge", "explain", "field"])?;
    let filter = filter_of(service, query.get("state"), query.get("maxAge"))?;
    let field = field_of(query.get("field"))?;
    let explain = match query.get("explain") {
        None | Some("0" | "false") => false,
        Some("" | "1" | "true") => true,
        Some(other) => return Err(wrong("explain", other, "`1` or nothing").into()),
    };
    let (name, node) = (segment(req, "dataName"), segment(req, "nodeName"));
    if !filter.takes(&shown) {
        let state = shown.facts().marks.state();
        let at = estimand_api::instant::to_rfc3339(shown.facts().collected_at);
        let detail = format!(
            "`{name}` of `{node}` is {state} and was collected at {at}, which is not what was asked for"
        );
        return Err(Problem::new(404, kind::NOT_AS_ASKED, "The value is not as asked for", detail).into());
    }
    let shown = match field {
        None => shown,
        Some(field) if field.find(shown.text()).is_none() => {
            return Err(no_field(name, node, &field, shown.text()).into());
        }
        Some(field) => shown.narrow(Some(&field)).ok_or_else(Problem::internal)?,
    };
    match (explain, wants_text(req)) {
        (true, _) => Ok(json(snapshot, explained(&shown))),
        (false, true) => Ok(respond(snapshot, TEXT, plain(&shown))),
        (false, false) => Ok(json(snapshot, shown.json())),
    }
}

/// The value with its provenance; `null` for a plain write, which has none.
fn explained(shown: &ShownValue<'_>) -> Bytes {
    let mut out = Vec::with_capacity(512);
    shown.push_json(&mut out);
    out.pop();
    out.extend_from_slice(b",\"provenance\":");
    out.extend_from_slice(shown.facts().provenance().unwrap_or("null").as_bytes());
    out.push(b'}');
    Bytes::from(out)
}

fn plain(shown: &ShownValue<'_>) -> Bytes {
    match serde_json::from_str::<String>(shown.text()) {
        Ok(text) => Bytes::from(text),
        Err(_) => Bytes::from(shown.text().to_owned()),
    }
}

fn no_value(req: &HttpRequest, snapshot: &Snapshot, name: &str, node: &str) -> Problem {
    let errors: Vec<FieldError> = [
        DataName::parse(name).err().map(|e| e.at("dataName")),
        NodeName::parse(node).err().map(|e| e.at("nodeName")),
    ]
    .into_iter()
    .flatten()
    .collect();
    match errors.is_empty() {
        true => {
            let mut detail = format!("there is no value of `{name}` for the node `{node}`");
            // There is one where the binding leads, but not the part of it that the binding serves.
            if let (Some(bound), Some(_)) = (snapshot.bindings().get(name), snapshot.get(name, node))
                && let Some(field) = &bound.served.field
            {
                detail.push_str(&format!(": that of `{}` has no `{field}`", bound.served.to));
            }
            Problem::not_found(detail)
        }
        false => {
            tracing::debug!(path = req.path(), "a read of what is no name");
            Problem::invalid(errors)
        }
    }
}

/// Names the fields that are there, because most often it is a slip.
fn no_field(name: &str, node: &str, field: &Pointer, text: &str) -> Problem {
    let mut there: Vec<String> = field.nearby(text, MAX_FIELDS_NAMED + 1);
    let more = if there.len() > MAX_FIELDS_NAMED { " and more" } else { "" };
    there.truncate(MAX_FIELDS_NAMED);
    let there = match there.is_empty() {
        true => "nothing at or below that place".to_owned(),
        false => format!("`{}`{more}", there.join("`, `")),
    };
    let detail = format!("the value of `{name}` for the node `{node}` has no `{field}`; it has {there}");
    let error = FieldError::new("field", "leads nowhere in the value").given(field).expected(there);
    let problem = Problem::new(404, kind::NO_SUCH_FIELD, "The value has no such field", detail);
    Problem { errors: vec![error], ..problem }
}

/// The part of values that a query asks for.
pub fn field_of(field: Option<&str>) -> Result<Option<Pointer>, Problem> {
    field.map(Pointer::parse).transpose().map_err(|e| Problem::invalid_field(e.at("field")))
}

fn wrong(field: &str, given: &str, expected: &str) -> Problem {
    Problem::invalid_field(FieldError::new(field, "is not valid").given(given).expected(expected))
}

/// The node that a query names, under either spelling.
pub fn node_of<'q>(
    node: Option<&'q str>,
    spelt_otherwise: Option<&'q str>,
) -> Result<Option<&'q str>, Problem> {
    let node = match (node, spelt_otherwise) {
        (Some(_), Some(other)) => return Err(wrong("nodeName", other, "`dataNode` or `nodeName`, not both")),
        (node, other) => node.or(other),
    };
    match node {
        Some(text) => {
            NodeName::parse(text).map(|_| node).map_err(|e| Problem::invalid_field(e.at("dataNode")))
        }
        None => Ok(None),
    }
}

fn filter_of(service: &DataService, states: Option<&str>, max_age: Option<&str>) -> Result<Filter, Problem> {
    let mut filter = Filter::default();
    for state in states.into_iter().flat_map(|states| states.split(',')) {
        let state =
            state.trim().parse().map_err(|_| wrong("state", state, "fresh, stale, failed, node-lost"))?;
        filter.states.push(state);
    }
    if let Some(age) = max_age {
        let span: Span =
            age.parse().map_err(|_| wrong("maxAge", age, "a duration such as `5s` or `250ms`"))?;
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        filter.since = Some(service.now().saturating_sub(micros));
    }
    Ok(filter)
}
