//! Tunnels, as agents make or refuse them.

use std::time::Duration;

use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::access::forbidden;
use estimand_api::json::parse_object;
use estimand_api::names::NodeName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::tunnel::{MAX_REASON_BYTES, MAX_TUNNEL_WAIT_MS, TunnelOrders, TunnelRefusal};
use estimand_web::parameters::{parsed, whole};
use estimand_web::{Body, Failure, Principal, Query, segment, websocket};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::orders::OrderBook;
use crate::TaskService;
use crate::http::tunnels::join;

/// The largest body, in which each byte of a reason may be escaped.
const MAX_REFUSAL_BYTES: usize = 8 * MAX_REASON_BYTES;

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
    let book = service.tunnel_orders();
    let mut bell = book.listen();
    loop {
        bell.mark_unchanged();
        let orders = TunnelOrders { tunnels: book.of_node(node.as_str(), after) };
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
    let half = service.tunnel_orders().make(number, |node| caller.speaks_for(node))?;
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
    service.tunnel_orders().refuse(number(&req)?, reason, |node| caller.speaks_for(node))?;
    Ok(HttpResponse::NoContent().finish())
}

impl TaskService {
    fn tunnel_orders(&self) -> &OrderBook {
        &self.0.tunnel_orders
    }
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
