//! The read of one value, which says why there is none.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::described;
use estimand_api::duration::SpanText;
use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;
use estimand_api::problem::{FieldError, Problem, kind};
use estimand_api::value::Value as StoredValue;
use estimand_web::{Failure, Query, segment, wants_text};
use serde_json::json;

use crate::DataService;
use crate::core::snapshot::Snapshot;
use crate::core::view::ShownValue;
use crate::http::asked::{Filter, States, field_of, wrong};
use crate::http::rendered::{TEXT, json, respond};

/// How many existing fields an error names when the one asked for is not there.
const MAX_FIELDS_NAMED: usize = 20;

/// The switch of a query that asks for provenance.
#[derive(Debug)]
pub enum Explain {}

described!(Explain, [], json!({ "type": "string", "enum": ["1", "true", "", "0", "false"] }));

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
    let name = segment(&req, "dataName");
    let node = segment(&req, "nodeName");
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

/// A value, or the part of it that the query asks for.
fn read_one_asked(
    req: &HttpRequest,
    service: &DataService,
    snapshot: &Snapshot,
    shown: ShownValue<'_>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["state", "maxAge", "explain", "field"])?;
    let filter = Filter::of(service, query.get("state"), query.get("maxAge"), None)?;
    let field = field_of(query.get("field"))?;
    let explain = match query.get("explain") {
        None | Some("0" | "false") => false,
        Some("" | "1" | "true") => true,
        Some(other) => return Err(wrong("explain", other, "`1` or nothing").into()),
    };
    let name = segment(req, "dataName");
    let node = segment(req, "nodeName");
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
    if errors.is_empty() {
        let mut detail = format!("there is no value of `{name}` for the node `{node}`");
        // There is one where the binding leads, but not the part of it that the binding serves.
        if let (Some(bound), Some(_)) = (snapshot.bindings().get(name), snapshot.get(name, node))
            && let Some(field) = &bound.served.field
        {
            detail.push_str(&format!(": that of `{}` has no `{field}`", bound.served.to));
        }
        Problem::not_found(detail)
    } else {
        tracing::debug!(path = req.path(), "a read of what is no name");
        Problem::invalid(errors)
    }
}

/// Names the fields that are there, because most often it is a slip.
fn no_field(name: &str, node: &str, field: &Pointer, text: &str) -> Problem {
    let mut there: Vec<String> = field.nearby(text, MAX_FIELDS_NAMED + 1);
    let more = if there.len() > MAX_FIELDS_NAMED { " and more" } else { "" };
    there.truncate(MAX_FIELDS_NAMED);
    let there = if there.is_empty() {
        "nothing at or below that place".to_owned()
    } else {
        format!("`{}`{more}", there.join("`, `"))
    };
    let detail = format!("the value of `{name}` for the node `{node}` has no `{field}`; it has {there}");
    let error = FieldError::new("field", "leads nowhere in the value").given(field).expected(there);
    let problem = Problem::new(404, kind::NO_SUCH_FIELD, "The value has no such field", detail);
    Problem { errors: vec![error], ..problem }
}
