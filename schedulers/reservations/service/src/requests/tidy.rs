//! A deed in the task service that a reservation asked for, and that is done.

use estimand_runtime::single_writer::{Decision, Request};

use super::Edit;
use crate::change::Rejection;
use crate::reservation::TaskStanding;
use crate::writer::ReservationsState;

/// Its promise was released.
pub struct Released(pub u64);

impl Request<ReservationsState> for Released {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let known = state.table().get(self.0).filter(|reservation| reservation.progress.is_to_release);
        let Some(reservation) = known else { return Ok(Decision::Nothing(())) };
        let mut edit = Edit::new(state.table(), reservation, "scheduler");
        edit.after.progress.is_to_release = false;
        Ok(Decision::change(edit.change(state.now_us()), |_: &ReservationsState, _| ()))
    }
}

/// Its task was submitted, or refused.
pub struct TaskKnown {
    pub number: u64,
    pub task: TaskStanding,
}

impl Request<ReservationsState> for TaskKnown {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let known = state.table().get(self.number);
        let known = known.filter(|reservation| reservation.progress.task == TaskStanding::Due);
        let Some(reservation) = known else { return Ok(Decision::Nothing(())) };
        let mut edit = Edit::new(state.table(), reservation, "scheduler");
        edit.after.progress.task = self.task;
        Ok(Decision::change(edit.change(state.now_us()), |_: &ReservationsState, _| ()))
    }
}
