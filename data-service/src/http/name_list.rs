//! The list of names, for people who look for one: how many values each has, and how they are.

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use chrono::DateTime;
use estimand_api::names::DataName;
use estimand_api::problem::Problem;
use estimand_api::value::{NameSummary, StateCounts};
use estimand_web::Failure;

use crate::DataService;
use crate::core::snapshot::Snapshot;
use crate::http::write::json;

/// Every name that serves values, its own or those of another one, in their order, without the values.
#[utoipa::path(
    get,
    path = "/api/data/names",
    tag = "data",
    responses(
        (status = 200, description = "The names, all of one revision", body = [NameSummary]),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn list(service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let snapshot = service.snapshot()?;
    let names: Vec<NameSummary> =
        snapshot.all_names().into_iter().map(|name| summary(&snapshot, name)).collect();
    Ok(json(&names))
}

fn summary(snapshot: &Snapshot, name: &DataName) -> NameSummary {
    let (mut values, mut states, mut last) = (0, StateCounts::default(), None);
    for shown in snapshot.table(name.as_str()).into_iter().flat_map(|table| table.all()) {
        let facts = shown.facts();
        values += 1;
        states.count(facts.marks.state());
        last = last.max(Some(facts.received_at));
    }
    let bound_to = snapshot.bindings().get(name).map(|bound| bound.served.to.clone());
    let changed_at = last.and_then(DateTime::from_timestamp_micros);
    NameSummary { data_name: name.clone(), bound_to, values, states, changed_at }
}
