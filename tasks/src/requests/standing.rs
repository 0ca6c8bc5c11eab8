//! Nodes that are lost, and nodes that are heard of again.
//!
//! The manager says that a node is lost only when every lease that it gave it is over. So a task that runs by the lease
//! has ended there by then, and may be placed elsewhere; one that does not waits for its node.

use estimand_runtime::single_writer::{Decision, Request};

use super::edits::Edits;
use crate::change::Rejection;
use crate::core::retries::OnLoss;
use crate::core::state::{Actor, Event, State};
use crate::task::Edit;
use crate::writer::TasksState;

pub struct NodeStandings {
    pub lost: Vec<String>,
    pub back: Vec<String>,
}

impl Request<TasksState> for NodeStandings {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let (at, table) = (state.now_us(), state.table());
        let mut edits = Edits::new(table, at);
        let (lost, back) = (self.lost.iter(), self.back.iter());
        lost.flat_map(|node| table.on_node(node)).for_each(|task| lose(edits.of(task), at));
        back.flat_map(|node| table.on_node(node)).for_each(|task| take_back(edits.of(task), at));
        Ok(match edits.finish() {
            Some(change) => Decision::change(change, |_, _| ()),
            None => Decision::Nothing(()),
        })
    }
}

fn lose(edit: &mut Edit, at: i64) {
    let attempt = edit.after.progress.attempt;
    // The attempt is the present one, so neither is refused.
    let _ = edit.apply(at, Event::NodeLost { attempt }, Actor::Scheduler);
    if edit.after.document.on_loss != OnLoss::Wait {
        let _ = edit.apply(at, Event::LeaseOver { attempt }, Actor::Scheduler);
    }
}

fn take_back(edit: &mut Edit, at: i64) {
    let attempt = edit.after.progress.attempt;
    if edit.after.state() == State::Lost {
        let _ = edit.apply(at, Event::NodeBack { attempt }, Actor::Scheduler);
    }
}
