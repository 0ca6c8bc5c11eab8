//! A new task, or the one that the same submission made before.

use std::sync::Arc;

use estimand_runtime::single_writer::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::core::document::Document;
use crate::core::queue::TaskNumber;
use crate::core::state::Progress;
use crate::table::TaskTable;
use crate::task::{Edit, LogEnd, Task};
use crate::writer::TasksState;

/// How many tasks are kept. Beyond that the oldest of those that are over make room.
pub const MAX_TASKS: usize = 100_000;

pub struct Submission {
    pub document: Document,
    /// By which the same submission is known when it is sent again.
    pub key: Option<String>,
    pub by: String,
}

impl Request<TasksState> for Submission {
    /// The task, and whether it is new.
    type Reply = (Arc<Task>, bool);

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let at = state.now_us();
        let change = state.table(|table| {
            if let Some(known) = self.key.as_deref().and_then(|key| table.of_key(key)) {
                return match *known.document == self.document {
                    true => Ok(Err(Arc::clone(known))),
                    false => Err(Rejection::KeyTaken(known.id.clone())),
                };
            }
            let task = self.task(table, at)?;
            let deleted = room(table)?;
            let highest = task.number.0;
            Ok(Ok(Change { edits: vec![Edit::of(&task)], deleted, highest, at }))
        })?;
        Ok(match change {
            Err(known) => Decision::Nothing((known, false)),
            Ok(change) => Decision::change(change, |_: &TasksState, change| {
                let task = change.edits.first().map(|edit| Arc::new(edit.after.clone()));
                (task.unwrap_or_else(|| unreachable!("a submission makes a task")), true)
            }),
        })
    }
}

impl Submission {
    fn task(self, table: &TaskTable, at: i64) -> Result<Task, Rejection> {
        let number = table.highest + 1;
        let id = match &self.document.id {
            Some(id) if table.named(id).is_some() => return Err(Rejection::IdTaken(id.clone())),
            Some(id) => id.clone(),
            None => made_id(table, number),
        };
        // An agent may still have an attempt of a deleted task with this id: another one never has its number.
        let attempt = table.gone.get(&id).copied().unwrap_or(0);
        Ok(Task {
            number: TaskNumber(number),
            id,
            key: self.key,
            document: Arc::new(self.document),
            progress: Progress { attempt, ..Progress::default() },
            why: None,
            log: LogEnd::default(),
            events: 0,
            submitted_at: at,
            submitted_by: self.by,
            ended_at: None,
        })
    }
}

/// A short id; a longer one if somebody has given that to a task.
fn made_id(table: &TaskTable, number: u64) -> String {
    let mut id = format!("t{number}");
    while table.named(&id).is_some() {
        id.push('x');
    }
    id
}

/// The tasks that make room for one more.
fn room(table: &TaskTable) -> Result<Vec<Arc<Task>>, Rejection> {
    if table.len() < MAX_TASKS {
        return Ok(Vec::new());
    }
    let oldest = table.all().find(|task| task.state().is_final()).cloned();
    oldest.map(|task| vec![task]).ok_or(Rejection::Full(table.len()))
}
