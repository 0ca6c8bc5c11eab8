//! Values that a program pushes in a form of its own, once they are read from it.

use actix_web::HttpRequest;
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;
use estimand_api::write::{Content, Write};
use estimand_web::Principal;

use crate::DataService;
use crate::http::clock_skew;
use crate::http::write::room_of;

/// A plain write of a value: its text is compact JSON, and its time is in microseconds since 1970.
pub fn write_of(
    (data_name, node_name): (DataName, NodeName),
    text: Box<str>,
    at: Option<i64>,
    valid_for: Option<i64>,
) -> Write {
    let content = Content::Value { text, valid_for, provenance: None };
    Write { data_name, node_name, content, collected_at: at, order: None }
}

/// Stores writes, which may be none, that came in a body of so many bytes.
pub async fn store(
    req: &HttpRequest,
    caller: &Principal,
    service: &DataService,
    mut writes: Vec<Write>,
    body_bytes: usize,
) -> Result<(), Problem> {
    clock_skew::correct(req, service.now(), &mut writes)?;
    service.speakers().check(caller, &writes).await?;
    if !writes.is_empty() {
        let bytes = room_of(writes.len(), body_bytes);
        service.submit(writes, bytes).await?;
    }
    Ok(())
}
