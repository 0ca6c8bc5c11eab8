//! New reservations whose prices are held, all or none; or those that the same request made before.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::share::ShareKind;
use estimand_ordering::OrderKey;
use estimand_reservations::Money;
use estimand_service::{Decision, Request};
use estimand_web::Scope;

use super::bid::key_of;
use super::{Edit, together};
use crate::bid::Bid;
use crate::change::{BidRecord, Change, Rejection};
use crate::credits::{HELD, Reason};
use crate::document::Document;
use crate::reservation::{Offer, Progress, Reservation};
use crate::table::Table;
use crate::usage::{MAX_BYTES, MAX_OPEN, MAX_UNITS, Usage};
use crate::writer::ReservationsState;

/// Reservations that are kept. Beyond that the oldest that are over make room, of the accounts that have most of them.
const MAX_RESERVATIONS: usize = 100_000;

pub struct Open {
    /// One, or those of a list.
    pub parts: Vec<(Arc<Document>, Offer)>,
    /// The worth of the whole list; none: it is no list.
    pub list: Option<Money>,
    /// By which the same request is known when it is sent again.
    pub key: Option<String>,
    pub account: String,
    /// The user whose shares it needs.
    pub scope: Scope,
    /// The places of tasks of all nodes together.
    pub places: u64,
    pub by: String,
    pub order: OrderKey,
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
        let price = self.parts.iter().map(|(_, offer)| offer.price).sum();
        table.credits.check(&self.account, price)?;
        let offers = self.parts.iter().map(|(_, offer)| *offer);
        check_shares(table, &self.scope, &self.account, offers, self.places)?;
        let bytes = self.parts.iter().map(|(document, _)| document.bytes).sum();
        let mut deleted = room(table, self.parts.len())?;
        deleted.extend(room_for_bytes(table, &self.scope, &self.account, bytes)?);
        deleted.sort_unstable();
        deleted.dedup();
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
            let values: Money = known.iter().filter_map(|known| known.document.value).sum();
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

/// Refuses reservations with which a user would have more of what is open than their share. Units that cost nothing have no price
/// that would bound them, so they are a share of all places.
pub fn check_shares(
    table: &Table,
    scope: &Scope,
    account: &str,
    offers: impl Iterator<Item = Offer> + Clone,
    places: u64,
) -> Result<(), Rejection> {
    let usage = table.usages.of(account);
    let of = |amount: fn(&Usage) -> u64| usage.map_or(0, amount);
    let units = |offers: &mut dyn Iterator<Item = Offer>| offers.map(|offer| offer.width).sum::<u64>();
    let all = units(&mut offers.clone());
    let free = units(&mut offers.clone().filter(|offer| offer.price == Money::ZERO));
    let check = |kind, used, more, bound| {
        scope.check_share(kind, used, more, bound).map_err(|problem| Rejection::Share(Box::new(problem)))
    };
    check(ShareKind::Reservations, of(|usage| usage.open), offers.count() as u64, MAX_OPEN)?;
    check(ShareKind::Units, of(|usage| usage.units), all, MAX_UNITS)?;
    match free {
        0 => Ok(()),
        free => check(ShareKind::Units, of(|usage| usage.free_units), free, places.min(MAX_UNITS)),
    }
}

/// The reservations that make room for so many bytes. Over a user's own share it is their own that are over, the oldest first; where all
/// together have too many it is those of whoever has most. A store with more than that is left so, and becomes smaller with each request.
pub fn room_for_bytes(table: &Table, scope: &Scope, account: &str, new: u64) -> Result<Vec<u64>, Rejection> {
    let usages = &table.usages;
    let used = usages.of(account).map_or(0, |usage| usage.bytes);
    let limit = scope.limit(ShareKind::ReservationBytes, MAX_BYTES).unwrap_or(u64::MAX);
    let own = usages.oldest(account, excess(used, new, limit));
    // A new one must fit; those of before the limit may stay.
    let left = used - own.bytes;
    if left.saturating_add(new) > limit && own.bytes < new {
        let full = scope.check_share(ShareKind::ReservationBytes, left, new, MAX_BYTES);
        full.map_err(|problem| Rejection::Share(Box::new(problem)))?;
    }
    let needed = excess(usages.bytes(), new, MAX_BYTES);
    if own.bytes >= needed {
        return Ok(own.numbers);
    }
    let others = usages.oldest_of_largest(needed);
    if others.bytes < needed.min(new) {
        return Err(Rejection::TooManyBytes(usages.bytes()));
    }
    let numbers: BTreeSet<u64> = own.numbers.into_iter().chain(others.numbers).collect();
    Ok(numbers.into_iter().collect())
}

/// The bytes that are to go for so many new ones: as many as are too many, or where there are far too many, twice what is new.
fn excess(used: u64, new: u64, limit: u64) -> u64 {
    used.saturating_add(new).saturating_sub(limit).min(new.saturating_mul(2))
}

/// The reservations that make room for so many.
pub fn room(table: &Table, new: usize) -> Result<Vec<u64>, Rejection> {
    match (table.len() + new).saturating_sub(MAX_RESERVATIONS) {
        0 => Ok(Vec::new()),
        missing => table.usages.oldest_of_most(missing).ok_or_else(|| Rejection::Full(table.len())),
    }
}
