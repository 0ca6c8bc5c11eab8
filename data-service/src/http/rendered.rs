//! Responses with values: what is rendered already, joined with as few copies as there can be.

use actix_web::HttpResponse;
use actix_web::body::{BoxBody, MessageBody as _};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use bytes::Bytes;
use estimand_api::headers::{HINT_HEADER, REVISION_HEADER};

use crate::core::snapshot::Snapshot;
use crate::core::view::ShownValue;

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
static HINT: HeaderName = HeaderName::from_static(HINT_HEADER);
static REVISION: HeaderName = HeaderName::from_static(REVISION_HEADER);

pub fn hint(response: &mut HttpResponse, hint: Option<String>) {
    if let Some(hint) = hint.and_then(|hint| HeaderValue::try_from(hint).ok()) {
        response.headers_mut().insert(HINT.clone(), hint);
    }
}

/// Rendered items with commas between them, a head and an end: nothing of them is copied.
pub fn joined(head: &'static [u8], items: impl Iterator<Item = Bytes>, end: &'static [u8]) -> Vec<Bytes> {
    let mut pieces = vec![Bytes::from_static(head)];
    for items in items.filter(|items| !items.is_empty()) {
        if pieces.len() > 1 {
            pieces.push(Bytes::from_static(b","));
        }
        pieces.push(items);
    }
    pieces.push(Bytes::from_static(end));
    pieces
}

pub const EMPTY: Bytes = Bytes::from_static(b"[]");

pub fn array_of<'s>(found: impl IntoIterator<Item = ShownValue<'s>>) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.push(b'[');
    for shown in found {
        if out.len() > 1 {
            out.push(b',');
        }
        shown.push_json(&mut out);
    }
    out.push(b']');
    Bytes::from(out)
}

pub fn json(snapshot: &Snapshot, body: Bytes) -> HttpResponse {
    respond(snapshot, JSON, body)
}

pub fn respond(snapshot: &Snapshot, kind: HeaderValue, body: Bytes) -> HttpResponse {
    respond_with(snapshot, kind, body.boxed())
}

pub fn respond_with(snapshot: &Snapshot, kind: HeaderValue, body: BoxBody) -> HttpResponse {
    let mut response = HttpResponse::with_body(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(REVISION.clone(), HeaderValue::from(snapshot.revision));
    response
}
