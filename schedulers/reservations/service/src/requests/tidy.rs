//! A deed in the task service that a reservation asked for, and that is done.

use estimand_service::{Decision, Request};

use super::{Edit, together};
use crate::change::Rejection;
use crate::reservation::TaskStanding;
use crate::writer::ReservationsState;

/// Their promises were released.
pub struct Released(pub Vec<u64>);

impl Request<ReservationsState> for Released {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let table = state.table();
        let known = self.0.iter().filter_map(|number| table.get(*number));
        let edits: Vec<Edit<'_>> = known
            .filter(|reservation| reservation.progress.is_to_release)
            .map(|reservation| {
                let mut edit = Edit::new(table, reservation, "scheduler");
                edit.after.progress.is_to_release = false;
                edit
            })
            .collect();
        Ok(match edits.is_empty() {
            true => Decision::Nothing(()),
            false => Decision::change(together(edits, state.now_us()), |_: &ReservationsState, _| ()),
        })
    }
}

/// Its task was submitted, or refused.
pub struct TaskKnown {
    pub number: u64,
    /// The key with which it was submitted.
    pub key: String,
    pub task: TaskStanding,
}

impl Request<ReservationsState> for TaskKnown {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let known = state.table().get(self.number);
        let known = known.filter(|reservation| reservation.progress.task == TaskStanding::Due);
        let Some(reservation) = known else { return Ok(Decision::Nothing(())) };
        let mut edit = Edit::new(state.table(), reservation, "scheduler");
        edit.after.progress.task = match self.task {
            // It was changed meanwhile.
            TaskStanding::Submitted(id) if self.key != reservation.task_key() => TaskStanding::Stale(id),
            task => task,
        };
        Ok(Decision::change(edit.change(state.now_us()), |_: &ReservationsState, _| ()))
    }
}

/// Its task of before a change is gone: another one is to be submitted.
pub struct TaskWithdrawn(pub u64);

impl Request<ReservationsState> for TaskWithdrawn {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let known = state.table().get(self.0);
        let known = known.filter(|reservation| matches!(reservation.progress.task, TaskStanding::Stale(_)));
        let Some(reservation) = known else { return Ok(Decision::Nothing(())) };
        let mut edit = Edit::new(state.table(), reservation, "scheduler");
        edit.after.progress.task = TaskStanding::Due;
        Ok(Decision::change(edit.change(state.now_us()), |_: &ReservationsState, _| ()))
    }
}
