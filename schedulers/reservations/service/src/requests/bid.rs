//! Bids that were refused. Those of reservations are stored with them.

use std::sync::Arc;

use estimand_service::{Decision, Request};

use crate::bid::Bid;
use crate::change::{BidRecord, Change, Rejection};
use crate::document::Document;
use crate::writer::ReservationsState;

/// The bid of a request, or those of a list.
pub struct RefusedBids {
    pub documents: Vec<Arc<Document>>,
    pub key: String,
    pub account: String,
}

impl Request<ReservationsState> for RefusedBids {
    type Reply = ();

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, ()>, Rejection> {
        let table = state.table();
        if table.of_key(&self.key).is_some() {
            // They were refused after their price was held, and are stored since then.
            return Ok(Decision::Nothing(()));
        }
        let (now, settings) = (state.now(), &state.shared.settings);
        let has = table.credits.balance(&self.account);
        let bids = (0..).zip(&self.documents).map(|(place, document)| BidRecord {
            number: table.last_bid + 1 + place,
            bid: Bid::of(document, Some(key_of(&self.key, place)), has, now, settings),
        });
        let change = Change { bids: bids.collect(), at: state.now_us(), ..Change::default() };
        Ok(Decision::change(change, |_: &ReservationsState, _| ()))
    }
}

/// The key of one bid of a list.
pub fn key_of(key: &str, place: u64) -> String {
    match place {
        0 => key.to_owned(),
        place => format!("{key}\t{place}"),
    }
}
