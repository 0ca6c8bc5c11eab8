//! Tasks that run without a promise make room for one: each is asked to write down how far it is, ended, and waits again.

use estimand_service::{Decision, Request};

use super::edits::Edits;
use crate::change::Rejection;
use crate::core::plan::Displacement;
use crate::core::state::{Actor, Event};
use crate::writer::TasksState;

pub struct MakeRoom(pub Vec<Displacement>);

impl Request<TasksState> for MakeRoom {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let (at, mut edits) = (state.now_us(), Edits::new(state.table(), state.now_us()));
        for Displacement { task, attempt, promise } in self.0 {
            let Some(task) = edits.table.get(task) else { continue };
            // It may have ended meanwhile, or be in its next attempt.
            let _ = edits.of(task).apply(at, Event::MakeRoom { attempt, promise }, Actor::Scheduler);
        }
        Ok(match edits.finish() {
            Some(change) => Decision::change(change, |_, _| ()),
            None => Decision::Nothing(()),
        })
    }
}
