//! Another predictor is chosen.

use estimand_service::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::choice::Choice;
use crate::writer::ReservationsState;

pub struct Choose(pub Choice);

impl Request<ReservationsState> for Choose {
    /// Since when it is chosen.
    type Reply = Choice;

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, Choice>, Rejection> {
        let known = state.table().choice;
        if known.is_same(&self.0) {
            return Ok(Decision::Nothing(known));
        }
        let at = state.now_us();
        let choice = Choice { since: at, ..self.0 };
        let change = Change { choice: Some(choice), at, ..Change::default() };
        Ok(Decision::change(change, move |_: &ReservationsState, _| choice))
    }
}
