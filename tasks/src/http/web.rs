//! Requests to a task: HTTP/1.1 to its port, for programs that show a token.
//!
//! The task is a stranger to whom nothing of ours is shown, and whose answers no browser takes for pages of ours.

mod answers;

use std::io;
use std::time::Duration;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue, ORIGIN};
use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::problem::Problem;
use estimand_runtime::tunnel::Half;
use estimand_web::{Failure, Principal, host_of, is_own_origin, is_upgrade, public_path, segment};
use futures_util::TryStreamExt as _;
use http_body_util::{Either, Empty, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::http::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use crate::TaskService;
use crate::scope::Scope;
use crate::tunnels::{Permit, Tunnel};

/// How long a task may take to begin its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10 * 60);
/// The segments of a path before that of the task's own: `/api/tasks/ID/web/`.
const SEGMENTS_BEFORE: usize = 5;
/// Headers that are about one connection, or whose meaning is between a caller and this service. A task has neither the
/// caller's credentials nor cookies of others of this host.
const WITHHELD: [&str; 13] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "referer",
    "authorization",
    "cookie",
];
/// The host of a task as it is told, and the origin of its pages.
const TASK_HOST: &str = "localhost";
const TASK_ORIGIN: HeaderValue = HeaderValue::from_static("http://localhost");
/// Beginnings of further ones.
const WITHHELD_FAMILIES: [&str; 3] = ["x-forwarded-", "estimand-", "access-control-"];

type RequestBody = Either<Empty<Bytes>, StreamBody<Frames>>;
type Frames = std::pin::Pin<Box<dyn futures_util::Stream<Item = io::Result<Frame<Bytes>>>>>;

/// Passes a request on to the port of a task, and its answer back.
///
/// The task gets method, path below `/web/`, query, headers and body as they are, but no credentials and no cookies; `X-Forwarded-For`,
/// `-Host`, `-Proto` and `-Prefix` say whence it comes. WebSockets go through. It is for programs: a browser goes through
/// `estimand tasks forward`.
#[utoipa::path(
    method(get, post, put, patch, delete),
    path = "/api/tasks/{id}/web/{rest}",
    tag = "tasks",
    params(
        ("id" = String, Path),
        ("rest" = String, Path, description = "The path at the task, with all of its segments"),
        ("any" = Option<String>, Query, description = "The query is the task's, whatever is in it"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The body is the task's, too"),
    responses(
        (status = "default", description = "The answer of the task"),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 409, description = "It has no port, or is over", body = Problem),
        (status = 502, description = "What listens at its port does not speak HTTP, or broke off", body = Problem),
        (status = 503, description = "It does not run yet or nothing of it listens yet, its node is lost or does not answer, or there are too many connections", body = Problem),
        (status = 504, description = "It did not begin to answer within ten minutes", body = Problem),
    )
)]
pub async fn web(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let id = segment(&req, "id").to_owned();
    let task = service.shared().task(&Scope::of(&caller), &id)?;
    let Tunnel { half, permit } = service.tunnel(&task, &caller).await?;
    let mut sender = connect(&service, half, permit).await.map_err(|error| bad_gateway(&id, &error))?;
    let upgrades = is_upgrade(&req);
    let (sent, body) = match upgrades {
        true => (Either::Left(Empty::new()), Some(body)),
        false => (body_of(&req, body), None),
    };
    let request = request(&req, &id, upgrades, sent).map_err(|error| bad_gateway(&id, &error))?;
    let late =
        |_| Problem::new(504, "no-answer", "There is no answer", format!("`{id}` did not answer in time"));
    let answer = timeout(ANSWERED_WITHIN, sender.send_request(request)).await.map_err(late)?;
    let answer = answer.map_err(|error| bad_gateway(&id, &error))?;
    Ok(answers::response(&service, &req, &id, answer, body)?)
}

/// An HTTP connection over a tunnel, which lives until both sides are done with it.
async fn connect(
    service: &TaskService,
    half: Half,
    permit: Permit,
) -> hyper::Result<SendRequest<RequestBody>> {
    let (sender, connection) = handshake(TokioIo::new(half)).await?;
    let service = service.clone();
    actix_web::rt::spawn(async move {
        let _permit = permit;
        tokio::select! {
            // The caller who waits for the answer is told the error.
            _ = connection.with_upgrades() => {}
            () = service.0.stop.requested() => {}
        }
    });
    Ok(sender)
}

/// The body of a request, which most have not.
fn body_of(req: &HttpRequest, body: Payload) -> RequestBody {
    let headers = req.headers();
    let has_any = headers.contains_key("transfer-encoding")
        || headers.get("content-length").is_some_and(|length| length != "0");
    match has_any {
        false => Either::Left(Empty::new()),
        true => {
            let frames: Frames = Box::pin(body.map_ok(Frame::data).map_err(io::Error::other));
            Either::Right(StreamBody::new(frames))
        }
    }
}

/// The request as the task gets it.
fn request(
    req: &HttpRequest,
    id: &str,
    upgrades: bool,
    body: RequestBody,
) -> Result<Request<RequestBody>, hyper::http::Error> {
    let mut request = Request::builder().method(req.method().as_str()).uri(target(req));
    for (name, value) in passed_on(req.headers()) {
        request = request.header(name.as_str(), origin_at_task(req, name, value).as_bytes());
    }
    let from = req.peer_addr().map(|peer| peer.ip().to_canonical().to_string()).unwrap_or_default();
    let scheme = if req.app_config().secure() { "https" } else { "http" };
    let forwarded = [
        ("host", TASK_HOST.to_owned()),
        ("x-forwarded-for", from),
        ("x-forwarded-host", host_of(req).unwrap_or_default().to_owned()),
        ("x-forwarded-proto", scheme.to_owned()),
        ("x-forwarded-prefix", public_path(req, format!("/api/tasks/{id}/web"))),
    ];
    for (name, value) in forwarded {
        request = request.header(name, value);
    }
    if upgrades {
        request = request.header(header::CONNECTION, "upgrade").header(header::UPGRADE, "websocket");
    }
    request.body(body)
}

/// The value of a header as the task gets it. An `Origin` of this service is one of the task, as the task's `Host` is: notebooks
/// compare the two. The origin of anybody else stays what it is.
fn origin_at_task(req: &HttpRequest, name: &HeaderName, value: &HeaderValue) -> HeaderValue {
    match *name == ORIGIN && is_own_origin(value, host_of(req)) {
        true => TASK_ORIGIN,
        false => value.clone(),
    }
}

/// The path below that of the task and the query, as they came.
fn target(req: &HttpRequest) -> String {
    let below = req.uri().path().splitn(SEGMENTS_BEFORE + 1, '/').nth(SEGMENTS_BEFORE).unwrap_or_default();
    match req.uri().query() {
        Some(query) => format!("/{below}?{query}"),
        None => format!("/{below}"),
    }
}

/// The headers that the other side may see; those that `Connection` names are about one connection, too.
fn passed_on(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let named: Vec<String> = headers
        .get_all("connection")
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    headers.iter().filter(move |(name, _)| {
        !is_withheld(name.as_str()) && !named.iter().any(|named| named == name.as_str())
    })
}

fn is_withheld(name: &str) -> bool {
    WITHHELD.contains(&name) || WITHHELD_FAMILIES.iter().any(|family| name.starts_with(family))
}

fn bad_gateway(id: &str, error: &dyn std::error::Error) -> Problem {
    let detail = match error.source() {
        Some(cause) => format!("`{id}` does not answer as HTTP/1.1 wants it: {error}: {cause}"),
        None => format!("`{id}` does not answer as HTTP/1.1 wants it: {error}"),
    };
    Problem::new(502, "bad-gateway", "The task does not answer as it should", detail)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_task_gets_the_path_below_its_own_as_it_came() {
        for (given, target_of_task) in [
            ("/api/tasks/t/web/", "/"),
            ("/api/tasks/t/web/a%2Fb/c//d?x=/1&y", "/a%2Fb/c//d?x=/1&y"),
            ("/api/tasks/t%2E1/web/..%2f?", "/..%2f?"),
            ("http://h:1/api/tasks/t/web/a", "/a"),
        ] {
            assert_eq!(target(&TestRequest::with_uri(given).to_http_request()), target_of_task, "{given}");
        }
    }

    #[test]
    fn an_origin_of_this_service_is_one_of_the_task() {
        let origin = |origin: &str| {
            let request = TestRequest::default().insert_header(("Host", "h:7070")).to_http_request();
            let value = HeaderValue::from_str(origin).unwrap();
            origin_at_task(&request, &ORIGIN, &value).to_str().unwrap().to_owned()
        };
        assert_eq!(origin("http://h:7070"), format!("http://{TASK_HOST}"));
        assert_eq!(origin("https://h:7070"), format!("http://{TASK_HOST}"));
        assert_eq!(origin("http://evil.example"), "http://evil.example");
    }

    #[test]
    fn a_task_gets_no_credentials_and_nothing_about_the_connection() {
        let request = TestRequest::default()
            .insert_header(("Authorization", "Bearer secret"))
            .insert_header(("Cookie", "a=b"))
            .insert_header(("Connection", "keep-alive, X-Mine"))
            .insert_header(("X-Mine", "1"))
            .insert_header(("X-Forwarded-For", "9.9.9.9"))
            .insert_header(("Estimand-Grant", "secret"))
            .insert_header(("Accept", "text/plain"))
            .to_http_request();
        let passed: Vec<&str> = passed_on(request.headers()).map(|(name, _)| name.as_str()).collect();
        assert_eq!(passed, ["accept"]);
    }
}
