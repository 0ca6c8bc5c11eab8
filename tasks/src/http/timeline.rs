//! Free and promised capacity over time, by class of nodes.

use std::collections::BTreeMap;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::promise::{CapacityTimeline, ClassTimeline, LAST_TICK};
use estimand_capacity::{Standing, Window};
use estimand_web::parameters::whole;
use estimand_web::{Failure, Query};

use super::pages::REVISION;
use crate::TaskService;
use crate::core::book::Book;
use crate::core::nodes::Offer;
use crate::requests::MAX_PROMISES;
use crate::task::tick;

/// The most steps of an answer, and how many ticks it reaches if nothing is said.
const MAX_STEPS: u64 = 100_000;
const TICKS: u64 = 24 * 3600;
const STEP: u64 = 60;

/// Free and promised capacity over time, by class of nodes.
///
/// Work that runs without a promise is not counted: it makes room. All numbers are whole; an instant is a second since 1970.
#[utoipa::path(
    get,
    path = "/api/capacity/timeline",
    tag = "tasks",
    params(
        ("class" = Option<String>, Query, description = "Only this class of nodes"),
        ("from" = Option<u64>, Query, description = "The first tick; the present one if absent"),
        ("until" = Option<u64>, Query, description = "The first tick after it; a day after `from` if absent"),
        ("step" = Option<u64>, Query, description = "How many ticks each number stands for; 60 if absent. There are at most 100,000 steps"),
    ),
    responses(
        (status = 200, description = "The timeline; the header `Estimand-Revision` has the ledger's revision, too", body = CapacityTimeline),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet, or the nodes are not known yet", body = Problem),
    )
)]
pub async fn timeline(req: HttpRequest, service: ThinData<TaskService>) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["class", "from", "until", "step"])?;
    let shared = service.shared();
    let now = tick(shared.clock.now_micros());
    let from = whole("from", query.get("from"), now, LAST_TICK)?;
    let until = whole("until", query.get("until"), from.saturating_add(TICKS), LAST_TICK + TICKS)?;
    let step = whole("step", query.get("step"), STEP, LAST_TICK)?;
    let window = Window::new(from, until)
        .map_err(|error| Problem::invalid_field(FieldError::new("until", error.to_string())))?;
    if step == 0 || (until - from).div_ceil(step) > MAX_STEPS {
        let least = (until - from).div_ceil(MAX_STEPS);
        let error = FieldError::new("step", "makes too many steps").given(step);
        return Err(Problem::invalid_field(error.expected(format!("at least {least}"))).into());
    }
    let class = query.get("class");
    let timeline = shared.table.loaded(|table| {
        let promises = &table.promises;
        let nodes = promises.nodes()?;
        Some(CapacityTimeline {
            revision: promises.revision,
            now,
            from,
            step,
            promises_left: Some(MAX_PROMISES.saturating_sub(promises.live().count()) as u64),
            classes: classes(&table.book, nodes, class, window, step),
        })
    })?;
    let unknown = || Problem::unavailable("the nodes are not known yet", 1);
    let timeline = timeline.ok_or_else(unknown)?;
    Ok(HttpResponse::Ok().insert_header((REVISION.clone(), timeline.revision)).json(timeline))
}

fn classes(
    book: &Book,
    nodes: &[Offer],
    only: Option<&str>,
    window: Window,
    step: u64,
) -> Vec<ClassTimeline> {
    let mut by_class: BTreeMap<&str, Vec<&Offer>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| only.is_none_or(|only| only == node.class())) {
        by_class.entry(node.class()).or_default().push(node);
    }
    by_class.into_iter().map(|(class, nodes)| of_class(book, class, &nodes, window, step)).collect()
}

fn of_class(book: &Book, class: &str, nodes: &[&Offer], window: Window, step: u64) -> ClassTimeline {
    let up: Vec<&&Offer> = nodes.iter().filter(|node| node.standing == Standing::Up).collect();
    let mut timeline =
        ClassTimeline { class: class.to_owned(), nodes: up.len() as u64, ..ClassTimeline::default() };
    for (resource, amount) in up.iter().flat_map(|node| node.capacity.iter()) {
        let sum = timeline.capacity.entry(resource.as_str().to_owned()).or_default();
        *sum = u64::saturating_add(*sum, amount);
    }
    for (resource, _) in up.iter().flat_map(|node| node.capacity.iter()) {
        let name = resource.as_str().to_owned();
        if timeline.promised.contains_key(&name) {
            continue;
        }
        let capacity = timeline.capacity.get(&name).copied().unwrap_or(0);
        let promised = most(&book.cluster.ledger.used_over_up(class, resource, window), window, step);
        let free = promised.iter().map(|promised| capacity.saturating_sub(*promised)).collect();
        timeline.free.insert(name.clone(), free);
        timeline.promised.insert(name, promised);
    }
    timeline
}

/// The highest level in each step of a window, of a level that changes at some ticks.
fn most(levels: &[(u64, u128)], window: Window, step: u64) -> Vec<u64> {
    let steps = (window.end() - window.start()).div_ceil(step);
    let mut most = vec![0; usize::try_from(steps).unwrap_or(0)];
    let place = |at: u64| usize::try_from((at - window.start()) / step).unwrap_or(usize::MAX);
    let ends = levels.iter().skip(1).map(|(at, _)| *at).chain([window.end()]);
    for ((start, level), end) in levels.iter().zip(ends) {
        let level = u64::try_from(*level).unwrap_or(u64::MAX);
        let steps = place(*start)..=place(end - 1);
        most.get_mut(steps).into_iter().flatten().for_each(|most: &mut u64| *most = level.max(*most));
    }
    most
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_highest_level_in_it() {
        let window = Window::new(10, 20).unwrap();
        assert_eq!(most(&[(10, 3), (13, 5), (14, 0), (19, 2)], window, 4), [5, 0, 2]);
        assert_eq!(most(&[(10, 7)], window, 100), [7]);
        assert_eq!(most(&[(10, 0), (12, 1)], window, 1), [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
    }
}
