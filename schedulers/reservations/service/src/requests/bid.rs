//! A bid that was refused. That of a reservation is stored with it.

use std::sync::Arc;

use estimand_runtime::single_writer::{Decision, Request};

use crate::bid::Bid;
use crate::change::{BidRecord, Change, Rejection};
use crate::document::Document;
use crate::writer::ReservationsState;

pub struct RefusedBid {
    pub document: Arc<Document>,
    pub key: String,
    pub account: String,
}

impl Request<ReservationsState> for RefusedBid {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let table = state.table();
        if table.of_key(&self.key).is_some() {
            // It was refused after its price was held, and is stored since then.
            return Ok(Decision::Nothing(()));
        }
        let (now, settings) = (state.now(), &state.shared.settings);
        let has = table.credits.balance(&self.account);
        let bid = Bid::of(&self.document, Some(self.key), has, now, settings);
        let bids = vec![BidRecord { number: table.last_bid + 1, bid }];
        let change = Change { bids, at: state.now_us(), ..Change::default() };
        Ok(Decision::change(change, |_: &ReservationsState, _| ()))
    }
}
