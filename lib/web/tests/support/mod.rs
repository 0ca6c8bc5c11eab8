//! A service with a route of each kind, on a port of its own, and the plainest client there is: bytes out,
//! bytes in. The client is this plain so that tests can also send bytes that no library would.

#![allow(clippy::unwrap_used, dead_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, Responder, web};
use bytes::Bytes;
use estimand_api::problem::Problem;
use estimand_runtime::Metrics;
use estimand_runtime::stop::{self, StopTrigger};
use estimand_runtime::{Readiness, Stop, Tasks};
use estimand_web::server::ServerError;
use estimand_web::{
    Admission, Body, Failure, OpenAdmission, Origin, Principal, Query, Role, Routes, Server, ServerOptions,
    Site,
};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const BODY_LIMIT: usize = 16;

#[utoipa::path(get, path = "/things", tag = "things", params(("name" = Option<String>, Query)),
    responses((status = 200, description = "The name that was asked for", body = String)))]
async fn things(req: HttpRequest) -> Result<impl Responder, Failure> {
    let query = Query::parse(req.query_string(), &["name"])?;
    Ok(HttpResponse::Ok().body(query.get("name").unwrap_or("all").to_owned()))
}

#[utoipa::path(put, path = "/things", tag = "things", request_body = String,
    responses((status = 200, description = "Who sent how much"), (status = 413, body = Problem)))]
async fn put_thing(who: Principal, body: Body<BODY_LIMIT>) -> impl Responder {
    HttpResponse::Ok().body(format!("{who} sent {}", body.0.len()))
}

#[utoipa::path(delete, path = "/things/{name}", responses((status = 404, body = Problem)))]
async fn delete_thing(name: web::Path<u32>) -> Result<HttpResponse, Failure> {
    Err(Problem::not_found(format!("there is no thing {name}")).into())
}

#[utoipa::path(get, path = "/panic", responses((status = 500)))]
async fn panics() -> HttpResponse {
    panic!("as it was told to")
}

#[utoipa::path(get, path = "/teapot", responses((status = 418)))]
async fn bare_status() -> HttpResponse {
    HttpResponse::ImATeapot().finish()
}

#[utoipa::path(post, path = "/node", responses((status = 200)))]
async fn node() -> &'static str {
    "ok"
}

#[utoipa::path(get, path = "/stream", responses((status = 200, description = "Ends when the service does")))]
async fn stream(stop: web::ThinData<Stop>) -> impl Responder {
    let web::ThinData(stop) = stop;
    let first = stream::iter([Ok::<_, Failure>(Bytes::from_static(b"first;"))]);
    let until_stop = async move { stop.requested().await };
    let last = until_stop.map(|()| Ok(Bytes::from_static(b"last;"))).into_stream();
    HttpResponse::Ok().streaming(first.chain(last))
}

#[utoipa::path(get, path = "/endless", responses((status = 200, description = "Never ends")))]
async fn endless() -> impl Responder {
    let first = stream::iter([Ok::<_, Failure>(Bytes::from_static(b"first;"))]);
    HttpResponse::Ok().streaming(first.chain(stream::pending()))
}

pub fn routes(stop: Stop) -> Routes {
    Routes::new("test")
        .add(Role::Read, things, __path_things)
        .add(Role::Write, put_thing, __path_put_thing)
        .add(Role::Operate, delete_thing, __path_delete_thing)
        .add(Role::Read, panics, __path_panics)
        .add(Role::Read, bare_status, __path_bare_status)
        .add(Role::Node, node, __path_node)
        .add(Role::Read, stream, __path_stream)
        .add(Role::Read, endless, __path_endless)
        .share(stop)
}

/// A service that runs.
pub struct Running {
    pub address: SocketAddr,
    pub readiness: Readiness,
    pub tasks: Tasks,
    pub trigger: StopTrigger,
    serving: JoinHandle<Result<(), ServerError>>,
}

impl Running {
    pub fn start() -> Self {
        Self::allowing(&[])
    }

    /// One that allows pages of these origins.
    pub fn allowing(origins: &[&str]) -> Self {
        let origins: Vec<Origin> = origins.iter().map(|origin| origin.parse().unwrap()).collect();
        Self::serving(|stop| routes(stop).allow_origins(origins.into()), Arc::new(OpenAdmission))
    }

    /// A server with these routes, behind this admission.
    pub fn serving(routes: impl FnOnce(Stop) -> Routes, admission: Arc<dyn Admission>) -> Self {
        let (trigger, stop) = stop::pair();
        let (readiness, tasks) = (Readiness::new(), Tasks::new());
        let site = Site::new(routes(stop.clone()), admission, Metrics::new(), readiness.clone());
        let mut options = ServerOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.workers = Some(1);
        let server = Server::bind(&options, site).unwrap();
        let address = server.address().tcp().unwrap();
        let supervised = tasks.clone();
        let serving = tokio::spawn(async move { server.run_until(stop, &supervised).await });
        Running { address, readiness, tasks, trigger, serving }
    }

    pub async fn get(&self, target: &str) -> Reply {
        self.send("GET", target, "", b"").await
    }

    /// One request on a connection of its own. `headers` are whole lines.
    pub async fn send(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Reply {
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}{length}\r\n");
        self.raw(&[head.as_bytes(), body].concat()).await
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, closes the sending half and reads all that comes back.
    pub async fn raw(&self, bytes: &[u8]) -> Reply {
        let mut connection = self.connect().await;
        connection.write_all(bytes).await.unwrap();
        connection.shutdown().await.unwrap();
        Reply::parse(&read_to_end(&mut connection).await)
    }

    pub async fn stop(self) -> Result<(), ServerError> {
        self.trigger.request();
        tokio::time::timeout(PATIENCE, self.serving).await.unwrap().unwrap()
    }
}

pub async fn read_to_end(connection: &mut TcpStream) -> String {
    let mut received = Vec::new();
    tokio::time::timeout(PATIENCE, connection.read_to_end(&mut received)).await.unwrap().unwrap();
    String::from_utf8(received).unwrap()
}

/// Reads until `mark` has come.
pub async fn read_until(connection: &mut TcpStream, mark: &str) -> String {
    let mut received = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&received).contains(mark) {
            let mut piece = [0; 1024];
            let length = connection.read(&mut piece).await.unwrap();
            assert_ne!(length, 0, "the connection ended before {mark:?}");
            received.extend_from_slice(&piece[..length]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    String::from_utf8(received).unwrap()
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Reply {
    pub fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not a response: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        let headers: Vec<_> = lines.map(header).collect();
        let in_chunks = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if in_chunks { joined(body) } else { body.to_owned() };
        Reply { status, headers: headers.into_iter().collect(), body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The body of an error, which must be a problem that names its request.
    pub fn problem(&self) -> Problem {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: Problem = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem.status, self.status);
        assert_eq!(problem.request_id.as_deref(), self.header("x-request-id"));
        assert!(problem.request_id.is_some());
        problem
    }
}

/// A body that came in chunks, each behind its length.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body.push_str(&rest[..length]);
        chunks = rest[length..].trim_start_matches("\r\n");
    }
    body
}
