//! The news of agents.

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_api::json::parse_object;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::task::TaskNews;
use estimand_web::{Body, Failure, Principal};
use serde_json::{Value, json};

use crate::TaskService;

/// The largest body.
const MAX_NEWS_BYTES: usize = 8 * 1024 * 1024;

/// An agent reports the logs of its tasks, and how far they are.
///
/// News that is known already, or about an attempt that is over or on another node, is passed over. The answer comes when
/// the rest is stored.
#[utoipa::path(
    post,
    path = "/api/tasks/news",
    tag = "agents",
    request_body(content = TaskNews, description = "Logs, then reports, then the lines that have not ended"),
    responses(
        (status = 200, description = "Stored, or nothing new", body = inline(Object)),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now: to be sent again", body = Problem),
    )
)]
pub async fn news(
    caller: Principal,
    body: Body<MAX_NEWS_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let came = service.shared().clock.now_micros();
    let news = body.parse(read).await?;
    service.take_news(news, came, caller.node()).await?;
    Ok(HttpResponse::Ok().json(json!({})))
}

fn read(body: &[u8]) -> Result<TaskNews, Problem> {
    serde_json::from_value(Value::Object(parse_object(body)?))
        .map_err(|error| Problem::invalid_field(FieldError::new("body", error.to_string())))
}
