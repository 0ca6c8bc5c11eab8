//! The answer of a task, as the caller gets it from this service.
//!
//! A header says something about the host that it comes from, and here that is this service: to the browser of somebody
//! who looks at it, to a cache or a proxy in front (`X-Accel-Redirect` makes one serve a file of its own), to a program
//! that follows a redirect with its token. So only headers go through that describe the answer itself, and those that
//! programs agree on (`X-…`); a redirect leads to the same task. Whoever needs others has `estimand tasks forward`.

use std::io;

use actix_web::body::SizedStream;
use actix_web::http::StatusCode;
use actix_web::http::header::HeaderValue;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use estimand_api::problem::Problem;
use estimand_web::{Foreign, host_of, public_path, wire};
use futures_util::TryStreamExt as _;
use http_body_util::BodyDataStream;
use hyper::body::Incoming;
use hyper::http::Response;
use hyper::http::header::{CONTENT_LENGTH, LOCATION, UPGRADE};
use hyper_util::rt::TokioIo;
use tokio::io::{copy_bidirectional, join};
use url::Url;

use super::{TASK_HOST, bad_gateway, target};
use crate::TaskService;

/// Headers about the answer itself.
const PASSED: [&str; 12] = [
    "accept-ranges",
    "allow",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
    "retry-after",
    "vary",
];
/// Beginnings of those that programs agree on, or that a WebSocket begins with.
const PASSED_FAMILIES: [&str; 2] = ["x-", "sec-websocket-"];
/// Beginnings of those among them that servers in front, browsers or this service take for their own.
const WITHHELD_FAMILIES: [&str; 18] = [
    "x-accel-",
    "x-content-",
    "x-dns-",
    "x-download-",
    "x-forwarded-",
    "x-frame-",
    "x-lighttpd-",
    "x-litespeed-",
    "x-original-",
    "x-permitted-",
    "x-real-",
    "x-reproxy-",
    "x-request-id",
    "x-rewrite-",
    "x-sendfile",
    "x-ua-",
    "x-webkit-",
    "x-xss-",
];
/// A browser that shows an answer all the same gives it an origin of its own, in which it runs nothing.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'; frame-ancestors 'none'");

/// The answer to a request of which `upgrade` is the body if it asked for a WebSocket.
pub(super) fn response(
    service: &TaskService,
    req: &HttpRequest,
    id: &str,
    answer: Response<Incoming>,
    upgrade: Option<Payload>,
) -> Result<HttpResponse, Problem> {
    let is_switched = answer.status() == hyper::http::StatusCode::SWITCHING_PROTOCOLS;
    match upgrade {
        Some(body) if is_switched && is_websocket(&answer) => Ok(upgraded(service, req, id, answer, body)),
        _ if is_switched => {
            Err(bad_gateway(id, &io::Error::other("it changes to a protocol that was not asked for")))
        }
        _ => Ok(answered(req, id, answer)),
    }
}

fn is_websocket(answer: &Response<Incoming>) -> bool {
    answer.headers().get(UPGRADE).is_some_and(|kind| kind.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The response that begins like the answer of a task.
fn begun(req: &HttpRequest, id: &str, answer: &Response<Incoming>) -> HttpResponseBuilder {
    let status = StatusCode::from_u16(answer.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::build(status);
    for (name, value) in answer.headers().iter().filter(|(name, _)| is_passed(name.as_str())) {
        response.append_header((name.as_str(), value.as_bytes()));
    }
    let place = answer.headers().get(LOCATION).and_then(|place| place.to_str().ok());
    let prefix = public_path(req, format!("/api/tasks/{id}/web"));
    if let Some(place) =
        place.and_then(|place| place_in_task(place, &target(req), host_of(req).unwrap_or_default(), &prefix))
    {
        response.insert_header(("location", place));
    }
    response.insert_header(("content-security-policy", SANDBOX));
    response
}

fn is_passed(name: &str) -> bool {
    let begins = |families: &[&str]| families.iter().any(|family| name.starts_with(family));
    PASSED.contains(&name) || (begins(&PASSED_FAMILIES) && !begins(&WITHHELD_FAMILIES))
}

/// The place that a task names, as the caller gets to it: one at the task is below the task's path, whatever dots it has.
/// Otherwise a program that follows it would bring its token, and with 307 its body, to a request of the task's choice.
fn place_in_task(place: &str, target: &str, own_host: &str, prefix: &str) -> Option<String> {
    let named = Url::parse(&format!("http://{TASK_HOST}{target}")).ok()?.join(place).ok()?;
    let is_own = ["http", "https"].iter().any(|scheme| {
        let own = Url::parse(&format!("{scheme}://{own_host}"));
        own.is_ok_and(|own| {
            own.host() == named.host() && own.port_or_known_default() == named.port_or_known_default()
        })
    });
    match named.host_str() {
        Some(TASK_HOST) => {}
        _ if is_own => {}
        // Clients leave their token out there.
        _ => return Some(named.into()),
    }
    let query = named.query().map(|query| format!("?{query}")).unwrap_or_default();
    let fragment = named.fragment().map(|fragment| format!("#{fragment}")).unwrap_or_default();
    Some(format!("{prefix}{}{query}{fragment}", named.path()))
}

fn answered(req: &HttpRequest, id: &str, answer: Response<Incoming>) -> HttpResponse {
    let mut response = begun(req, id, &answer);
    let length = answer.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let has_no_body = matches!(answer.status().as_u16(), 204 | 205 | 304);
    let body = BodyDataStream::new(answer.into_body()).map_err(io::Error::other);
    let mut response = match length {
        // Whatever length they say is that of what another answer would have.
        _ if has_no_body => response.finish(),
        Some(length) => response.body(SizedStream::new(length, body)),
        None => response.streaming(body),
    };
    response.extensions_mut().insert(Foreign);
    response
}

/// The caller's connection is one to the task from here on.
fn upgraded(
    service: &TaskService,
    req: &HttpRequest,
    id: &str,
    answer: Response<Incoming>,
    body: Payload,
) -> HttpResponse {
    let mut response = begun(req, id, &answer);
    let (wire, out) = wire(body);
    let service = service.clone();
    actix_web::rt::spawn(async move {
        let Ok(task) = hyper::upgrade::on(answer).await else { return };
        let (mut caller, mut task) = (join(wire.0, wire.1), TokioIo::new(task));
        tokio::select! {
            // It ends when one of them goes away.
            _ = copy_bidirectional(&mut caller, &mut task) => {}
            () = service.0.stop.requested() => {}
        }
    });
    response.upgrade("websocket").body(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_speak_for_this_service_stay_behind() {
        for passed in ["content-type", "etag", "x-of-task", "x-ratelimit-limit", "sec-websocket-accept"] {
            assert!(is_passed(passed), "{passed}");
        }
        for withheld in [
            "set-cookie",
            "server",
            "via",
            "date",
            "strict-transport-security",
            "access-control-allow-origin",
            "www-authenticate",
            "link",
            "refresh",
            "report-to",
            "nel",
            "clear-site-data",
            "alt-svc",
            "connection",
            "content-length",
            "content-security-policy",
            "x-content-type-options",
            "x-frame-options",
            "x-accel-redirect",
            "x-sendfile",
            "x-request-id",
            "estimand-hint",
        ] {
            assert!(!is_passed(withheld), "{withheld}");
        }
    }

    #[test]
    fn a_redirect_leads_to_the_same_task() {
        let leads = |place: &str| place_in_task(place, "/a/b?c", "h:7070", "/api/tasks/t/web").unwrap();
        for (place, there) in [
            ("/login?next=/a#x", "/api/tasks/t/web/login?next=/a#x"),
            ("c", "/api/tasks/t/web/a/c"),
            ("http://localhost/x", "/api/tasks/t/web/x"),
            ("http://localhost:8888/x", "/api/tasks/t/web/x"),
            ("http://h:7070/api/tasks/other/cancel", "/api/tasks/t/web/api/tasks/other/cancel"),
            ("//h:7070/api/tokens", "/api/tasks/t/web/api/tokens"),
            ("../../../../api/tokens", "/api/tasks/t/web/api/tokens"),
            ("/%2e%2e/..\\%2E./api/tokens", "/api/tasks/t/web/api/tokens"),
            ("https://elsewhere.example/x", "https://elsewhere.example/x"),
        ] {
            assert_eq!(leads(place), there, "{place}");
        }
    }
}
