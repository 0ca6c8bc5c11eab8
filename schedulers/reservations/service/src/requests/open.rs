//! A new reservation whose price is held, or the one that the same request made before.

use std::sync::Arc;

use estimand_runtime::single_writer::{Decision, Request};

use super::Edit;
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
    pub document: Arc<Document>,
    /// By which the same request is known when it is sent again.
    pub key: Option<String>,
    pub account: String,
    pub by: String,
    pub offer: Offer,
    pub order: Order,
}

/// The reservation of a request.
#[derive(Debug, Clone)]
pub enum Opened {
    New(Arc<Reservation>),
    /// The same request made it before.
    Known(Arc<Reservation>),
}

impl Request<ReservationsState> for Open {
    type Reply = Opened;

    fn decide(self, state: &ReservationsState) -> Result<Decision<ReservationsState, Opened>, Rejection> {
        let (table, at) = (state.table(), state.now_us());
        if let Some(known) = known(table, self.key.as_deref(), &self.document)? {
            return Ok(Decision::Nothing(Opened::Known(known)));
        }
        table.credits.check(&self.account, self.offer.price)?;
        let number = table.highest + 1;
        let has = table.credits.balance(&self.account);
        let bid = Bid::of(&self.document, self.key.clone(), has, state.now(), &state.shared.settings);
        let bid = BidRecord { number: table.last_bid + 1, bid };
        let reservation = Reservation {
            number,
            id: format!("r{number}"),
            key: self.key,
            account: self.account.clone(),
            progress: Progress::new(self.offer, self.order, &self.document),
            document: self.document,
            made_at: at,
            made_by: self.by.clone(),
            ended_at: None,
        };
        let mut edit = Edit::new(table, &reservation, &self.by);
        edit.pay(&self.account, HELD, self.offer.price, Reason::Hold);
        let change = Change { bids: vec![bid], deleted: room(table)?, ..edit.change(at) };
        let made = Arc::new(reservation);
        Ok(Decision::change(change, move |_: &ReservationsState, _| Opened::New(made)))
    }
}

/// The reservation that a key made before.
pub fn known(
    table: &Table,
    key: Option<&str>,
    document: &Document,
) -> Result<Option<Arc<Reservation>>, Rejection> {
    let Some(known) = key.and_then(|key| table.of_key(key)) else { return Ok(None) };
    match known.document.is_same(document) {
        true => Ok(Some(Arc::clone(known))),
        false => Err(Rejection::KeyTaken(known.id.clone())),
    }
}

/// The reservations that make room for one more.
fn room(table: &Table) -> Result<Vec<u64>, Rejection> {
    if table.len() < MAX_RESERVATIONS {
        return Ok(Vec::new());
    }
    let oldest = table.all().find(|reservation| !reservation.is_open());
    oldest.map(|oldest| vec![oldest.number]).ok_or(Rejection::Full(table.len()))
}
