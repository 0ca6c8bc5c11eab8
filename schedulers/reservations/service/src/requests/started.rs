//! The outcome of the start of a reservation that goes to Celery.

use estimand_runtime::single_writer::{Decision, Request};

use super::Edit;
use crate::celery::Standing;
use crate::change::Rejection;
use crate::reservation::State;
use crate::writer::ReservationsState;

/// News of a start that is due. Of one that is not there is none.
pub enum StartKnown {
    /// Its time has come, and something keeps it waiting.
    Waits { number: u64, reason: String },
    /// The broker has it since then, in microseconds since 1970.
    Published { number: u64, at: i64 },
    /// Its time is over, and the broker never had it, or no worker took it and it was late: it costs nothing.
    Missed { number: u64, reason: String },
    /// It was late, its time is over, and a worker had taken it.
    Taken { number: u64 },
}

impl StartKnown {
    /// It is about a start that the broker had.
    fn is_end(&self) -> bool {
        matches!(self, StartKnown::Missed { .. } | StartKnown::Taken { .. })
    }

    fn number(&self) -> u64 {
        match self {
            StartKnown::Waits { number, .. }
            | StartKnown::Published { number, .. }
            | StartKnown::Missed { number, .. }
            | StartKnown::Taken { number } => *number,
        }
    }
}

impl Request<ReservationsState> for StartKnown {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let (table, at) = (state.table(), state.now_us());
        let Some(reservation) = table.get(self.number()) else { return Ok(Decision::Nothing(())) };
        let (waits_for, is_past) = match reservation.progress.celery.clone() {
            Standing::Due { waits_for, is_past } => (waits_for, is_past),
            Standing::Published { .. } if self.is_end() && reservation.progress.is_past => (None, true),
            _ => return Ok(Decision::Nothing(())),
        };
        let early_end = state.shared.settings.early_end;
        let is_live = matches!(reservation.state(), State::Promised | State::Active);
        let mut edit = Edit::new(table, reservation, "scheduler");
        match self {
            StartKnown::Waits { reason, .. } => {
                edit.after.progress.celery = Standing::Due { waits_for: Some(reason), is_past };
            }
            StartKnown::Published { at: published, .. } => {
                edit.after.progress.celery = Standing::Published { at: published, waited_for: waits_for };
                if is_live && is_past {
                    if edit.after.is_late() && state.shared.settings.tells_what_is_unread() {
                        edit.after.progress.is_past = true;
                    } else {
                        edit.settle(State::Over, u64::MAX, early_end, at);
                    }
                }
            }
            StartKnown::Taken { .. } if is_live => edit.settle(State::Over, u64::MAX, early_end, at),
            StartKnown::Taken { .. } => {}
            StartKnown::Missed { reason, .. } => {
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
