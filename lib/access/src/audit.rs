//! The audit trail: each change of a registration, binding, token, user or node, with its author, address and time.
//!
//! Nothing is written twice for it: registrations and bindings keep a history of their own. The trail joins them with
//! the entries of tokens, users and nodes, which have no history.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::access::AuditEntry;
use estimand_api::instant::parse_rfc3339;
use estimand_api::problem::{FieldError, Problem};
use estimand_store::{AuditRow, HistoryEntry, SwapRow, Trail};
use estimand_web::{Failure, Query};
use serde_json::{Value, json};

use crate::{Access, tokens, unreachable};

const USUAL: usize = 100;
const MOST: usize = 1000;

/// The changes, each with its author; the newest first.
#[utoipa::path(
    get,
    path = "/api/audit",
    tag = "access",
    params(
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "At most so many: 1 to 1000, by default 100"),
        ("before" = Option<String>, Query, format = DateTime, description = "Only what happened before that time"),
    ),
    responses(
        (status = 200, description = "Changes of registrations, bindings, tokens, users' limits and nodes", body = [AuditEntry]),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn list(req: HttpRequest, access: ThinData<Access>) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["limit", "before"])?;
    let limit = query.get("limit").map_or(Ok(USUAL), read_limit).map_err(Problem::invalid_field)?;
    let before = query.get("before").map_or(Ok(i64::MAX), read_time).map_err(Problem::invalid_field)?;
    let rows = i64::try_from(limit).unwrap_or(i64::MAX);
    let trail = access.0.0.worker.run(move |connection| connection.trail(before, rows)).await;
    let trail = trail.map_err(|error| unreachable(&error))?;
    Ok(HttpResponse::Ok().json(merged(trail, limit)))
}

fn read_limit(text: &str) -> Result<usize, FieldError> {
    let wrong = || FieldError::new("limit", "is not such a number").given(text).expected("1 to 1000");
    text.parse().ok().filter(|limit| (1..=MOST).contains(limit)).ok_or_else(wrong)
}

fn read_time(text: &str) -> Result<i64, FieldError> {
    let wrong =
        || FieldError::new("before", "is not a time").given(text).expected("e.g. 2026-01-31T12:00:00Z");
    parse_rfc3339(text).ok_or_else(wrong)
}

fn merged(trail: Trail, limit: usize) -> Vec<AuditEntry> {
    let registrations = trail.registrations.into_iter().map(registration);
    let bindings = trail.bindings.into_iter().map(binding);
    let mut all: Vec<AuditEntry> =
        registrations.chain(bindings).chain(trail.others.into_iter().map(other)).collect();
    all.sort_by_key(|entry| std::cmp::Reverse(entry.at));
    all.truncate(limit);
    all
}

fn registration(row: HistoryEntry) -> AuditEntry {
    let detail = Some(json!({ "version": row.version }));
    entry(row.at, &row.actor, "registration", row.data_name, row.action, detail)
}

fn binding(row: SwapRow) -> AuditEntry {
    let mut detail = json!({ "to": row.target, "before": row.before_target });
    if let Some(field) = row.field {
        detail["field"] = field.into();
    }
    entry(row.at, &row.actor, "binding", row.data_name, row.action, Some(detail))
}

fn other(row: AuditRow) -> AuditEntry {
    let detail = row.detail.and_then(|text| serde_json::from_str(&text).ok());
    entry(row.at, &row.actor, &row.kind, row.subject, row.action, detail)
}

/// `actor` is a name, an address, or both with an `@` between them.
fn entry(
    at: i64,
    actor: &str,
    kind: &str,
    subject: String,
    action: String,
    detail: Option<Value>,
) -> AuditEntry {
    let (by, from) = match actor.rsplit_once('@') {
        Some((by, from)) => (Some(by), Some(from)),
        None if actor.parse::<std::net::IpAddr>().is_ok() => (None, Some(actor)),
        None => (Some(actor), None),
    };
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let kind = kind.to_owned();
    AuditEntry { at: tokens::instant(at), by: owned(by), from: owned(from), kind, subject, action, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_comes_first_whatever_it_is() {
        let of = |at, actor: &str| AuditRow {
            at,
            id: "1".to_owned(),
            kind: "node".to_owned(),
            subject: "n".to_owned(),
            action: "cordoned".to_owned(),
            actor: actor.to_owned(),
            detail: None,
        };
        let change = HistoryEntry {
            data_name: "cpu".to_owned(),
            version: 3,
            action: "replaced".to_owned(),
            at: 20,
            actor: "laptop@10.0.0.7".to_owned(),
            spec: "{}".to_owned(),
        };
        let trail = Trail {
            registrations: vec![change],
            bindings: vec![],
            others: vec![of(30, "::1"), of(10, "manager")],
        };
        let merged = merged(trail, 2);
        let who: Vec<(Option<&str>, Option<&str>)> =
            merged.iter().map(|entry| (entry.by.as_deref(), entry.from.as_deref())).collect();
        assert_eq!(who, [(None, Some("::1")), (Some("laptop"), Some("10.0.0.7"))]);
        assert_eq!(merged[1].detail, Some(json!({ "version": 3 })));
    }
}
