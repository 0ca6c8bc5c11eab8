//! The planner's decisions: each is checked again, because the task may have been cancelled meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_runtime::single_writer::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::core::decision::Why;
use crate::core::queue::TaskNumber;
use crate::core::state::{Actor, Event};
use crate::task::Edit;
use crate::writer::TasksState;

pub struct Placements(pub Vec<Placement>);

/// A task is to run on a node.
pub struct Placement {
    pub task: TaskNumber,
    pub node: String,
    pub why: Arc<Why>,
}

impl Request<TasksState> for Placements {
    /// The tasks that are placed.
    type Reply = BTreeSet<TaskNumber>;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let at = state.now_us();
        let (edits, highest) = state.table(|table| {
            let edit = |placement: Placement| {
                let mut edit = Edit::of(table.get(placement.task)?);
                let attempt = edit.after.progress.attempt + 1;
                let event = Event::Place { attempt, node: placement.node };
                let placed = edit.apply(at, event, Actor::Scheduler).unwrap_or(false);
                edit.after.why = Some(placement.why);
                placed.then_some(edit)
            };
            (self.0.into_iter().filter_map(edit).collect::<Vec<Edit>>(), table.highest)
        });
        if edits.is_empty() {
            return Ok(Decision::Nothing(BTreeSet::new()));
        }
        Ok(Decision::change(Change { edits, highest, at, ..Change::default() }, |_: &TasksState, change| {
            change.edits.iter().map(|edit| edit.after.number).collect()
        }))
    }
}
