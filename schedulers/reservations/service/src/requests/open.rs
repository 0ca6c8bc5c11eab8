//! New reservations whose prices are held, all or none; or those that the same request made before.

use std::sync::Arc;

use estimand_reservations::Money;
use estimand_runtime::single_writer::{Decision, Request};

use super::bid::key_of;
use super::{Edit, together};
use crate::bid::Bid;
use crate::change::{BidRecord, Change, Rejection};
use crate::credits::{HELD, Reason};
use crate::document::Document;
use crate::reservation::{Offer, Order, Progress, Reservation};
use crate::table::Table;
use crate::writer::ReservationsState;

/// How many reservations are kept. Beyond that the oldest of those that are over make room.
const MAX_RESERVATIONS: usize = 100_000;

pub struct Open {
    /// One, or those of a list.
    pub parts: Vec<(Arc<Document>, Offer)>,
    /// The worth of the whole list; none: it is no list.
    pub list: Option<Money>,
    /// By which the same request is known when it is sent again.
    pub key: Option<String>,
    pub account: String,
    pub by: String,
    pub order: Order,
}

/// The reservations of a request.
#[derive(Debug, Clone)]
pub enum Opened {
    New(Vec<Arc<Reservation>>),
    /// The same request made them before.
    Known(Vec<Arc<Reservation>>),
}

impl Request<ReservationsState> for Open {
    type Reply = Opened;

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, Opened>, Rejection> {
        let (table, at) = (state.table(), state.now_us());
        let documents: Vec<&Document> = self.parts.iter().map(|(document, _)| &**document).collect();
        if let Some(known) = known(table, self.key.as_deref(), &documents, self.list)? {
            return Ok(Decision::Nothing(Opened::Known(known)));
        }
        let price = sum(self.parts.iter().map(|(_, offer)| offer.price));
        table.credits.check(&self.account, price)?;
        let deleted = room(table, self.parts.len())?;
        let has = table.credits.balance(&self.account);
        let first = table.highest + 1;
        let (mut edits, mut bids) = (Vec::new(), Vec::new());
        for (place, (document, offer)) in (0_u64..).zip(self.parts) {
            let bid_key = self.key.as_deref().map(|key| key_of(key, place));
            let bid = Bid::of(&document, bid_key, has, state.now(), &state.shared.settings);
            bids.push(BidRecord { number: table.last_bid + 1 + place, bid });
            let number = first + place;
            let mut progress = Progress::new(offer, self.order.clone(), &document);
            progress.list = self.list.map(|_| first);
            let reservation = Reservation {
                number,
                id: format!("r{number}"),
                key: self.key.clone().filter(|_| place == 0),
                account: self.account.clone(),
                document,
                progress,
                made_at: at,
                made_by: self.by.clone(),
                ended_at: None,
            };
            let mut edit = Edit::new(table, &reservation, &self.by);
            edit.pay(&self.account, HELD, offer.price, Reason::Hold);
            edits.push(edit);
        }
        let change = Change { bids, deleted, ..together(edits, at) };
        Ok(Decision::change(change, |_: &ReservationsState, change| Opened::New(change.reservations.clone())))
    }
}

/// All prices together, or the most that can be said.
pub fn sum(prices: impl IntoIterator<Item = Money>) -> Money {
    prices.into_iter().fold(Money::ZERO, |sum, price| sum.checked_add(price).unwrap_or(Money::MAX))
}

/// The reservations that a key made before.
pub fn known(
    table: &Table,
    key: Option<&str>,
    documents: &[&Document],
    list: Option<Money>,
) -> Result<Option<Vec<Arc<Reservation>>>, Rejection> {
    let Some(first) = key.and_then(|key| table.of_key(key)) else { return Ok(None) };
    let known = table.list_of(first);
    let is_same = match list {
        None => first.progress.list.is_none() && known[0].document.is_same(documents[0]),
        Some(value) => {
            let values = sum(known.iter().filter_map(|known| known.document.value));
            first.progress.list.is_some()
                && values == value
                && known.len() == documents.len()
                && known
                    .iter()
                    .zip(documents)
                    .all(|(known, document)| known.document.is_same_but_value(document))
        }
    };
    if is_same { Ok(Some(known)) } else { Err(Rejection::KeyTaken(first.id.clone())) }
}

/// The reservations that make room for so many.
pub fn room(table: &Table, new: usize) -> Result<Vec<u64>, Rejection> {
    let missing = (table.len() + new).saturating_sub(MAX_RESERVATIONS);
    let oldest = table.all().filter(|reservation| !reservation.is_open()).take(missing);
    let oldest: Vec<u64> = oldest.map(|reservation| reservation.number).collect();
    if oldest.len() == missing { Ok(oldest) } else { Err(Rejection::Full(table.len())) }
}
