//! Writes and deletions: each becomes an operation for the writer, and is answered when it is durable.

use std::collections::BTreeMap;

use actix_web::http::header::CONTENT_TYPE;
use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::fields::{self, Fields};
use estimand_api::instant::Instant;
use estimand_api::json::parse_object;
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::History;
use estimand_api::schema::of;
use estimand_api::value::{BatchReceipt, DeletionReceipt, Outcome, StateReceipt, WriteReceipt};
use estimand_api::write::{MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_WRITE_BYTES, Write};
use estimand_web::{Body, Failure, Principal, Query, is_ndjson, read_body};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::DataService;
use crate::core::group::Retention;
use crate::core::operations::{Delete, MarkNode, Retain};
use crate::core::rendering::push_number;
use crate::http::asked::node_of;
use crate::http::clock_skew;
use crate::http::named_items;
use crate::http::orders;
use crate::http::speakers::check_deletion;

/// The largest body of the smaller requests.
pub const SMALL: usize = 64 * 1024;
/// The memory that a write takes beside its text.
const WRITE_BYTES: usize = 256;

/// Writes a value.
#[utoipa::path(
    post,
    path = "/api/data",
    tag = "data",
    params(("Estimand-Sent-At" = Option<Instant>, Header, description = "When this is sent by the sender's clock, which may be wrong: `collectedAt` is then taken to be that long ago")),
    request_body(content = Write, description = "A value, or the report of a failure"),
    responses(
        (status = 201, description = "Stored; there was none before", body = WriteReceipt),
        (status = 200, description = "Stored in place of the one before, or superseded by a newer one", body = WriteReceipt),
        (status = 400, description = "The write is not valid", body = Problem),
        (status = 403, description = "A node writes values of another one, or the caller may give no `epoch` and `sequence`", body = Problem),
        (status = 409, description = "The name is bound to another one", body = Problem),
        (status = 413, description = "The value is too large", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn post(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    write(&req, &caller, body, &service).await
}

/// Writes a value; the same as POST.
#[utoipa::path(
    put,
    path = "/api/data",
    tag = "data",
    params(("Estimand-Sent-At" = Option<Instant>, Header, description = "When this is sent by the sender's clock, which may be wrong: `collectedAt` is then taken to be that long ago")),
    request_body(content = Write, description = "As for POST"),
    responses(
        (status = 201, description = "Stored; there was none before", body = WriteReceipt),
        (status = 200, description = "Stored in place of the one before, or superseded by a newer one", body = WriteReceipt),
        (status = 400, description = "The write is not valid", body = Problem),
        (status = 403, description = "A node writes values of another one, or the caller may give no `epoch` and `sequence`", body = Problem),
        (status = 409, description = "The name is bound to another one", body = Problem),
        (status = 413, description = "The value is too large", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn put(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    write(&req, &caller, body, &service).await
}

async fn write(
    req: &HttpRequest,
    caller: &Principal,
    body: Payload,
    service: &DataService,
) -> Result<HttpResponse, Failure> {
    let body = read_body::<MAX_WRITE_BYTES>(req, body.into_inner()).await?;
    let mut write = Write::parse(&body.0)?;
    clock_skew::correct(req, service.now(), std::slice::from_mut(&mut write))?;
    orders::check(caller, std::slice::from_ref(&write), |_| "epoch".to_owned())?;
    service.speakers().check_one(caller, &write).await?;
    let bytes = room_of(1, body.0.len());
    // The text is not kept beside the parsed write.
    drop(body);
    Ok(answer_written(&service.submit(write, bytes).await?))
}

/// The bytes that parsed writes take in the queue.
pub fn room_of(writes: usize, body_bytes: usize) -> usize {
    body_bytes + writes * WRITE_BYTES
}

/// By hand, because it is the answer to every single write.
fn answer_written(written: &WriteReceipt) -> HttpResponse {
    let (mut response, outcome) = match written.outcome {
        Outcome::Created => (HttpResponse::Created(), "created"),
        Outcome::Replaced => (HttpResponse::Ok(), "replaced"),
        Outcome::Superseded => (HttpResponse::Ok(), "superseded"),
        Outcome::NoValue => (HttpResponse::Ok(), "no-value"),
    };
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(b"{\"outcome\":\"");
    out.extend_from_slice(outcome.as_bytes());
    out.extend_from_slice(b"\",\"revision\":");
    push_number(&mut out, written.revision);
    out.push(b'}');
    response.content_type("application/json").body(Bytes::from(out))
}

/// Writes that belong together.
#[derive(Debug)]
pub enum WriteBatch {}

estimand_api::described!(
    WriteBatch,
    [Write],
    json!({ "type": "array", "items": of::<Write>(""), "maxItems": MAX_BATCH_ITEMS })
);

/// Writes many values, all or nothing.
#[utoipa::path(
    post,
    path = "/api/data/batch",
    tag = "data",
    params(("Estimand-Sent-At" = Option<Instant>, Header, description = "When this is sent by the sender's clock, which may be wrong: `collectedAt` is then taken to be that long ago")),
    request_body(content = WriteBatch, description = "At most 8 MiB. With `Content-Type: application/x-ndjson` a value a line instead of an array"),
    responses(
        (status = 200, description = "All of it is stored", body = BatchReceipt),
        (status = 400, description = "An item is not valid; nothing is stored", body = Problem),
        (status = 403, description = "A node writes values of another one, or the caller may give no `epoch` and `sequence`", body = Problem),
        (status = 409, description = "An item's name is bound to another one; nothing is stored", body = Problem),
        (status = 413, description = "Too many items, or too large", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn batch(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BATCH_BYTES>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let body_bytes = body.0.len();
    let in_lines = req.headers().get(CONTENT_TYPE).is_some_and(|kind| is_ndjson(kind.as_bytes()));
    let parse = move |body: &[u8]| {
        if in_lines { Write::parse_batch(&array_of_lines(body)) } else { Write::parse_batch(body) }
    };
    let mut writes = body.parse(parse).await?;
    clock_skew::correct(&req, service.now(), &mut writes)?;
    orders::check(&caller, &writes, |place| format!("[{place}].epoch"))?;
    service.speakers().check(&caller, &writes).await?;
    let bytes = room_of(writes.len(), body_bytes);
    Ok(json(&service.submit(writes, bytes).await?))
}

/// JSON documents, one a line, as an array.
fn array_of_lines(lines: &[u8]) -> Vec<u8> {
    let mut array = Vec::with_capacity(lines.len() + 2);
    array.push(b'[');
    for line in lines.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        if array.len() > 1 {
            array.push(b',');
        }
        array.extend_from_slice(line);
    }
    array.push(b']');
    array
}

/// Deletes a name's values, or the one of a node, and their history.
#[utoipa::path(
    delete,
    path = "/api/data",
    tag = "data",
    params(
        ("dataName" = DataName, Query),
        ("dataNode" = Option<NodeName>, Query, description = "Only the value of this node; also spelt `nodeName`"),
    ),
    responses(
        (status = 200, description = "How many values were deleted; 0 if there were none", body = DeletionReceipt),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 403, description = "A node writes values of another one", body = Problem),
        (status = 409, description = "The name is bound to another one", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn delete(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["dataName", "dataNode", "nodeName"])?;
    let name = query.get("dataName").unwrap_or_default();
    let name = DataName::parse(name).map_err(|e| Problem::invalid_field(e.at("dataName")))?;
    let node = node_of(query.get("dataNode"), query.get("nodeName"))?;
    let node = node.map(NodeName::parse).transpose().map_err(|e| Problem::invalid_field(e.at("dataNode")))?;
    check_deletion(&caller, node.as_ref())?;
    Ok(json(&service.submit(Delete { name, node }, 512).await?))
}

/// That a node is lost, or is not any more.
#[derive(Debug)]
struct NodeMark {
    node: NodeName,
    lost: bool,
}

estimand_api::described!(
    NodeMark,
    [NodeName],
    json!({
        "type": "object",
        "required": ["nodeName", "state"],
        "additionalProperties": false,
        "properties": {
            "nodeName": of::<NodeName>(""),
            "state": { "description": "`fresh` when the node is back", "enum": ["node-lost", "fresh"] },
        },
    })
);

impl NodeMark {
    fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields::new(parse_object(body)?);
        let node = fields.required("nodeName", NodeName::EXPECTED, fields::node_name);
        let lost = fields.required("state", "`node-lost`, or `fresh` when the node is back", |value| {
            fields::word(value, &[("node-lost", true), ("fresh", false)])
        });
        fields.end_body()?;
        node.zip(lost).map(|(node, lost)| NodeMark { node, lost }).ok_or_else(Problem::internal)
    }
}

/// Says of all values of a node that it is lost, or that it is not any more.
#[utoipa::path(
    put,
    path = "/api/data/state",
    tag = "data",
    request_body(content = NodeMark, description = "Which node, and whether it is lost"),
    responses(
        (status = 200, description = "How many values changed their state", body = StateReceipt),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn mark_node(body: Body<SMALL>, service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let NodeMark { node, lost } = NodeMark::read(&body.0)?;
    Ok(json(&service.submit(MarkNode { node, lost }, body.0.len()).await?))
}

/// The names that keep a history, and how much of it.
#[derive(Debug)]
pub enum RetentionBody {}

estimand_api::described!(
    RetentionBody,
    [DataName, History],
    json!({ "type": "object", "propertyNames": of::<DataName>(""), "additionalProperties": of::<History>("") })
);

/// Says which names keep a history; replaces what was said before.
#[utoipa::path(
    put,
    path = "/api/data/retention",
    tag = "history",
    request_body(content = RetentionBody, description = "All names that keep one"),
    responses(
        (status = 200, description = "Taken", body = inline(Object)),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn set_retention(
    body: Body<MAX_BATCH_BYTES>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let bytes = body.0.len();
    let retention: Retention = body.parse(|body| named_items::read(body, history)).await?;
    service.submit(Retain(retention), bytes).await?;
    Ok(json(&json!({})))
}

fn history(name: &str, value: &Json) -> Result<History, Vec<FieldError>> {
    let at = |error: FieldError| FieldError { field: format!("{name}.{}", error.field), ..error };
    History::from_json(value).map_err(|wrong| wrong.into_iter().map(at).collect())
}

/// The names that keep a history.
#[utoipa::path(
    get,
    path = "/api/data/retention",
    tag = "history",
    responses((status = 200, description = "All names that keep one", body = RetentionBody), (status = 503, description = "Not loaded yet", body = Problem))
)]
pub async fn get_retention(service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    service.snapshot()?;
    let retention = service.retention();
    let map: BTreeMap<&DataName, Json> =
        retention.iter().map(|(name, history)| (name, history.to_json())).collect();
    Ok(json(&map))
}

pub fn json(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Ok().json(body)
}
