//! Tasks whose node is lost, or heard of again, and tasks whose lease is over.
//!
//! The manager says that a node is lost only when every lease of slots that it gave it is over. A task there has a lease of its
//! own, which goes on for longer, and may be placed elsewhere when that is over; one that has none waits for its node.

use estimand_service::{Decision, Request};

use super::edits::Edits;
use crate::change::Rejection;
use crate::core::queue::TaskNumber;
use crate::core::state::{Actor, Event};
use crate::writer::TasksState;

/// An attempt at a task.
pub type Attempt = (TaskNumber, u32);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct NodeStandings {
    pub lost: Vec<Attempt>,
    pub back: Vec<Attempt>,
    /// Attempts whose lease is over: they cannot run any more.
    pub over: Vec<Attempt>,
}

impl NodeStandings {
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.back.is_empty() && self.over.is_empty()
    }
}

impl Request<TasksState> for NodeStandings {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let (at, table) = (state.now_us(), state.table());
        let mut edits = Edits::new(table, at);
        let lost = self.lost.into_iter().map(|(task, attempt)| (task, Event::NodeLost { attempt }));
        let back = self.back.into_iter().map(|(task, attempt)| (task, Event::NodeBack { attempt }));
        let over = self.over.into_iter().map(|(task, attempt)| (task, Event::LeaseOver { attempt }));
        for (task, event) in lost.chain(back).chain(over) {
            if let Some(task) = table.get(task) {
                // An event about an attempt that is over changes nothing.
                let _ = edits.of(task).apply(at, event, Actor::Scheduler);
            }
        }
        Ok(match edits.finish() {
            Some(change) => Decision::change(change, |_, _| ()),
            None => Decision::Nothing(()),
        })
    }
}
