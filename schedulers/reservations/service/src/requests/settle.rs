//! The end of a reservation by what became of its time: what its task had is paid, what it missed is not, and what is given back
//! costs a fee.

use estimand_api::promise::PromiseTasks;
use estimand_reservations::{Delivery, EarlyEnd};
use estimand_service::{Decision, Request};

use super::Edit;
use crate::celery::Standing;
use crate::change::Rejection;
use crate::reservation::{Progress, Reservation, State, TaskStanding};
use crate::writer::ReservationsState;

impl Edit<'_> {
    /// Ends it at an instant in seconds: its end, or an earlier one from which on its time is given back.
    pub fn settle(&mut self, state: State, until: u64, early_end: EarlyEnd, at: i64) {
        let units = self.after.width();
        let missed = missed_seconds(&self.after);
        let progress = &mut self.after.progress;
        let start = progress.offer.start;
        let end = progress.offer.end;
        progress.given_back = end - until.clamp(start, end);
        let promised = (end - start).saturating_mul(units);
        if state == State::Over && missed >= promised {
            // It was there for nothing, whenever that was known.
            progress.given_back = 0;
        }
        let given_back = progress.given_back.saturating_mul(units);
        progress.missed = missed.min(promised - given_back);
        progress.delivered = end - start - progress.given_back - progress.missed.div_ceil(units.max(1));
        // Before the start it is cancelled, which costs a fee under any rule.
        let early_end = if until <= start { EarlyEnd::Refund } else { early_end };
        let delivery = Delivery { promised, missed: progress.missed, given_back };
        let settlement = delivery.settle(progress.offer.price, early_end);
        self.end(state, settlement, at);
    }
}

/// The seconds of all units in which its task, or the worker of its start, could have run and did not.
fn missed_seconds(reservation: &Reservation) -> u64 {
    let Progress { offer, celery, task, tasks, task_changes, .. } = &reservation.progress;
    let whole = offer.end - offer.start;
    let units = reservation.width();
    if *celery != Standing::None {
        let late = u64::try_from(celery.late(offer.start)).unwrap_or(0) / 1_000_000;
        return late.min(whole).saturating_mul(units);
    }
    let is_unsubmitted = matches!(task, TaskStanding::Due | TaskStanding::Stale(_));
    match tasks {
        // Its own task never came to the task service, or only that of before a change.
        _ if is_unsubmitted && tasks.is_none_or(|tasks| tasks.over == 0 || *task_changes > 0) => {
            whole.saturating_mul(units)
        }
        Some(tasks) => tasks.missed_milliseconds / 1_000,
        None => 0,
    }
}

/// The tasks on a promise were looked at: all of them are over before its end, or it is waited for their end no longer.
pub struct TasksKnown {
    pub number: u64,
    /// Absent where the task service does not know the promise any more.
    pub tasks: Option<PromiseTasks>,
}

impl Request<ReservationsState> for TasksKnown {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let table = state.table();
        let at = state.now_us();
        let now = state.now();
        let known =
            table.get(self.number).filter(|one| one.is_live() && (one.is_done() || one.progress.is_past));
        let Some(reservation) = known.filter(|one| one.progress.change.is_none()) else {
            return Ok(Decision::Nothing(()));
        };
        let mut edit = Edit::new(table, reservation, "scheduler");
        let progress = &mut edit.after.progress;
        progress.tasks = self.tasks.or(progress.tasks);
        let until = progress.tasks.map_or(u64::MAX, ended);
        let is_early = !progress.is_past && now < progress.offer.end;
        progress.is_to_release = is_early;
        let mut end = State::Over;
        if is_early && now < progress.offer.start {
            end = State::Cancelled;
            progress.reason = Some("its task was over before its time had come".to_owned());
        }
        edit.settle(end, until, state.shared.settings.early_end, at);
        Ok(Decision::change(edit.change(at), |_: &ReservationsState, _| ()))
    }
}

/// The end of the last task, in seconds; later than any if one of them is not over.
pub fn ended(tasks: PromiseTasks) -> u64 {
    tasks.ended.filter(|_| tasks.open == 0).unwrap_or(u64::MAX)
}
