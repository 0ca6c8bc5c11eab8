//! Tasks that are over are forgotten, with their logs. A long log goes afterwards, in pieces.

use std::collections::HashMap;
use std::sync::Arc;

use estimand_runtime::single_writer::{Decision, Request};

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
