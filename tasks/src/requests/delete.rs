//! Tasks that are over are forgotten, with their logs. A long log goes afterwards, in pieces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use estimand_service::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::core::queue::TaskNumber;
use crate::scope::Scope;
use crate::table::{Named, TaskTable};
use crate::task::Task;
use crate::writer::TasksState;

pub struct Delete {
    pub id: String,
    pub by: String,
    pub scope: Scope,
}

impl Request<TasksState> for Delete {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let (at, table) = (state.now_us(), state.table());
        let tasks = match self.scope.find(table, &self.id).ok_or(Rejection::Unknown(self.id))? {
            Named::Task(task) if task.state().is_final() => vec![task],
            Named::Task(task) => {
                return Err(Rejection::NotOver { id: task.id.clone(), state: task.state().as_str() });
            }
            Named::Array(array) => match table.open_of_array(array.number) {
                0 => table.of_array(&array).cloned().collect(),
                open => return Err(Rejection::NotAllOver { id: array.id.clone(), open }),
            },
        };
        let change = Change { by: Some(self.by), ..deletion(table, tasks, at) };
        Ok(Decision::change(change, |_, _| ()))
    }
}

/// The change that deletes tasks which are over, and their arrays if they are the last ones.
pub fn deletion(table: &TaskTable, deleted: Vec<Arc<Task>>, at: i64) -> Change {
    let mut of_arrays: HashMap<TaskNumber, u32> = HashMap::new();
    for array in deleted.iter().filter_map(|task| task.array.as_ref()) {
        *of_arrays.entry(array.number).or_default() += 1;
    }
    let all = of_arrays.into_iter().filter(|(number, count)| table.kept_of_array(*number) <= *count);
    let deleted_arrays = all.map(|(number, _)| number).collect();
    Change { deleted, deleted_arrays, highest: table.highest, at, ..Change::default() }
}

/// How long the last attempt of a deleted task is known after its end. An agent that comes back later with it is one too late.
const ATTEMPTS_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// As many are forgotten at once.
const FORGOTTEN_AT_ONCE: usize = 1_000;

/// Attempts of tasks that were deleted long ago are forgotten.
pub struct ForgetAttempts;

impl Request<TasksState> for ForgetAttempts {
    /// There may be more of them.
    type Reply = bool;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, bool>, Rejection> {
        let (at, table) = (state.now_us(), state.table());
        let before = at.saturating_sub(i64::try_from(ATTEMPTS_KEPT.as_micros()).unwrap_or(i64::MAX));
        let old = table.gone.iter().filter(|(_, last)| last.ended_at < before).map(|(id, _)| id.clone());
        let forgotten: Vec<String> = old.take(FORGOTTEN_AT_ONCE).collect();
        if forgotten.is_empty() {
            return Ok(Decision::Nothing(false));
        }
        let change = Change { forgotten, highest: table.highest, at, ..Change::default() };
        Ok(Decision::change(change, |_, _| true))
    }
}

/// The next piece of the log of a deleted task is removed.
pub struct ShortenLog {
    pub task: TaskNumber,
}

impl Request<TasksState> for ShortenLog {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let at = state.now_us();
        let highest = state.table().highest;
        let change = Change { shortened: vec![self.task], highest, at, ..Change::default() };
        Ok(Decision::change(change, |_, _| ()))
    }
}
