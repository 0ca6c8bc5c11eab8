//! News of the ledger: promises whose time has come or is over, that moved, or that broke.

use std::sync::Arc;

use estimand_api::promise::{PromiseRecord, PromiseState};
use estimand_service::{Decision, Request};

use super::Edit;
use super::settle::ended;
use crate::celery::Standing;
use crate::change::{Change, Rejection};
use crate::reservation::{Offer, Reservation, State};
use crate::writer::ReservationsState;

/// One promise as it is now. Older news than what is known changes nothing.
pub struct Hear(pub PromiseRecord);

impl Request<ReservationsState> for Hear {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let (table, at) = (state.table(), state.now_us());
        let Hear(record) = self;
        let live = table.of_promise(&record.id).filter(|reservation| {
            let is_news = record.revision > reservation.progress.revision;
            matches!(reservation.state(), State::Promised | State::Active) && is_news
        });
        let Some(reservation) = live else { return Ok(Decision::Nothing(())) };
        let mut edit = Edit::new(table, reservation, "scheduler");
        follow(&mut edit, reservation, record, state);
        let change: Change = edit.change(at);
        Ok(Decision::change(change, |_: &ReservationsState, _| ()))
    }
}

/// A promise as the ledger has it when it is asked for, because its end should have been heard of.
pub struct LookedUp {
    pub number: u64,
    /// Absent where the ledger does not keep it any more.
    pub record: Option<PromiseRecord>,
}

impl Request<ReservationsState> for LookedUp {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let table = state.table();
        let is_meant = |one: &&Arc<Reservation>| one.awaits_end() && one.progress.change.is_none();
        let Some(reservation) = table.get(self.number).filter(is_meant) else {
            return Ok(Decision::Nothing(()));
        };
        let record = self.record.unwrap_or_else(|| forgotten(reservation, state.now()));
        let is_old = record.revision < reservation.progress.revision;
        if is_old || record.state.is_live() {
            return Ok(Decision::Nothing(()));
        }
        let mut edit = Edit::new(table, reservation, "scheduler");
        follow(&mut edit, reservation, record, state);
        Ok(Decision::change(edit.change(state.now_us()), |_: &ReservationsState, _| ()))
    }
}

/// A promise that is not kept any more is over, and its tasks did as was heard of them last. One that is gone before its end was lost.
fn forgotten(reservation: &Reservation, now: u64) -> PromiseRecord {
    let Reservation { account, document, progress, made_at, made_by, .. } = reservation;
    let Offer { start, end, .. } = progress.offer;
    PromiseRecord {
        id: reservation.promise_id(),
        state: if now < end { PromiseState::Broken } else { PromiseState::Over },
        resources: document.resources.clone(),
        class: document.class.clone().unwrap_or_default(),
        from: start,
        until: end,
        value: 0,
        user: Some(account.clone()),
        units: progress.nodes.clone(),
        cause: "the ledger does not keep its promise any more".to_owned(),
        tasks: progress.tasks,
        revision: progress.revision,
        made_at: u64::try_from(made_at / 1_000_000).unwrap_or(0),
        made_by: made_by.clone(),
    }
}

fn follow(edit: &mut Edit<'_>, before: &Reservation, record: PromiseRecord, state: &ReservationsState) {
    let at = state.now_us();
    let now = state.now();
    let early_end = state.shared.settings.early_end;
    let progress = &mut edit.after.progress;
    progress.revision = record.revision;
    if !record.units.is_empty() && record.units != progress.nodes {
        let differ = |(one, other): &(&String, &String)| one != other;
        let moved = progress.nodes.iter().zip(&record.units).filter(differ).count();
        // With a change of it units are placed anew, which moves none.
        if progress.change.is_none() {
            progress.moves = progress.moves.saturating_add(u32::try_from(moved).unwrap_or(u32::MAX));
        }
        progress.nodes = record.units;
    }
    if before.document.task.is_some() {
        progress.tasks = record.tasks;
    }
    let may_be_unread = before.is_late() && state.shared.settings.tells_what_is_unread();
    let is_open = progress.tasks.is_some_and(|tasks| tasks.open > 0);
    match record.state {
        PromiseState::Promised => {}
        PromiseState::Active => progress.state = State::Active,
        // It ends one way if the broker has its start and another way if not, and that is not known yet.
        PromiseState::Over if progress.celery.is_due() => {
            progress.state = State::Active;
            if let Standing::Due { is_past, .. } = &mut progress.celery {
                *is_past = true;
            }
        }
        // Its task may not have ended, and a start that was late may not be read: that is not known yet either.
        PromiseState::Over if is_open || may_be_unread => {
            progress.state = State::Active;
            progress.is_past = true;
        }
        PromiseState::Over => {
            let until = progress.tasks.map_or(u64::MAX, ended);
            edit.settle(State::Over, until, early_end, at);
        }
        // Nobody but this service gives its promises back, unless an operator does: then it is as if it was lost.
        PromiseState::Broken | PromiseState::Released => {
            let delivered = match (progress.tasks, before.state()) {
                (Some(tasks), _) => tasks.had_milliseconds / 1_000 / before.width().max(1),
                (None, State::Active) => now.saturating_sub(progress.offer.start),
                (None, _) => 0,
            };
            progress.delivered = delivered.min(progress.offer.end - progress.offer.start);
            progress.reason = Some(record.cause);
            edit.end_free(State::Broken, at);
        }
    }
}
