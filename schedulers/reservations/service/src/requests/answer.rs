//! The ledger's answer to an order, for reservations of which all or none are promised.

use std::sync::Arc;

use estimand_ordering::OrderKey;
use estimand_reservations::Money;
use estimand_service::{Decision, Request};

use super::{Edit, together};
use crate::change::Rejection;
use crate::credits::{HELD, Reason};
use crate::document::Document;
use crate::reservation::{Offer, Reservation, State};
use crate::writer::ReservationsState;

pub struct Answered {
    /// The numbers of the reservations: all that are promised, or the ones of a list.
    pub numbers: Vec<u64>,
    /// The order that was answered. A reservation with another order stays as it is.
    pub order: String,
    pub answer: Answer,
}

#[derive(Debug, Clone)]
pub enum Answer {
    /// The revision and the nodes of each.
    Promised(Vec<(u64, Vec<String>)>),
    Refused {
        reason: String,
    },
    /// They were priced again, and are ordered again. Their documents are the same but for the value.
    Repriced {
        parts: Vec<(Arc<Document>, Offer)>,
        order: OrderKey,
    },
}

impl Request<ReservationsState> for Answered {
    /// All of them as they are afterwards.
    type Reply = Vec<Arc<Reservation>>;

    fn decide(
        self,
        state: &ReservationsState,
    ) -> Result<Decision<ReservationsState, Self::Reply>, Rejection> {
        let (table, at) = (state.table(), state.now_us());
        let unknown = |number: &u64| Rejection::Unknown(format!("r{number}"));
        let known = self.numbers.iter().map(|number| table.get(*number).ok_or_else(|| unknown(number)));
        let known: Vec<&Arc<Reservation>> = known.collect::<Result<_, _>>()?;
        let is_meant = |reservation: &Reservation| {
            let order = reservation.progress.order.as_ref();
            reservation.state() == State::Pending && order.is_some_and(|order| order.key == self.order)
        };
        if !known.iter().all(|reservation| is_meant(reservation)) {
            return Ok(Decision::Nothing(known.into_iter().cloned().collect()));
        }
        let mut edits: Vec<Edit<'_>> =
            known.iter().map(|reservation| Edit::new(table, reservation, "scheduler")).collect();
        match self.answer {
            Answer::Promised(units) => {
                for (edit, (revision, nodes)) in edits.iter_mut().zip(units) {
                    let progress = &mut edit.after.progress;
                    progress.state = State::Promised;
                    (progress.order, progress.is_to_release) = (None, false);
                    (progress.revision, progress.nodes) = (revision, nodes);
                }
            }
            Answer::Refused { reason } => refuse(&mut edits, &reason, at),
            Answer::Repriced { parts, order } => reprice(&mut edits, parts, &order, at),
        }
        let reply = |_: &ReservationsState, change: &crate::change::Change| change.reservations.clone();
        Ok(Decision::change(together(edits, at), reply))
    }
}

/// They keep no key: the same request that is sent again is a new attempt, and cannot reserve twice.
fn refuse(edits: &mut [Edit<'_>], reason: &str, at: i64) {
    for edit in edits {
        edit.after.key = None;
        edit.end_free(State::Refused, at);
        edit.after.progress.reason = Some(reason.to_owned());
    }
}

/// The prices that are held become the new ones. If the account has too little for that, all end here.
fn reprice(edits: &mut [Edit<'_>], parts: Vec<(Arc<Document>, Offer)>, order: &OrderKey, at: i64) {
    let Some(first) = edits.first() else { return };
    let (table, account) = (first.table, first.after.account.clone());
    let held: Money = edits.iter().map(|edit| edit.after.progress.offer.price).sum();
    let needed: Money = parts.iter().map(|(_, offer)| offer.price).sum();
    let more = needed.checked_sub(held).unwrap_or_default();
    if let Err(error) = table.credits.check(&account, more) {
        return refuse(edits, &error.to_string(), at);
    }
    for (edit, (document, offer)) in edits.iter_mut().zip(parts) {
        let before = edit.after.progress.offer.price;
        edit.pay(HELD, &account, before.checked_sub(offer.price).unwrap_or_default(), Reason::Refund);
        edit.pay(&account, HELD, offer.price.checked_sub(before).unwrap_or_default(), Reason::Hold);
        edit.after.document = document;
        (edit.after.progress.offer, edit.after.progress.order) = (offer, Some(order.clone()));
    }
}
