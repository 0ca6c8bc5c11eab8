//! Nodes that are lost, and nodes that are heard of again.
//!
//! The manager says that a node is lost only when every lease that it gave it is over. So a task that runs by the lease
//! has ended there by then, and may be placed elsewhere; one that does not waits for its node.

use estimand_runtime::single_writer::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::core::retries::OnLoss;
use crate::core::state::{Actor, Event, State};
use crate::task::{Edit, Task};
use crate::writer::TasksState;

pub struct NodeStandings {
    pub lost: Vec<String>,
    pub back: Vec<String>,
}

impl Request<TasksState> for NodeStandings {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let at = state.now_us();
        let (edits, highest) = state.table(|table| {
            let lost = self.lost.iter().flat_map(|node| table.on_node(node)).map(|task| lose(task, at));
            let back = self.back.iter().flat_map(|node| table.on_node(node)).map(|task| take_back(task, at));
            let edits: Vec<Edit> = lost.chain(back).filter(|edit| !edit.is_empty()).collect();
            (edits, table.highest)
        });
        if edits.is_empty() {
            return Ok(Decision::Nothing(()));
        }
        Ok(Decision::change(Change { edits, highest, at, ..Change::default() }, |_, _| ()))
    }
}

fn lose(task: &Task, at: i64) -> Edit {
    let (mut edit, attempt) = (Edit::of(task), task.progress.attempt);
    // The attempt is the present one, so neither is refused.
    let _ = edit.apply(at, Event::NodeLost { attempt }, Actor::Scheduler);
    if task.document.on_loss != OnLoss::Wait {
        let _ = edit.apply(at, Event::LeaseOver { attempt }, Actor::Scheduler);
    }
    edit
}

fn take_back(task: &Task, at: i64) -> Edit {
    let (mut edit, attempt) = (Edit::of(task), task.progress.attempt);
    if task.state() == State::Lost {
        let _ = edit.apply(at, Event::NodeBack { attempt }, Actor::Scheduler);
    }
    edit
}
