//! A reservation is given up: before its start all of its price but a fee is given back, after its start nothing.

use std::sync::Arc;

use estimand_runtime::single_writer::{Decision, Request};
use estimand_web::Scope;

use super::Edit;
use crate::change::Rejection;
use crate::credits::Reason;
use crate::reservation::{Reservation, State};
use crate::writer::ReservationsState;

pub struct Cancel {
    pub id: String,
    pub by: String,
    /// The reservations that it may be.
    pub scope: Scope,
    /// Why all is given back, whoever cancels it; none: by the rule.
    pub in_full: Option<String>,
}

impl Request<ReservationsState> for Cancel {
    type Reply = Arc<Reservation>;

    fn decide(
        self,
        state: &ReservationsState,
    ) -> Result<Decision<ReservationsState, Self::Reply>, Rejection> {
        let (table, at) = (state.table(), state.now_us());
        let reservation = table.find(&self.scope, &self.id).ok_or(Rejection::Unknown(self.id))?;
        match reservation.state() {
            State::Pending => {
                let (id, state) = (reservation.id.clone(), State::Pending.as_str());
                return Err(Rejection::NotLive { id, state });
            }
            state if state.is_final() => return Ok(Decision::Nothing(Arc::clone(reservation))),
            _ if reservation.progress.change.is_some() => {
                return Err(Rejection::Changing(reservation.id.clone()));
            }
            _ => {}
        }
        let mut edit = Edit::new(table, reservation, &self.by);
        let kept = match self.in_full {
            Some(_) => estimand_reservations::Money::ZERO,
            None => reservation.kept_if_cancelled(state.now()),
        };
        let delivered = state.now().saturating_sub(reservation.progress.offer.start);
        edit.end(State::Cancelled, kept, Reason::Fee, at);
        let progress = &mut edit.after.progress;
        // Nobody here knows when a worker of Celery ends, so from its start on what it has stays promised.
        progress.is_to_release = reservation.document.celery.is_none() || state.now() < progress.offer.start;
        progress.delivered = delivered.min(progress.offer.end - progress.offer.start);
        progress.reason = self.in_full;
        Ok(edit.decision(at))
    }
}
