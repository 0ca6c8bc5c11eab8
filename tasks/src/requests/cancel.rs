//! A task is to end, or not to begin; so all tasks of an array.

use std::sync::Arc;

use estimand_service::{Decision, Request};

use super::edits::Edits;
use crate::change::Rejection;
use crate::core::state::{Actor, Event};
use crate::scope::Scope;
use crate::table::Named;
use crate::task::Task;
use crate::writer::TasksState;

pub struct Cancel {
    pub id: String,
    pub by: String,
    pub scope: Scope,
}

impl Request<TasksState> for Cancel {
    /// As it is now.
    type Reply = Named;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let (at, table) = (state.now_us(), state.table());
        let found = self.scope.find(table, &self.id).ok_or(Rejection::Unknown(self.id))?;
        let tasks: Vec<&Arc<Task>> = match &found {
            Named::Task(task) => vec![task],
            Named::Array(array) => table.of_array(array).collect(),
        };
        let mut edits = Edits::new(table, at);
        for task in tasks {
            // One that is over, or to end already, stays as it is.
            let _ = edits.of(task).apply(at, Event::Cancel, Actor::User(self.by.clone()));
        }
        let Some(change) = edits.finish() else { return Ok(Decision::Nothing(found)) };
        Ok(Decision::change(change, |state: &TasksState, _| state.table().find(found.id()).unwrap_or(found)))
    }
}
