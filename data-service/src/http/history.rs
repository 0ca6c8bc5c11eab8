//! History: the kept values of the names that ask for it. Read from the database, on a connection of its own,
//! so that it delays no write; the only read that waits for anything.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::instant::{Moment, moment, push_rfc3339};
use estimand_api::json::push_string;
use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::value::PastValue;
use estimand_store::{HistoryQuery, HistoryRow, MAX_HISTORY_BYTES, PastRows};
use estimand_web::{Failure, Query, User};

use crate::DataService;
use crate::core::rendering::push_number;
use crate::http::asked::{field_of, node_of};

pub const DEFAULT_LIMIT: u64 = 1_000;
const MAX_LIMIT: u64 = 100_000;

/// The past values of a name that are kept, oldest first.
#[utoipa::path(
    get,
    path = "/api/data/history",
    tag = "history",
    params(
        ("dataName" = DataName, Query),
        ("dataNode" = Option<NodeName>, Query, description = "Only of this node; also spelt `nodeName`"),
        ("since" = Option<Moment>, Query, description = "Collected at this instant (RFC 3339) or later, or no longer ago than e.g. `1h`"),
        ("until" = Option<Moment>, Query, description = "Collected before this instant, or longer ago than that"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 100_000, description = "At most so many, the newest: 1 to 100000, by default 1000"),
        ("field" = Option<Pointer>, Query, description = "Only this part of each value, a JSON pointer such as `/value`; of the newest `limit`, values without it are left out"),
    ),
    responses(
        (status = 200, description = "What was kept, `[]` if nothing was", body = [PastValue]),
        (status = 304, description = "It is what `If-None-Match` says"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 413, description = "The values asked for are more than 64 MiB", body = Problem),
        (status = 503, description = "The database does not answer", body = Problem),
    )
)]
pub async fn history(req: HttpRequest, service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let allowed = &["dataName", "dataNode", "nodeName", "since", "until", "limit", "field"];
    let query = Query::parse(req.query_string(), allowed)?;
    let name = query.get("dataName").unwrap_or_default();
    let name = DataName::parse(name).map_err(|e| Problem::invalid_field(e.at("dataName")))?;
    let snapshot = service.snapshot()?;
    let node = node_of(query.get("dataNode"), query.get("nodeName"))?;
    let field = field_of(query.get("field"))?;
    let now = service.now();
    let asked = HistoryQuery {
        // The past of a binding is that of the name it leads to now, and of that the part that it serves.
        data_name: snapshot.resolve(&name).to_string(),
        node_name: node.map(str::to_owned),
        since: query.get("since").map(|text| moment("since", text, now)).transpose()?,
        until: query.get("until").map(|text| moment("until", text, now)).transpose()?,
        limit: query.get("limit").map(limit).transpose()?.unwrap_or(DEFAULT_LIMIT) as i64,
    };
    let PastRows { rows, is_cut } = service.past(User::of(&req), asked).await?;
    if is_cut {
        let (fit, most) = (rows.len(), MAX_HISTORY_BYTES >> 20);
        return Err(Problem::too_large(format!(
            "the values asked for take more than {most} MiB, the most that is read at once; ask for at most {fit} with \
             `limit`, or for a shorter time with `since` and `until`"
        ))
        .into());
    }
    let mut out = Vec::with_capacity(2 + rows.len() * 200);
    out.push(b'[');
    let view = snapshot.view(&name);
    for row in &rows {
        let part = |text| field.as_ref().map_or(Some(text), |field| field.find(text));
        let Some(text) = view.part(&row.data_value).and_then(part) else { continue };
        if out.len() > 1 {
            out.push(b',');
        }
        push_row(&mut out, &name, row, text);
    }
    out.push(b']');
    Ok(HttpResponse::Ok().content_type("application/json").body(Bytes::from(out)))
}

fn push_row(out: &mut Vec<u8>, name: &DataName, row: &HistoryRow, text: &str) {
    out.extend_from_slice(b"{\"dataName\":");
    push_string(out, name.as_str());
    out.extend_from_slice(b",\"nodeName\":");
    push_string(out, &row.node_name);
    out.extend_from_slice(b",\"dataValue\":");
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b",\"collectedAt\":\"");
    push_rfc3339(out, row.collected_at);
    out.extend_from_slice(b"\",\"receivedAt\":\"");
    push_rfc3339(out, row.received_at);
    out.extend_from_slice(b"\",\"revision\":");
    push_number(out, row.revision.unsigned_abs());
    out.push(b'}');
}

/// How many of something that was kept are asked for.
pub fn limit(text: &str) -> Result<u64, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| {
        let error = FieldError::new("limit", "is not valid").given(text);
        Problem::invalid_field(error.expected("a whole number from 1 to 100000"))
    })
}
