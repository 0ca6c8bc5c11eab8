//! The form of a response that its caller asks for.

use actix_web::HttpRequest;
use actix_web::http::header::ACCEPT;

/// True if the caller would rather have plain text than JSON.
pub fn wants_text(req: &HttpRequest) -> bool {
    let accept = req.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    accept.split(',').next().is_some_and(|first| first.trim().starts_with("text/plain"))
}
