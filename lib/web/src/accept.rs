//! The form of a response that its caller asks for.

use actix_web::HttpRequest;
use actix_web::http::header::ACCEPT;

/// A JSON document a line.
pub const NDJSON: &str = "application/x-ndjson";
/// Other names of the same.
const NDJSON_NAMES: [&str; 5] =
    [NDJSON, "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines"];

/// True if the caller would rather have a value a line than a JSON array.
pub fn wants_lines(req: &HttpRequest) -> bool {
    req.headers().get(ACCEPT).is_some_and(|accept| is_ndjson(accept.as_bytes()))
}

/// True for a media type, or the first of several, that stands for JSON documents, a line each.
pub fn is_ndjson(kind: &[u8]) -> bool {
    let first = kind.split(|byte| matches!(byte, b',' | b';')).next().unwrap_or_default().trim_ascii();
    NDJSON_NAMES.iter().any(|name| first.eq_ignore_ascii_case(name.as_bytes()))
}

/// True if the caller would rather have plain text than JSON.
pub fn wants_text(req: &HttpRequest) -> bool {
    let accept = req.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    accept.split(',').next().is_some_and(|first| first.trim().starts_with("text/plain"))
}
