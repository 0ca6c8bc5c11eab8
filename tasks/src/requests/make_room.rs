//! Tasks that run without a promise make room for one: each is asked to write down how far it is, ended, and waits again.

use std::time::Duration;

use estimand_api::task_stop::ROOM_GRACE;
use estimand_service::{Decision, Request};

use super::edits::Edits;
use crate::change::Rejection;
use crate::core::Millis;
use crate::core::plan::Displacement;
use crate::core::state::{Actor, Event};
use crate::task::Task;
use crate::writer::TasksState;

pub struct MakeRoom(pub Vec<Displacement>);

impl Request<TasksState> for MakeRoom {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let (at, mut edits) = (state.now_us(), Edits::new(state.table(), state.now_us()));
        for Displacement { task, attempt, promise } in self.0 {
            let Some(task) = edits.table.get(task) else { continue };
            // It may have ended meanwhile, or be in its next attempt.
            let _ = edits.of(task).apply(at, making_room(task, attempt, promise), Actor::Scheduler);
        }
        Ok(match edits.finish() {
            Some(change) => Decision::change(change, |_, _| ()),
            None => Decision::Nothing(()),
        })
    }
}

/// The event says if the task would have longer by its document, or by the order that it has, than room for a promise may take.
fn making_room(task: &Task, attempt: u32, promise: String) -> Event {
    let of_order = task.stop_order().map(|order| order.kills_after());
    let grace = of_order.or(task.checkpoint_grace());
    let in_millis = |grace: Duration| Millis::from(grace).0;
    Event::MakeRoom {
        attempt,
        promise,
        grace_ms: grace.map(|grace| in_millis(grace.min(ROOM_GRACE))),
        cut_from_ms: grace.filter(|grace| *grace > ROOM_GRACE).map(in_millis),
    }
}
