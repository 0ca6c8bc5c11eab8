//! Responses with values: what is rendered already, joined with as few copies as there can be.

use actix_web::body::{BoxBody, MessageBody as _};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::headers::{HINT_HEADER, REVISION_HEADER};
use estimand_web::{ContentDigest, NDJSON, asks_for_tag, content_digest, joined_digest, set_digest};

use crate::core::snapshot::{Snapshot, Values, items};
use crate::core::view::ShownValue;

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// A value a line.
pub const LINES: HeaderValue = HeaderValue::from_static(NDJSON);
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

/// All values of these tables as one array, in pieces; with its digest if the caller asks for a tag.
pub fn joined_tables<'s>(
    req: &HttpRequest,
    tables: impl Iterator<Item = Values<'s>>,
) -> (Vec<Bytes>, Option<ContentDigest>) {
    if !asks_for_tag(req) {
        return (joined(b"[", tables.map(Values::items), b"]"), None);
    }
    let digested = tables.map(|table| table.digested_array(json_digest));
    let (arrays, digests): (Vec<Bytes>, Vec<ContentDigest>) =
        digested.filter(|(array, _)| *array != EMPTY).unzip();
    (joined(b"[", arrays.iter().map(items), b"]"), Some(joined_digest(&digests)))
}

/// All values of a table.
pub fn whole_table(req: &HttpRequest, snapshot: &Snapshot, table: Values<'_>) -> HttpResponse {
    if !asks_for_tag(req) {
        return json(snapshot, table.array());
    }
    let (array, digest) = table.digested_array(json_digest);
    let mut response = json(snapshot, array);
    set_digest(&mut response, digest);
    response
}

fn json_digest(content: &[u8]) -> ContentDigest {
    content_digest(JSON.as_bytes(), content)
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

/// Values, a line each.
pub fn lines_of<'s>(found: impl IntoIterator<Item = ShownValue<'s>>) -> Bytes {
    let mut out = Vec::with_capacity(512);
    for shown in found {
        shown.push_json(&mut out);
        out.push(b'\n');
    }
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
