//! News of the ledger: promises whose time has come or is over, that moved, or that broke.

use std::sync::Arc;

use estimand_api::promise::{PromiseRecord, PromiseState};
use estimand_reservations::Money;
use estimand_runtime::single_writer::{Decision, Request};

use super::Edit;
use super::started::delivered;
use crate::celery::Standing;
use crate::change::{Change, Rejection};
use crate::credits::Reason;
use crate::reservation::{Reservation, State};
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
        follow(&mut edit, reservation, record, at, state.now());
        let change: Change = edit.change(at);
        Ok(Decision::change(change, |_: &ReservationsState, _| ()))
    }
}

fn follow(edit: &mut Edit<'_>, before: &Arc<Reservation>, record: PromiseRecord, at: i64, now: u64) {
    let price = edit.after.progress.offer.price;
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
    let whole = progress.offer.end - progress.offer.start;
    let so_far = now.saturating_sub(progress.offer.start).min(whole);
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
        PromiseState::Over => {
            progress.delivered = delivered(progress);
            edit.end(State::Over, price, Reason::Payment, at);
        }
        // Nobody but this service gives its promises back, unless an operator does: then it is as if it was lost.
        PromiseState::Broken | PromiseState::Released => {
            progress.delivered = if before.state() == State::Active { so_far } else { 0 };
            progress.reason = Some(record.cause);
            edit.end(State::Broken, Money::ZERO, Reason::Refund, at);
        }
    }
}
