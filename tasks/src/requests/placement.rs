//! The planner's decisions: each is checked again, because the task may have been cancelled meanwhile, and its room promised
//! or gone with its node.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_service::{Decision, Request};

use super::edits::Edits;
use crate::change::Rejection;
use crate::core::decision::Why;
use crate::core::queue::TaskNumber;
use crate::core::room::BookRoom;
use crate::core::state::{Actor, Event, State};
use crate::writer::TasksState;

pub struct Placements(pub Vec<Placement>);

/// A task is to run on a node.
pub struct Placement {
    pub task: TaskNumber,
    pub node: String,
    /// The agent that the node has.
    pub agent: Option<String>,
    pub why: Arc<Why>,
}

impl Request<TasksState> for Placements {
    /// The tasks that are placed.
    type Reply = BTreeSet<TaskNumber>;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let at = state.now_us();
        let mut edits = Edits::new(state.table(), at);
        let mut room = BookRoom::new(&state.table().book, state.tick());
        for placement in self.0 {
            let Some(task) = edits.table.get(placement.task) else { continue };
            if task.state() != State::Queued || !room.take(&task.view(), &placement.node) {
                continue;
            }
            let edit = edits.of(task);
            let attempt = edit.after.progress.attempt + 1;
            let event = Event::Place { attempt, node: placement.node };
            if edit.apply(at, event, Actor::Scheduler).unwrap_or(false) {
                edit.after.why = Some(placement.why);
                edit.after.progress.agent = placement.agent;
                edit.after.progress.lease_ms = edit.after.lease(state.shared.lease);
            }
        }
        let Some(change) = edits.finish() else { return Ok(Decision::Nothing(BTreeSet::new())) };
        Ok(Decision::change(change, |_: &TasksState, change| {
            change.edits.iter().map(|edit| edit.after.number).collect()
        }))
    }
}
