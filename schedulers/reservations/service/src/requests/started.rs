//! The outcome of the start of a reservation that goes to Celery.

use estimand_service::{Decision, Request};

use super::Edit;
use crate::celery::Standing;
use crate::change::Rejection;
use crate::reservation::State;
use crate::writer::ReservationsState;

/// News of the start of a reservation. Starts that are not due have no outcome.
pub enum StartNews {
    /// Its time has come, and this keeps it waiting.
    Waits(String),
    /// The broker has it since then, in microseconds since 1970.
    Published(i64),
    /// Its time is over, and the broker never had it, or no worker took it and it was late: it costs nothing.
    Missed(String),
    /// It was late, its time is over, and a worker had taken it.
    Taken,
}

pub struct StartReport {
    /// The number of the reservation.
    pub number: u64,
    pub news: StartNews,
}

impl Request<ReservationsState> for StartReport {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let (table, at) = (state.table(), state.now_us());
        let Some(reservation) = table.get(self.number) else { return Ok(Decision::Nothing(())) };
        let is_end = matches!(self.news, StartNews::Missed(_) | StartNews::Taken);
        let (waits_for, is_past) = match reservation.progress.celery.clone() {
            Standing::Due { waits_for, is_past } => (waits_for, is_past),
            Standing::Published { .. } if is_end && reservation.progress.is_past => (None, true),
            _ => return Ok(Decision::Nothing(())),
        };
        let early_end = state.shared.settings.early_end;
        let is_live = matches!(reservation.state(), State::Promised | State::Active);
        let mut edit = Edit::new(table, reservation, "scheduler");
        match self.news {
            StartNews::Waits(reason) => {
                edit.after.progress.celery = Standing::Due { waits_for: Some(reason), is_past };
            }
            StartNews::Published(published) => {
                edit.after.progress.celery = Standing::Published { at: published, waited_for: waits_for };
                if is_live && is_past {
                    if edit.after.is_late() && state.shared.settings.tells_what_is_unread() {
                        edit.after.progress.is_past = true;
                    } else {
                        edit.settle(State::Over, u64::MAX, early_end, at);
                    }
                }
            }
            StartNews::Taken if is_live => edit.settle(State::Over, u64::MAX, early_end, at),
            StartNews::Taken => {}
            StartNews::Missed(reason) => {
                edit.after.progress.celery = Standing::Missed(reason.clone());
                if is_live {
                    edit.after.progress.delivered = 0;
                    edit.after.progress.reason = Some(reason);
                    edit.end_free(State::Broken, at);
                }
            }
        }
        Ok(Decision::change(edit.change(at), |_: &ReservationsState, _| ()))
    }
}
