//! Tasks and arrays as readers see them, and the reasons why they wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::duration::Span;
use estimand_api::instant::to_rfc3339;
use estimand_api::problem::Problem;
use estimand_api::promise::PromiseState;
use estimand_api::task_record::TaskRecord;
use serde_json::json;

use crate::core::Millis;
use crate::core::fit::misfit;
use crate::core::obstacle::{Obstacle, obstacle};
use crate::core::promise::Promise;
use crate::core::queue::{TaskNumber, rank};
use crate::core::state::State;
use crate::scope::Scope;
use crate::shared::Shared;
use crate::silences::Silence;
use crate::storage::rows::instant;
use crate::table::TaskTable;
use crate::task::{Array, Task, millis};

/// A task in a list.
pub fn record(task: &Task) -> TaskRecord {
    let progress = &task.progress;
    TaskRecord {
        id: task.id.clone(),
        state: task.state().as_str().to_owned(),
        attempt: progress.attempt,
        node: progress.node.clone(),
        ending: progress.ending.clone(),
        program: progress.program.clone(),
        failures: progress.failures,
        not_before: progress.not_before.map(|at| instant(at.micros())),
        submitted_at: instant(task.submitted_at),
        submitted_by: task.submitted_by.clone(),
        ended_at: task.ended_at.map(instant),
        lines: task.log.next,
        progress: task.log.progress.last.as_deref().cloned(),
        progress_problem: task.log.progress.problem.clone(),
        array: task.array.as_ref().map(|array| array.id.clone()),
        index: task.index(),
        states: BTreeMap::new(),
        awaits: progress.awaits.iter().map(|awaited| awaited.id.clone()).collect(),
        waits: None,
        image: task.image.as_deref().cloned(),
        document: task.document.redacted().to_map(),
        why: None,
        outputs: None,
        used: progress.used.iter().map(|used| used.last).collect(),
        transitions: Vec::new(),
    }
}

/// The same with the reason why it waits, or why it is where it is.
pub fn whole_record(task: &Task, shared: &Shared, scope: &Scope) -> TaskRecord {
    let why = task.why.as_deref().map(|why| json!(why));
    TaskRecord { why, waits: waits(task, shared, scope), ..record(task) }
}

/// An array, as the sum of its tasks; none if it was deleted meanwhile. It is over when they all are, and then in the worst
/// of their states.
fn array_record(table: &TaskTable, array: &Array) -> Option<TaskRecord> {
    let mut states: BTreeMap<State, u32> = BTreeMap::new();
    table.of_array(array).for_each(|task| *states.entry(task.state()).or_default() += 1);
    let count = |state: State| states.get(&state).copied().unwrap_or(0);
    let is_over = states.keys().all(|state| state.is_final());
    let state = match is_over {
        true if count(State::Failed) > 0 => State::Failed,
        true if count(State::Cancelled) > 0 => State::Cancelled,
        true => State::Succeeded,
        false if states.keys().all(|state| *state == State::Queued) => State::Queued,
        false => State::Running,
    };
    let sum = |part: fn(&Task) -> u64| table.of_array(array).map(|task| part(task)).sum::<u64>();
    let ended_at = table.of_array(array).filter_map(|task| task.ended_at).max();
    // One of it is there, or it would not be.
    let first = table.of_array(array).next().map(|task| record(task))?;
    Some(TaskRecord {
        id: array.id.clone(),
        state: state.as_str().to_owned(),
        states: states.into_iter().map(|(state, count)| (state.as_str().to_owned(), count)).collect(),
        attempt: 0,
        node: None,
        ending: None,
        program: None,
        failures: u32::try_from(sum(|task| u64::from(task.progress.failures))).unwrap_or(u32::MAX),
        not_before: None,
        ended_at: ended_at.filter(|_| is_over).map(instant),
        lines: sum(|task| task.log.next),
        progress: None,
        progress_problem: None,
        array: None,
        index: None,
        used: Vec::new(),
        ..first
    })
}

/// The record of an array that was there a moment ago.
pub fn of_array(shared: &Shared, array: &Array) -> Result<TaskRecord, Problem> {
    let record = shared.table.loaded(|table| array_record(table, array))?;
    record.ok_or_else(|| Problem::not_found(format!("array `{}` was deleted", array.id)))
}

/// The reason why a task is not placed; none if it does not wait for a node.
pub fn waits(task: &Task, shared: &Shared, scope: &Scope) -> Option<String> {
    match task.state() {
        State::Queued => {}
        State::Lost => {
            let silence = task.station().and_then(|station| shared.silences().of(&station));
            return Some(waits_for_node(task, silence));
        }
        _ => return None,
    }
    if !task.progress.awaits.is_empty() {
        let awaited: Vec<String> = task.progress.awaits.iter().map(|of| format!("`{}`", of.id)).collect();
        let verb = if awaited.len() == 1 { "is" } else { "are" };
        return Some(format!("it comes after {}, which {verb} not over", awaited.join(", ")));
    }
    if let Some(id) = &task.document.promise {
        let text = |promise: Option<&Arc<Promise>>| waits_for_promise(promise.map(|promise| &**promise), id);
        return Some(shared.table.look(|table| text(table.promises.find(id))));
    }
    let Some(plan) = shared.plan.load_full() else { return Some("the nodes are not known yet".to_owned()) };
    let rank = rank(task.number, millis(task.submitted_at), task.document.priority);
    let obstacle = obstacle(&plan, &task.request(), rank);
    let now = millis(shared.clock.now_micros());
    let pause = task.progress.not_before.filter(|not_before| *not_before > now);
    Some(match (obstacle, pause) {
        (Some(Obstacle::Misfit(misfit)), _) => Obstacle::Misfit(misfit).text(|_| None),
        (_, Some(not_before)) => format!("it is tried again after a pause, at {}", instant_text(not_before)),
        (Some(obstacle), None) => {
            shared.table.look(|table| obstacle.text(|number| id_of(table, scope, number)))
        }
        (None, None) => "it is about to be placed".to_owned(),
    })
}

fn waits_for_node(task: &Task, silence: Option<Silence>) -> String {
    let node = task.progress.node.as_deref().unwrap_or_default();
    let silent = format!("node `{node}`, on which it may be, is not heard of");
    let Some(micros) = task.progress.lease_ms.map(Millis::micros) else { return silent };
    match silence.and_then(|silence| silence.since_us) {
        Some(since) => {
            let at = to_rfc3339(since.saturating_add(micros));
            format!("{silent}; it may run there until {at}, when its lease is over for certain")
        }
        None => {
            let length = Span::from_micros(micros.unsigned_abs()).unwrap_or(Span::MAX);
            format!("{silent}; it may run there for its lease of {length}")
        }
    }
}

/// The id of a task that the reader may see.
fn id_of(table: &TaskTable, scope: &Scope, number: TaskNumber) -> Option<String> {
    table.get(number).filter(|task| scope.has(&task.document)).map(|task| task.id.clone())
}

fn instant_text(at: Millis) -> String {
    to_rfc3339(at.micros())
}

fn waits_for_promise(promise: Option<&Promise>, id: &str) -> String {
    match promise {
        Some(promise) if promise.state == PromiseState::Promised => {
            format!("its promise `{id}` begins at {}", instant_text(Millis::of_tick(promise.from)))
        }
        Some(promise) if promise.is_live() => {
            let nodes = promise.units.join("`, `");
            format!(
                "its promise `{id}` has begun; a unit on `{nodes}` is in use, or what runs there makes room"
            )
        }
        _ => format!("its promise `{id}` has no capacity any more"),
    }
}

/// The reason why no node of the cluster can ever take it.
pub fn never_fits(task: &Task, shared: &Shared) -> Option<String> {
    if task.document.promise.is_some() {
        return None;
    }
    let plan = shared.plan.load_full()?;
    misfit(&plan.cluster, &task.request()).map(|misfit| format!("it waits: it {misfit}"))
}
