//! New credits, by an operator's word.

use estimand_reservations::Money;
use estimand_service::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::credits::{Entry, Reason};
use crate::writer::ReservationsState;

pub struct Grant {
    pub user: String,
    pub amount: Money,
    /// By which the same grant is known when it is sent again.
    pub key: Option<String>,
    pub by: String,
}

impl Request<ReservationsState> for Grant {
    /// The balance, and whether the grant is new.
    type Reply = (Money, bool);

    fn decide(
        self,
        state: &ReservationsState,
    ) -> Result<Decision<ReservationsState, Self::Reply>, Rejection> {
        let credits = &state.table().credits;
        if let Some(known) = self.key.as_deref().and_then(|key| credits.grant_of(key)) {
            return match known.user == self.user && known.amount == self.amount {
                true => Ok(Decision::Nothing((credits.balance(&self.user), false))),
                false => Err(Rejection::GrantKeyTaken {
                    user: known.user.clone(),
                    amount: known.amount.to_string(),
                }),
            };
        }
        credits.check_grant(self.amount)?;
        let balance = credits.balance(&self.user).checked_add(self.amount).unwrap_or(Money::MAX);
        let entry = Entry {
            number: credits.last_entry + 1,
            payer: None,
            payee: self.user,
            amount: self.amount,
            reason: Reason::Grant,
            reservation: None,
            key: self.key,
            actor: self.by,
        };
        let change = Change { entries: vec![entry], at: state.now_us(), ..Change::default() };
        Ok(Decision::change(change, move |_: &ReservationsState, _| (balance, true)))
    }
}
