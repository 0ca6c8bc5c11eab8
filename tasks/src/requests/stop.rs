//! A task is to end, for good or to go back to the queue; so all tasks of an array.

use std::sync::Arc;

use estimand_api::task_stop::StopRequest;
use estimand_service::{Decision, Request};

use super::edits::Edits;
use crate::change::Rejection;
use crate::core::state::{Actor, Event};
use crate::scope::Scope;
use crate::table::Named;
use crate::task::Task;
use crate::writer::TasksState;

/// The fate of a task that is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The task is over. One that waits never begins.
    Cancelled,
    /// The task waits for a node again. One that waits goes on waiting.
    Queued,
}

pub struct Stop {
    pub id: String,
    pub by: String,
    pub scope: Scope,
    pub fate: Fate,
    pub request: StopRequest,
}

impl Request<TasksState> for Stop {
    /// As it is now.
    type Reply = Named;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let at = state.now_us();
        let table = state.table();
        let found = self.scope.find(table, &self.id).ok_or(Rejection::Unknown(self.id.clone()))?;
        let tasks: Vec<&Arc<Task>> = match &found {
            Named::Task(task) => vec![task],
            Named::Array(array) => table.of_array(array).collect(),
        };
        if self.fate == Fate::Queued {
            may_go_back(&self.id, &tasks)?;
        }
        let mut edits = Edits::new(table, at);
        for task in tasks {
            let _ = edits.of(task).apply(at, self.event(task), Actor::User(self.by.clone()));
        }
        let Some(change) = edits.finish() else { return Ok(Decision::Nothing(found)) };
        Ok(Decision::change(change, |state: &TasksState, _| state.table().find(found.id()).unwrap_or(found)))
    }
}

impl Stop {
    fn event(&self, task: &Task) -> Event {
        let grace = task.document.checkpoint_grace;
        match self.fate {
            Fate::Cancelled => Event::Cancel(self.request.order(false, grace)),
            Fate::Queued => Event::Yield(self.request.order(true, grace)),
        }
    }
}

/// Refuses if no task can go back to the queue, or is there.
fn may_go_back(id: &str, tasks: &[&Arc<Task>]) -> Result<(), Rejection> {
    if tasks.iter().any(|task| !task.state().is_final() && !task.progress.ends_for_good()) {
        return Ok(());
    }
    Err(match tasks {
        [task] if task.progress.ends_for_good() => Rejection::EndsForGood(id.to_owned()),
        [task] => Rejection::Over { id: id.to_owned(), state: task.state().as_str() },
        _ => Rejection::AllOver(id.to_owned()),
    })
}
