//! One line a request, under the target `estimand::access`.
//!
//! A failure of the service is a warning; a rejected request, and a change in the role Operate, is information;
//! everything else is for debugging, also "not yet": the answer of `/readyz` to a prober, and 503 for a request that
//! came before the service was ready for the first time. A line below the level of the log is never put together.

use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use actix_web::http::{Method, StatusCode};
use actix_web::web::ThinData;
use estimand_runtime::Readiness;
use tracing::Level;

use crate::log_text::logged;
use crate::request_id;
use crate::role::{Principal, Role};

macro_rules! line {
    ($level:expr, $req:expr, $status:expr, $took:expr, $principal:expr) => {
        tracing::event!(
            target: "estimand::access",
            $level,
            method = %logged($req.method().as_str()),
            path = %logged($req.path()),
            status = $status.as_u16(),
            duration_us = u64::try_from($took.as_micros()).unwrap_or(u64::MAX),
            request_id = request_id::of($req),
            principal = $principal.map(tracing::field::display),
            peer = $req.peer_addr().map(tracing::field::display),
            "request"
        )
    };
}

/// Writes the line of one request that was answered.
pub(crate) fn write(
    req: &HttpRequest,
    role: Role,
    status: StatusCode,
    took: Duration,
    principal: Option<&Principal>,
) {
    match level(role, req.method(), status, || came_after_start(req, took)) {
        Level::WARN => line!(Level::WARN, req, status, took, principal),
        Level::INFO => line!(Level::INFO, req, status, took, principal),
        _ => line!(Level::DEBUG, req, status, took, principal),
    }
}

/// The request's arrival counts: its service may have become ready while it was answered.
fn came_after_start(req: &HttpRequest, took: Duration) -> bool {
    let Some(readiness) = req.app_data::<ThinData<Readiness>>() else { return true };
    Instant::now().checked_sub(took).is_some_and(|arrival| readiness.had_begun(arrival))
}

fn level(role: Role, method: &Method, status: StatusCode, came_after_start: impl Fn() -> bool) -> Level {
    if status == StatusCode::SERVICE_UNAVAILABLE && (role == Role::Open || !came_after_start()) {
        Level::DEBUG
    } else if status.is_server_error() {
        Level::WARN
    } else if status.is_client_error()
        || (matches!(role, Role::User | Role::Operate) && *method != Method::GET)
    {
        Level::INFO
    } else {
        Level::DEBUG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        let check = |role, method: Method, status, expected| {
            assert_eq!(level(role, &method, status, || true), expected, "{role} {method} {status}");
        };
        check(Role::Read, Method::GET, StatusCode::OK, Level::DEBUG);
        check(Role::Write, Method::POST, StatusCode::CREATED, Level::DEBUG);
        check(Role::Operate, Method::GET, StatusCode::OK, Level::DEBUG);
        check(Role::Operate, Method::PUT, StatusCode::OK, Level::INFO);
        check(Role::User, Method::POST, StatusCode::CREATED, Level::INFO);
        check(Role::Read, Method::GET, StatusCode::NOT_FOUND, Level::INFO);
        check(Role::Operate, Method::PUT, StatusCode::SERVICE_UNAVAILABLE, Level::WARN);
        check(Role::Open, Method::GET, StatusCode::SERVICE_UNAVAILABLE, Level::DEBUG);
        check(Role::Open, Method::GET, StatusCode::INTERNAL_SERVER_ERROR, Level::WARN);
        let starting = |status| level(Role::Read, &Method::GET, status, || false);
        assert_eq!(starting(StatusCode::SERVICE_UNAVAILABLE), Level::DEBUG);
        assert_eq!(starting(StatusCode::INTERNAL_SERVER_ERROR), Level::WARN);
    }
}
