//! Tunnels: opened by people, made or refused by agents.

use std::time::Duration;

use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::access::forbidden;
use estimand_api::json::parse_object;
use estimand_api::names::NodeName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::tunnel::{MAX_REASON_BYTES, MAX_TUNNEL_WAIT_MS, TunnelOrders, TunnelRefusal};
use estimand_runtime::tunnel::{Half, Side, relay};
use estimand_web::parameters::{parsed, whole};
use estimand_web::{Body, Failure, Principal, Query, Wire, segment, websocket};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::TaskService;
use crate::scope::Scope;
use crate::tunnels::{Permit, Tunnel};

/// The largest body, in which each byte of a reason may be escaped.
const MAX_REFUSAL_BYTES: usize = 8 * MAX_REASON_BYTES;

/// Opens a connection to the port of a task, as a WebSocket.
///
/// Binary messages are its bytes. The text message `end` says that no more come from there. It is closed by whoever has both
/// said and heard that; one that is closed earlier broke off.
#[utoipa::path(
    get,
    path = "/api/tasks/{id}/tunnel",
    tag = "tasks",
    params(("id" = String, Path)),
    responses(
        (status = 101, description = "The connection is a WebSocket now, and one to the port of the task"),
        (status = 400, description = "This is no request for a WebSocket", body = Problem),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 409, description = "It has no port, or is over", body = Problem),
        (status = 503, description = "It does not run yet or nothing of it listens yet, its node is lost or does not answer, or there are too many connections", body = Problem),
    )
)]
pub async fn open(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let task = service.shared().task(&Scope::of(&caller), segment(&req, "id"))?;
    // Before anybody is asked for a connection.
    let (response, wire) = websocket(&req, body)?;
    let Tunnel { half, permit } = service.shared().tunnels.open(&task, caller.as_user()).await?;
    join(&service, wire, half, Some(permit));
    Ok(response)
}

/// The tunnels that the agent of a node is to make.
#[utoipa::path(
    get,
    path = "/api/tasks/tunnels",
    tag = "agents",
    params(
        ("node" = String, Query, description = "The node"),
        ("after" = Option<u64>, Query, description = "Only those after this number; 0 if absent"),
        ("waitMs" = Option<u64>, Query, description = "How many milliseconds to wait for one; 0 if absent, and never longer than 30,000"),
    ),
    responses(
        (status = 200, description = "Those that are waited for", body = TunnelOrders),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 403, description = "The caller does not speak for this node", body = Problem),
    )
)]
pub async fn orders(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["node", "after", "waitMs"])?;
    let node: NodeName = parsed("node", query.get("node").unwrap_or_default())?;
    if !caller.speaks_for(node.as_str()) {
        return Err(forbidden(format!("the caller does not speak for `{node}`")).into());
    }
    let after = whole("after", query.get("after"), 0, u64::MAX)?;
    let wait = whole("waitMs", query.get("waitMs"), 0, u64::MAX)?.min(MAX_TUNNEL_WAIT_MS);
    let end = Instant::now() + Duration::from_millis(wait);
    let tunnels = &service.shared().tunnels;
    let mut bell = tunnels.listen();
    loop {
        bell.mark_unchanged();
        let orders = TunnelOrders { tunnels: tunnels.orders(node.as_str(), after) };
        let is_enough = !orders.tunnels.is_empty() || service.is_stopping();
        if is_enough || timeout_at(end, service.rung(&mut bell)).await.is_err() {
            return Ok(HttpResponse::Ok().json(orders));
        }
    }
}

/// The agent of a node makes a tunnel, as a WebSocket.
#[utoipa::path(
    get,
    path = "/api/tasks/tunnels/{number}",
    tag = "agents",
    params(("number" = u64, Path)),
    responses(
        (status = 101, description = "The connection is a WebSocket now, and one to whoever waited for the tunnel"),
        (status = 400, description = "This is no request for a WebSocket", body = Problem),
        (status = 404, description = "Nobody waits for it on a node that the caller speaks for", body = Problem),
    )
)]
pub async fn make(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let number = number(&req)?;
    let (response, wire) = websocket(&req, body)?;
    let half = service.shared().tunnels.make(number, |node| caller.speaks_for(node))?;
    join(&service, wire, half, None);
    Ok(response)
}

/// The agent of a node cannot make a tunnel.
#[utoipa::path(
    post,
    path = "/api/tasks/tunnels/{number}",
    tag = "agents",
    params(("number" = u64, Path)),
    request_body(content = TunnelRefusal, description = "The reason"),
    responses(
        (status = 204, description = "Whoever waited for it is told"),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 404, description = "Nobody waits for it on a node that the caller speaks for", body = Problem),
    )
)]
pub async fn refuse(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_REFUSAL_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let TunnelRefusal { reason } = body.parse(refusal).await?;
    service.shared().tunnels.refuse(number(&req)?, reason, |node| caller.speaks_for(node))?;
    Ok(HttpResponse::NoContent().finish())
}

fn number(req: &HttpRequest) -> Result<u64, Problem> {
    parsed("number", segment(req, "number"))
}

fn refusal(body: &[u8]) -> Result<TunnelRefusal, Problem> {
    let wrong = |message: String| Problem::invalid_field(FieldError::new("body", message));
    let refusal: TunnelRefusal = serde_json::from_value(Value::Object(parse_object(body)?))
        .map_err(|error| wrong(error.to_string()))?;
    match refusal.reason.len() <= MAX_REASON_BYTES {
        true => Ok(refusal),
        false => Err(wrong(format!("has a reason of more than {MAX_REASON_BYTES} bytes"))),
    }
}

/// Passes on what comes and goes, until one of the two or the service ends. The permit is given back then.
fn join(service: &TaskService, wire: Wire, half: Half, permit: Option<Permit>) {
    let service = service.clone();
    actix_web::rt::spawn(async move {
        let _permit = permit;
        tokio::select! {
            // It ends when its peer goes away.
            _ = relay(wire, half, Side::Server) => {}
            () = service.0.stop.requested() => {}
        }
    });
}
