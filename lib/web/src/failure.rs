//! How a request fails: every error that leaves a handler, an extractor, the gate or the router is a problem
//! document (`application/problem+json`).
//!
//! A handler returns `Result<_, Failure>` and lets `?` turn a [`Problem`] into one. Errors of the HTTP
//! library (a path that cannot be decoded, for instance) and bare error statuses are given the same shape on
//! the way out. Only input that is rejected before a request exists at all (bytes that are not HTTP, headers
//! that never end) is answered by the HTTP library itself, with a status and no body.

use std::fmt;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::{HttpResponse, ResponseError};
use estimand_api::problem::{MEDIA_TYPE, Problem};

/// A problem on its way to becoming a response. Boxed, so that the `Result`s of handlers stay small.
#[derive(Debug, Clone)]
pub struct Failure(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    problem: Problem,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Failure {
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }

    /// Adds a header that belongs to this failure, e.g. `Allow` to a 405.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure(Box::new(Parts { problem, headers: Vec::new() }))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.problem.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl ResponseError for Failure {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::new(self.status_code());
        for (name, value) in &self.0.headers {
            response.headers_mut().append(name.clone(), value.clone());
        }
        with_problem(response, &self.0.problem)
    }
}

/// Marks a response that is not this service's own, and so is given as it is, an error too.
#[derive(Debug, Clone, Copy)]
pub struct Foreign;

/// Gives an error response its final shape: a problem document that names the request.
pub(crate) fn shape(response: HttpResponse, request_id: &str) -> HttpResponse {
    if response.extensions().get::<Foreign>().is_some() {
        return response;
    }
    let mut response = match problem_of(&response) {
        Some(problem) => {
            let problem = Problem { request_id: Some(request_id.to_owned()), ..problem };
            with_problem(response, &problem)
        }
        None => response,
    };
    // Bytes that the client is still sending would be taken for its next request.
    if matches!(response.status(), StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE) {
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
    response
}

/// The problem that a response stands for; none if the handler wrote a problem document itself.
fn problem_of(response: &HttpResponse) -> Option<Problem> {
    let status = response.status();
    if let Some(failure) = response.error().and_then(|error| error.as_error::<Failure>()) {
        return Some(failure.problem().clone());
    }
    if is_problem_document(response) {
        return None;
    }
    if status.is_server_error() {
        // The text of an unforeseen error may name files or queries: it goes into the log only.
        let cause = response.error().map_or_else(|| "no cause given".to_owned(), ToString::to_string);
        tracing::error!(status = status.as_u16(), cause, "a handler failed");
        let unforeseen = status == StatusCode::INTERNAL_SERVER_ERROR;
        return Some(if unforeseen { Problem::internal() } else { of_status(status, None) });
    }
    Some(of_status(status, response.error().map(ToString::to_string)))
}

fn is_problem_document(response: &HttpResponse) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == MEDIA_TYPE.as_bytes())
}

/// A problem for which nothing but the status is known, and perhaps a sentence.
fn of_status(status: StatusCode, detail: Option<String>) -> Problem {
    let title = status.canonical_reason().unwrap_or("Error");
    let kind = title.to_ascii_lowercase().replace(' ', "-");
    Problem::new(status.as_u16(), &kind, title, detail.unwrap_or_else(|| title.to_owned()))
}

fn with_problem<B: MessageBody>(mut response: HttpResponse<B>, problem: &Problem) -> HttpResponse {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.remove(CONTENT_ENCODING);
    if let Some(seconds) = problem.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.map_body(|_, _| BoxBody::new(problem.to_json()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    async fn body(response: HttpResponse) -> serde_json::Value {
        let bytes = actix_web::body::to_bytes(response.into_body()).await.unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn an_error_of_the_library_becomes_a_problem() {
        let error = actix_web::error::ErrorBadRequest("the path is not UTF-8");
        let shaped = shape(HttpResponse::from_error(error), "r-1");
        assert_eq!(shaped.headers().get(CONTENT_TYPE).unwrap(), MEDIA_TYPE);
        let body = body(shaped).await;
        assert_eq!(body["type"], "bad-request");
        assert_eq!(body["detail"], "the path is not UTF-8");
        assert_eq!(body["requestId"], "r-1");
    }

    #[tokio::test]
    async fn the_text_of_an_unforeseen_error_stays_inside() {
        let error = actix_web::error::ErrorInternalServerError("SELECT secret FROM t");
        let body = body(shape(HttpResponse::from_error(error), "r-2")).await;
        assert_eq!(body["type"], "internal");
        assert!(!body.to_string().contains("SELECT"), "{body}");
    }

    #[tokio::test]
    async fn unavailable_says_when_to_come_back() {
        let shaped = shape(HttpResponse::from_error(Failure::from(Problem::unavailable("full", 7))), "r-3");
        assert_eq!(shaped.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(shaped.headers().get(RETRY_AFTER).unwrap(), "7");
        assert_eq!(body(shaped).await["retryAfter"], 7);
    }
}
