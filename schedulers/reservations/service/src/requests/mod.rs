//! The requests that the writer decides, one after the other: each purely, on what is stored.

mod answer;
mod bid;
mod cancel;
mod choose;
mod grant;
mod hear;
mod open;
mod rebid;
mod started;
mod tidy;

pub use answer::{Answer, Answered};
pub use bid::RefusedBid;
pub use cancel::Cancel;
pub use choose::Choose;
pub use grant::Grant;
pub use hear::Hear;
pub use open::{Open, Opened, known};
pub use rebid::Rebid;
pub use started::StartKnown;
pub use tidy::{Released, TaskKnown};

use std::sync::Arc;

use estimand_reservations::Money;
use estimand_runtime::single_writer::Decision;

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
                number: self.table.credits.last_entry + 1 + self.entries.len() as u64,
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

    /// Ends it: what is kept of its price is the operator's, the rest is given back.
    fn end(&mut self, state: State, kept: Money, reason: Reason, at: i64) {
        let (price, account) = (self.after.progress.offer.price, self.after.account.clone());
        let refund = price.checked_sub(kept).unwrap_or_default();
        self.pay(HELD, INCOME, kept, reason);
        self.pay(HELD, &account, refund, Reason::Refund);
        let progress = &mut self.after.progress;
        (progress.state, progress.refund, progress.order) = (state, refund, None);
        self.after.ended_at = Some(at);
    }

    fn change(self, at: i64) -> Change {
        Change { reservations: vec![Arc::new(self.after)], entries: self.entries, at, ..Change::default() }
    }

    /// The decision that gives the reservation as it is afterwards.
    fn decision(self, at: i64) -> Decision<ReservationsState, Arc<Reservation>> {
        let after = Arc::new(self.after);
        let change =
            Change { reservations: vec![Arc::clone(&after)], entries: self.entries, at, ..Change::default() };
        Decision::change(change, move |_: &ReservationsState, _| after)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
