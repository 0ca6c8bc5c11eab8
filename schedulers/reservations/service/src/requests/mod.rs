//! The requests that the writer decides, one after the other: each purely, on what is stored.

mod answer;
mod bid;
mod cancel;
mod change;
mod choose;
mod grant;
mod hear;
mod open;
mod rebid;
mod settle;
mod started;
mod tidy;

pub use answer::{Answer, Answered};
pub use bid::RefusedBids;
pub use cancel::Cancel;
pub use change::{ChangeAnswer, ChangeAnswered, PlanChange};
pub use choose::Choose;
pub use grant::Grant;
pub use hear::{Hear, LookedUp};
pub use open::{Open, Opened, check_shares, known, room, room_for_bytes};
pub use rebid::Rebid;
pub use settle::TasksKnown;
pub use started::{StartNews, StartReport};
pub use tidy::{Released, TaskKnown, TaskWithdrawn};

use std::sync::Arc;

use estimand_reservations::{Money, Settlement};
use estimand_service::Decision;

use crate::change::Change;
use crate::credits::{Entry, HELD, INCOME, Reason};
use crate::reservation::{Reservation, State};
use crate::table::Table;
use crate::writer::ReservationsState;

/// A change of one reservation with the movements of money that belong to it.
struct Edit<'t> {
    table: &'t Table,
    after: Reservation,
    entries: Vec<Entry>,
    actor: String,
}

impl<'t> Edit<'t> {
    fn new(table: &'t Table, reservation: &Reservation, actor: &str) -> Edit<'t> {
        Edit { table, after: reservation.clone(), entries: Vec::new(), actor: actor.to_owned() }
    }

    /// Moves money for it. Nothing is no movement.
    fn pay(&mut self, payer: &str, payee: &str, amount: Money, reason: Reason) {
        if amount > Money::ZERO {
            self.entries.push(Entry {
                // Given by `together`.
                number: 0,
                payer: Some(payer.to_owned()),
                payee: payee.to_owned(),
                amount,
                reason,
                reservation: Some(self.after.number),
                key: None,
                actor: self.actor.clone(),
            });
        }
    }

    /// Ends it: what is paid of its price is the operator's, the rest is given back.
    fn end(&mut self, state: State, settlement: Settlement, at: i64) {
        let account = self.after.account.clone();
        let Settlement { payment, fee, refund } = settlement;
        self.pay(HELD, INCOME, payment, Reason::Payment);
        self.pay(HELD, INCOME, fee, Reason::Fee);
        self.pay(HELD, &account, refund, Reason::Refund);
        if let Some(change) = self.after.progress.change.take() {
            self.pay(HELD, &account, change.held, Reason::Refund);
        }
        let progress = &mut self.after.progress;
        (progress.state, progress.refund, progress.order) = (state, refund, None);
        progress.is_past = false;
        self.after.ended_at = Some(at);
    }

    /// Ends it without any of its price being paid.
    fn end_free(&mut self, state: State, at: i64) {
        self.end(state, Settlement::refunded(self.after.progress.offer.price), at);
    }

    fn change(self, at: i64) -> Change {
        together(vec![self], at)
    }

    /// The decision that gives the reservation as it is afterwards.
    fn decision(self, at: i64) -> Decision<ReservationsState, Arc<Reservation>> {
        let change = self.change(at);
        Decision::change(change, |_: &ReservationsState, change| Arc::clone(&change.reservations[0]))
    }
}

/// One change of several reservations. What is given back moves before what is paid, so that no balance is too small between.
fn together(edits: Vec<Edit<'_>>, at: i64) -> Change {
    let first = edits.first().map_or(0, |edit| edit.table.credits.last_entry) + 1;
    let mut change = Change { at, ..Change::default() };
    for edit in edits {
        change.entries.extend(edit.entries);
        change.reservations.push(Arc::new(edit.after));
    }
    change.entries.sort_by_key(|entry| entry.reason == Reason::Hold);
    for (number, entry) in (first..).zip(&mut change.entries) {
        entry.number = number;
    }
    change
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
