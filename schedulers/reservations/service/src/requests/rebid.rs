//! Another value for a reservation that is there: what it is worth decides what is kept if capacity is lost.

use std::sync::Arc;

use estimand_reservations::Money;
use estimand_service::{Decision, Request};
use estimand_web::Scope;

use super::Edit;
use crate::change::Rejection;
use crate::reservation::{Reservation, State};
use crate::writer::ReservationsState;

pub struct Rebid {
    pub id: String,
    pub value: Money,
    pub by: String,
    /// The reservations that it may be.
    pub scope: Scope,
}

impl Request<ReservationsState> for Rebid {
    type Reply = Arc<Reservation>;

    fn decide(
        self,
        state: &ReservationsState,
    ) -> Result<Decision<ReservationsState, Self::Reply>, Rejection> {
        let reservation = state.table().find(&self.scope, &self.id);
        let reservation = reservation.ok_or(Rejection::Unknown(self.id))?;
        let id = || reservation.id.clone();
        if !matches!(reservation.state(), State::Promised | State::Active) {
            return Err(Rejection::NotLive { id: id(), state: reservation.state().as_str() });
        }
        if reservation.progress.change.is_some() {
            return Err(Rejection::Changing(id()));
        }
        let price = reservation.progress.offer.price;
        if self.value < price {
            let (value, price) = (self.value.to_string(), price.to_string());
            return Err(Rejection::BelowPrice { id: id(), value, price });
        }
        let mut edit = Edit::new(state.table(), reservation, &self.by);
        edit.after.document = Arc::new(reservation.document.worth(self.value));
        Ok(edit.decision(state.now_us()))
    }
}
