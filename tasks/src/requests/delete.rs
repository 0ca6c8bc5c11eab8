//! A task that is over is forgotten, with its log.

use estimand_runtime::single_writer::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::writer::TasksState;

pub struct Delete {
    pub id: String,
}

impl Request<TasksState> for Delete {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let at = state.now_us();
        let (task, highest) = state.table(|table| (table.named(&self.id).cloned(), table.highest));
        let task = task.ok_or(Rejection::Unknown(self.id))?;
        if !task.state().is_final() {
            return Err(Rejection::NotOver { id: task.id.clone(), state: task.state().as_str() });
        }
        let change = Change { deleted: vec![task], highest, at, ..Change::default() };
        Ok(Decision::change(change, |_, _| ()))
    }
}
