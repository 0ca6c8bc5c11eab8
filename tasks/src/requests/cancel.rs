//! A task is to end, or not to begin.

use std::sync::Arc;

use estimand_runtime::single_writer::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::core::state::{Actor, Event};
use crate::task::{Edit, Task};
use crate::writer::TasksState;

pub struct Cancel {
    pub id: String,
    pub by: String,
}

impl Request<TasksState> for Cancel {
    type Reply = Arc<Task>;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let at = state.now_us();
        let (task, highest) = state.table(|table| (table.named(&self.id).cloned(), table.highest));
        let task = task.ok_or(Rejection::Unknown(self.id))?;
        let mut edit = Edit::of(&task);
        match edit.apply(at, Event::Cancel, Actor::User(self.by)) {
            Ok(true) => Ok(Decision::change(
                Change { edits: vec![edit], highest, at, ..Change::default() },
                |_: &TasksState, change| Arc::new(change.edits[0].after.clone()),
            )),
            // It is over, or to end already.
            Ok(false) | Err(_) => Ok(Decision::Nothing(task)),
        }
    }
}
