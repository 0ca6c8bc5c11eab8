//! A reservation is given up: the time that was had is paid, and the rest of its time is given back.

use std::sync::Arc;

use estimand_api::promise::PromiseTasks;
use estimand_service::{Decision, Request};
use estimand_web::Scope;

use super::Edit;
use crate::change::Rejection;
use crate::reservation::{Reservation, State};
use crate::writer::ReservationsState;

pub struct Cancel {
    pub id: String,
    pub by: String,
    /// The reservations that it may be.
    pub scope: Scope,
    /// Why all is given back, whoever cancels it; none: by the rule.
    pub in_full: Option<String>,
    /// The tasks on its promise as they are now; none: as they were heard of last.
    pub tasks: Option<PromiseTasks>,
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
        let now = state.now();
        let start = reservation.progress.offer.start;
        let progress = &mut edit.after.progress;
        // Nobody here knows when a worker of Celery ends, so from its start on what it has stays promised.
        progress.is_to_release = reservation.document.celery.is_none() || now < start;
        progress.tasks = self.tasks.or(progress.tasks);
        // The tick that has begun is not given back.
        let until = if now < start { start } else { now + 1 };
        let until = if progress.is_to_release { until } else { u64::MAX };
        match self.in_full {
            None => edit.settle(State::Cancelled, until, state.shared.settings.early_end, at),
            Some(reason) => {
                edit.after.progress.reason = Some(reason);
                edit.end_free(State::Cancelled, at);
            }
        }
        Ok(edit.decision(at))
    }
}
