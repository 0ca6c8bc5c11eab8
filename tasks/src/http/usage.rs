//! The usage of the tasks that are kept, added up by user, by array or by a label.

use std::collections::HashMap;
use std::sync::Arc;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::resources::{CPU, MEMORY};
use estimand_api::selector::is_label_key;
use estimand_api::task_usage::{MAX_USAGE_GROUPS, UsageGroup, UsageReport};
use estimand_web::{Failure, Principal, Query};
use tokio::task::yield_now;

use crate::TaskService;
use crate::core::queue::TaskNumber;
use crate::scope::Scope;
use crate::task::Task;

/// Tasks that are looked at before others have their turn.
const PIECE: usize = 5_000;
const BY_EXPECTED: &str = "`user`, `array`, or `label:` and the name of a label, such as `label:study`";

/// The property by which tasks are in one group.
#[derive(Debug, PartialEq)]
enum Grouping {
    User,
    Array,
    Label(String),
}

impl Grouping {
    fn parse(given: &str) -> Result<Self, Problem> {
        let label = given.strip_prefix("label:").filter(|name| is_label_key(name));
        match (given, label) {
            ("user", _) => Ok(Grouping::User),
            ("array", _) => Ok(Grouping::Array),
            (_, Some(name)) => Ok(Grouping::Label(name.to_owned())),
            (_, None) => {
                let error = FieldError::new("by", "is nothing by which tasks are added up").given(given);
                Err(Problem::invalid_field(error.expected(BY_EXPECTED)))
            }
        }
    }

    fn name<'t>(&self, task: &'t Task) -> Option<&'t str> {
        match self {
            Grouping::User => task.user(),
            Grouping::Array => task.array.as_ref().map(|array| array.id.as_str()),
            Grouping::Label(name) => task.document.labels.get(name).map(String::as_str),
        }
    }
}

/// The usage of the tasks that are kept, with all of their attempts that were measured, beside what they asked for; a user's own.
#[utoipa::path(
    get,
    path = "/api/usage",
    tag = "tasks",
    params(("by" = String, Query, description = "`user`, `array`, or `label:NAME`")),
    responses(
        (status = 200, description = "The groups with the most processor time, at most 1,000, and all tasks together", body = UsageReport),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn usage(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["by"])?;
    let by = query
        .get("by")
        .ok_or_else(|| Problem::invalid_field(FieldError::new("by", "is required").expected(BY_EXPECTED)))?;
    let (grouping, scope) = (Grouping::parse(by)?, Scope::of(&caller));
    let (mut sums, mut end) = (Sums::default(), TaskNumber(u64::MAX));
    loop {
        let piece: Vec<Arc<Task>> = service.shared().table.loaded(|table| {
            let newest = table.newest(TaskNumber(0), end);
            newest.take(PIECE).cloned().collect()
        })?;
        let Some(last) = piece.last() else { break };
        end = last.number;
        piece.iter().filter(|task| scope.has(&task.document)).for_each(|task| sums.add(&grouping, task));
        yield_now().await;
    }
    Ok(HttpResponse::Ok().json(sums.report()))
}

#[derive(Default)]
struct Sums {
    groups: HashMap<Option<String>, UsageGroup>,
    all: UsageGroup,
}

impl Sums {
    fn add(&mut self, grouping: &Grouping, task: &Task) {
        let asked = |name: &str| task.document.resources.get(name).copied().unwrap_or(0);
        let used = task.progress.used.as_deref().map(|used| &used.sum);
        let name = grouping.name(task).map(str::to_owned);
        let group = self.groups.entry(name).or_default();
        for group in [group, &mut self.all] {
            group.add(asked(CPU), asked(MEMORY), used);
        }
    }

    fn report(self) -> UsageReport {
        let named = |(name, group)| UsageGroup { name, ..group };
        let mut groups: Vec<UsageGroup> = self.groups.into_iter().map(named).collect();
        groups.sort_by(|one, other| {
            other.used.cpu_us.cmp(&one.used.cpu_us).then_with(|| one.name.cmp(&other.name))
        });
        let more = groups.len().saturating_sub(MAX_USAGE_GROUPS) as u64;
        groups.truncate(MAX_USAGE_GROUPS);
        UsageReport { groups, more, all: self.all }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_added_up_by_what_can_be_named() {
        assert_eq!(Grouping::parse("user").unwrap(), Grouping::User);
        assert_eq!(Grouping::parse("label:team/x").unwrap(), Grouping::Label("team/x".to_owned()));
        for wrong in ["", "label", "label:", "label:a b", "users"] {
            let problem = Grouping::parse(wrong).unwrap_err();
            assert_eq!((problem.status, &*problem.errors[0].field), (400, "by"), "{wrong}");
        }
    }

    #[test]
    fn of_many_groups_the_largest_are_told_and_the_others_counted() {
        let mut sums = Sums::default();
        for number in 0..MAX_USAGE_GROUPS + 3 {
            let mut group = UsageGroup { tasks: 1, ..UsageGroup::default() };
            group.used.cpu_us = number as u64;
            sums.groups.insert(Some(format!("g{number}")), group);
        }
        let report = sums.report();
        assert_eq!((report.groups.len(), report.more), (MAX_USAGE_GROUPS, 3));
        assert_eq!(report.groups[0].name.as_deref(), Some("g1002"));
    }
}
