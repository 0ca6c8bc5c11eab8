//! The nodes on which each name is produced, told by the manager from time to time: values that nothing renews any more
//! are dropped by it.

use actix_web::HttpResponse;
use actix_web::web::{self, ThinData};
use estimand_api::fields::{self, Fields};
use estimand_api::json::{kind_of, parse_object};
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::schema::of;
use estimand_api::write::MAX_BATCH_BYTES;
use estimand_web::{Body, Failure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

use crate::DataService;
use crate::core::leftovers::{DropLeftovers, Place, Producers};
use crate::http::named_items;
use crate::http::write::json;

/// The most values that are dropped at once; the others are the next time.
const MAX_DROPPED: usize = 10_000;
const MICROS: f64 = 1e6;
/// A year: a longer time to live is none.
const MAX_SECONDS: u64 = 366 * 24 * 3600;

/// The nodes on which each name is produced.
#[derive(Debug)]
enum ProducersBody {}

estimand_api::described!(
    ProducersBody,
    [DataName, NodeName],
    json!({
        "type": "object",
        "required": ["timeToLive", "nodes", "names"],
        "additionalProperties": false,
        "properties": {
            "timeToLive": { "description": "How many seconds a value is kept that nothing renews any more", "type": "integer", "minimum": 0, "maximum": MAX_SECONDS },
            "nodes": { "description": "All nodes", "type": "array", "items": of::<NodeName>("") },
            "names": {
                "description": "Where each name is produced: on all nodes, on some, or by one that answers for others",
                "type": "object",
                "propertyNames": of::<DataName>(""),
                "additionalProperties": { "oneOf": [
                    { "type": "string", "enum": ["all", "anywhere"] },
                    { "type": "array", "items": of::<NodeName>("") },
                ] },
            },
        },
    })
);

/// Says what runs where, and drops values of slots that are not there any more.
///
/// Such a value is dropped when its slot has moved and delivered from another node, or when this has said for longer than
/// the time to live that nothing renews it. Plain writes stay, and so does what is kept of the past.
#[utoipa::path(
    put,
    path = "/api/data/producers",
    tag = "data",
    request_body(content = ProducersBody, description = "All that is registered"),
    responses(
        (status = 200, description = "How many values were dropped", body = inline(Object)),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn set_producers(
    body: Body<MAX_BATCH_BYTES>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let producers = body.parse(read).await?;
    let (snapshot, now, looked) = (service.snapshot()?, service.now(), service.0.clone());
    let look = web::block(move || looked.leftovers(|leftovers| leftovers.due(&snapshot, &producers, now)));
    let mut due = look.await.map_err(|_| Problem::internal())?;
    due.truncate(MAX_DROPPED);
    if due.is_empty() {
        return Ok(json(&json!({ "dropped": 0 })));
    }
    let bytes = due.len() * 256;
    let dropped = service.submit(DropLeftovers(due), bytes).await?;
    tracing::info!(dropped, "values that nothing renews any more are dropped");
    Ok(json(&json!({ "dropped": dropped })))
}

fn read(body: &[u8]) -> Result<Producers, Problem> {
    let mut fields = Fields::new(parse_object(body)?);
    let seconds = fields
        .required("timeToLive", "a whole number of seconds", |value| fields::whole(value, 0, MAX_SECONDS));
    let nodes = fields.required("nodes", "an array of node names", nodes);
    let mut errors = Vec::new();
    let names = fields.required("names", "an object of data name to where it is produced", |value| {
        let Value::Object(map) = value else { return Err(format!("is {}, not an object", kind_of(value))) };
        let place = |name: &str, place: &Value| {
            read_place(place).map_err(|message| vec![FieldError::new(name, message)])
        };
        Ok(named_items::collect(map, place).unwrap_or_else(|wrong| {
            errors = wrong;
            BTreeMap::new()
        }))
    });
    let within = |error: FieldError| FieldError { field: format!("names.{}", error.field), ..error };
    fields.extend(errors.into_iter().map(within).collect());
    fields.end_body()?;
    let (Some(seconds), Some(nodes), Some(names)) = (seconds, nodes, names) else {
        return Err(Problem::internal());
    };
    Ok(Producers { time_to_live: (seconds as f64 * MICROS) as i64, nodes, names })
}

fn read_place(value: &Value) -> Result<Place, String> {
    match value {
        Value::String(word) if word == "all" => Ok(Place::AllNodes),
        Value::String(word) if word == "anywhere" => Ok(Place::Anywhere),
        value => nodes(value).map(Place::Nodes),
    }
}

fn nodes(value: &Value) -> Result<BTreeSet<NodeName>, String> {
    let Value::Array(nodes) = value else { return Err(format!("is {}, not an array", kind_of(value))) };
    let parsed = nodes.iter().map(|node| NodeName::parse(node.as_str()?).ok());
    parsed.collect::<Option<_>>().ok_or_else(|| "has what is no node name".to_owned())
}
