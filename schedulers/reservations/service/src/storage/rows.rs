//! Translates between rows of the store and reservations.

use std::sync::Arc;

use estimand_api::json::parse_object;
use estimand_reservations::Money;
pub use estimand_service::rows::{column, known};
use estimand_store::{BidRow, CreditEntryRow, ReservationGroup, ReservationRow, StoredReservations, actor};
use serde_json::Value;

use crate::bid::Bid;
use crate::change::{BidRecord, Change, outcomes};
use crate::credits::{Credits, Entry};
use crate::document::Document;
use crate::reservation::Reservation;
use crate::table::Table;

/// How many bids are kept at least; those before them are removed so many at a time.
pub const KEPT_BIDS: u64 = 100_000;
const BID_STEP: u64 = 1_000;

/// The rows of changes, as they are after all of them.
pub fn group(changes: &[Change], highest: u64) -> ReservationGroup {
    let mut group = ReservationGroup { highest: column(highest), ..ReservationGroup::default() };
    for (number, reservation) in outcomes(changes) {
        match reservation {
            Some(reservation) => group.reservations.push(row(reservation)),
            None => group.deleted.push(column(number)),
        }
    }
    for change in changes {
        group.entries.extend(change.entries.iter().map(|entry| entry_row(entry, change.at)));
        group.bids.extend(change.bids.iter().map(|bid| bid_row(bid, change.at)));
    }
    let bids = || changes.iter().flat_map(|change| &change.bids).map(|bid| bid.number);
    if let (Some(first), Some(last)) = (bids().min(), bids().max()) {
        // Once in so many numbers, whichever of them ends a group.
        let is_due = last / BID_STEP > (first - 1) / BID_STEP && last > KEPT_BIDS;
        group.removed_bids = is_due.then(|| column(last - KEPT_BIDS));
    }
    let choice = changes.iter().rev().find_map(|change| change.choice);
    group.predictor = choice.and_then(|choice| serde_json::to_string(&choice).ok());
    group
}

fn row(reservation: &Reservation) -> ReservationRow {
    ReservationRow {
        number: column(reservation.number),
        id: reservation.id.clone(),
        idempotency_key: reservation.key.clone(),
        account: reservation.account.clone(),
        document: Value::Object(reservation.document.to_map()).to_string(),
        progress: serde_json::to_string(&reservation.progress).unwrap_or_default(),
        made_at: reservation.made_at,
        made_by: actor(&reservation.made_by),
        ended_at: reservation.ended_at,
    }
}

fn entry_row(entry: &Entry, at: i64) -> CreditEntryRow {
    CreditEntryRow {
        number: column(entry.number),
        at,
        payer: entry.payer.clone(),
        payee: entry.payee.clone(),
        amount: column(entry.amount.as_microcredits()),
        reason: entry.reason.as_str().to_owned(),
        reservation: entry.reservation.map(column),
        idempotency_key: entry.key.clone(),
        actor: actor(&entry.actor),
    }
}

fn bid_row(bid: &BidRecord, at: i64) -> BidRow {
    let text = serde_json::to_string(&bid.bid).unwrap_or_default();
    BidRow { number: column(bid.number), at, bid: text }
}

pub fn table(stored: StoredReservations, highest: u64) -> Table {
    let balances = stored.balances.into_iter().map(|(account, sum)| (account, money(sum)));
    let mut credits = Credits::new(balances.collect(), money(stored.granted), known(stored.last_entry));
    for grant in &stored.keyed_grants {
        if let Some(key) = &grant.idempotency_key {
            credits.note_grant(key, &grant.payee, money(grant.amount));
        }
    }
    let reservations = stored.reservations.iter().filter_map(reservation).collect();
    let choice = stored.predictor.as_deref().and_then(|text| {
        let failed = |error: &serde_json::Error| tracing::error!(%error, "the stored choice of a predictor cannot be read");
        serde_json::from_str(text).inspect_err(failed).ok()
    });
    let mut table = Table::new(reservations, credits, highest, known(stored.last_bid));
    table.choice = choice.unwrap_or_default();
    table
}

/// The reservation in a row; none if it cannot be read, which is logged.
fn reservation(row: &ReservationRow) -> Option<Reservation> {
    let read = || {
        let map = parse_object(row.document.as_bytes()).map_err(|problem| problem.detail)?;
        let document = Document::of_store(map).map_err(|problem| problem.detail)?;
        let progress = serde_json::from_str(&row.progress).map_err(|error| error.to_string())?;
        Ok::<_, String>((document, progress))
    };
    let (document, progress) = read()
        .inspect_err(|cause| {
            tracing::error!(id = row.id, cause, "a stored reservation cannot be read; it is left alone");
        })
        .ok()?;
    Some(Reservation {
        number: known(row.number),
        id: row.id.clone(),
        key: row.idempotency_key.clone(),
        account: row.account.clone(),
        document: Arc::new(document),
        progress,
        made_at: row.made_at,
        made_by: row.made_by.clone(),
        ended_at: row.ended_at,
    })
}

/// The bids in rows, each with the instant of its arrival. A row that cannot be read is passed over.
pub fn bids(rows: Vec<BidRow>) -> Vec<(i64, Bid)> {
    let all = rows.len();
    let read = |row: BidRow| Some((row.at, serde_json::from_str(&row.bid).ok()?));
    let bids: Vec<(i64, Bid)> = rows.into_iter().filter_map(read).collect();
    if bids.len() < all {
        tracing::warn!(unread = all - bids.len(), "some bids cannot be read, and do not count");
    }
    bids
}

fn money(amount: i64) -> Money {
    Money::microcredits(known(amount))
}
