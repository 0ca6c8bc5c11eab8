//! One line a request, under the target `estimand::access`.
//!
//! A failure of the service is a warning; a rejected request, and a change in the role Operate, is information;
//! everything else is for debugging. A line below the level of the log is never put together.

use std::borrow::Cow;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::{Method, StatusCode};
use tracing::Level;

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

/// How much of a path or a method stands in the log; the longest that means something is shorter.
const MAX_PATH_CHARS: usize = 512;

/// As much of a path or a method as a log has use for: anybody can send one of 60 KB.
pub(crate) fn logged(path: &str) -> Cow<'_, str> {
    match path.char_indices().nth(MAX_PATH_CHARS) {
        None => Cow::Borrowed(path),
        Some((end, _)) => format!("{}… ({} bytes)", &path[..end], path.len()).into(),
    }
}

/// Writes the line of one request that was answered.
pub(crate) fn write(
    req: &HttpRequest,
    role: Role,
    status: StatusCode,
    took: Duration,
    principal: Option<&Principal>,
) {
    match level(role, req.method(), status) {
        Level::WARN => line!(Level::WARN, req, status, took, principal),
        Level::INFO => line!(Level::INFO, req, status, took, principal),
        _ => line!(Level::DEBUG, req, status, took, principal),
    }
}

fn level(role: Role, method: &Method, status: StatusCode) -> Level {
    if status.is_server_error() {
        Level::WARN
    } else if status.is_client_error() || (role == Role::Operate && *method != Method::GET) {
        Level::INFO
    } else {
        Level::DEBUG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_does_not_fill_the_log() {
        assert_eq!(logged("/api/data"), "/api/data");
        let long = format!("/{}", "ä".repeat(30_000));
        let shown = logged(&long);
        assert!(
            shown.starts_with("/ää") && shown.ends_with("… (60001 bytes)") && shown.len() < 1_100,
            "{shown}"
        );
    }

    #[test]
    fn levels() {
        let check = |role, method: Method, status, expected| {
            assert_eq!(level(role, &method, status), expected, "{role} {method} {status}");
        };
        check(Role::Read, Method::GET, StatusCode::OK, Level::DEBUG);
        check(Role::Write, Method::POST, StatusCode::CREATED, Level::DEBUG);
        check(Role::Operate, Method::GET, StatusCode::OK, Level::DEBUG);
        check(Role::Operate, Method::PUT, StatusCode::OK, Level::INFO);
        check(Role::Read, Method::GET, StatusCode::NOT_FOUND, Level::INFO);
        check(Role::Operate, Method::PUT, StatusCode::SERVICE_UNAVAILABLE, Level::WARN);
    }
}
