//! The ledger's answer to an order, for one of its reservations.

use std::sync::Arc;

use estimand_reservations::Money;
use estimand_runtime::single_writer::{Decision, Request};

use super::Edit;
use crate::change::Rejection;
use crate::credits::{HELD, Reason};
use crate::reservation::{Offer, Order, Reservation, State};
use crate::writer::ReservationsState;

pub struct Answered {
    pub number: u64,
    /// The order that was answered. One that is not the reservation's any more changes nothing.
    pub order: String,
    pub answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Promised {
        revision: u64,
        nodes: Vec<String>,
    },
    Refused {
        reason: String,
    },
    /// It was priced again, and is ordered again.
    Repriced {
        offer: Offer,
        order: Order,
    },
}

impl Request<ReservationsState> for Answered {
    type Reply = Arc<Reservation>;

    fn decide(
        self,
        state: &ReservationsState,
    ) -> Result<Decision<ReservationsState, Self::Reply>, Rejection> {
        let (table, at) = (state.table(), state.now_us());
        let unknown = || Rejection::Unknown(format!("r{}", self.number));
        let reservation = table.get(self.number).ok_or_else(unknown)?;
        let is_meant = reservation.progress.order.as_ref().is_some_and(|order| order.key == self.order);
        if reservation.state() != State::Pending || !is_meant {
            return Ok(Decision::Nothing(Arc::clone(reservation)));
        }
        let mut edit = Edit::new(table, reservation, "scheduler");
        match self.answer {
            Answer::Promised { revision, nodes } => {
                let progress = &mut edit.after.progress;
                progress.state = State::Promised;
                (progress.order, progress.is_to_release) = (None, false);
                (progress.revision, progress.nodes) = (revision, nodes);
            }
            Answer::Refused { reason } => {
                edit.end(State::Refused, Money::ZERO, Reason::Refund, at);
                edit.after.progress.reason = Some(reason);
            }
            Answer::Repriced { offer, order } => reprice(&mut edit, offer, order, at),
        }
        Ok(edit.decision(at))
    }
}

/// The price that is held becomes the new one. If the account has too little for that, it ends here.
fn reprice(edit: &mut Edit<'_>, offer: Offer, order: Order, at: i64) {
    let (before, account) = (edit.after.progress.offer.price, edit.after.account.clone());
    let more = offer.price.checked_sub(before).unwrap_or_default();
    if let Err(error) = edit.table.credits.check(&account, more) {
        edit.end(State::Refused, Money::ZERO, Reason::Refund, at);
        edit.after.progress.reason = Some(error.to_string());
        return;
    }
    edit.pay(&account, HELD, more, Reason::Hold);
    edit.pay(HELD, &account, before.checked_sub(offer.price).unwrap_or_default(), Reason::Refund);
    (edit.after.progress.offer, edit.after.progress.order) = (offer, Some(order));
}
