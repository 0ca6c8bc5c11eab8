//! The prices of several requests together, each with those before it taken.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_reservations::Money;
use estimand_web::Scope;

use crate::document::Document;
use crate::prices::{Priced, Prices};
use crate::refusals;
use crate::requests::{self, room};
use crate::shared::Shared;

/// The requests of a request, each with its price.
pub type Parts = Vec<(Arc<Document>, Priced)>;

/// A request, and the starts that are left out for it.
pub type Asked<'a> = (&'a Document, &'a BTreeSet<(u64, u64)>);

/// The prices of requests of which all are granted or none, each with those before it taken, if the value covers their sum. They
/// are counted as taken then, and else nothing is.
pub fn price_all(
    shared: &Shared,
    prices: &mut Prices,
    asked: &[Asked<'_>],
    is_list: bool,
    value: Option<Money>,
) -> Result<Vec<Priced>, Problem> {
    check_room(shared, prices, asked.len())?;
    let mut all: Vec<Priced> = Vec::new();
    for (document, without) in asked {
        shared.figures.quotes.increment();
        match prices.offer(document, shared.now(), without) {
            Ok(priced) => {
                prices.take(document, &priced);
                all.push(priced);
            }
            Err(why) => {
                give_back(prices, asked, &all);
                let problem = refusals::no_price(&why, document, &shared.settings);
                return Err(if is_list { refusals::in_list(all.len(), problem) } else { problem });
            }
        }
    }
    let price: Money = all.iter().map(|priced| priced.offer.price).sum();
    match value {
        Some(value) if value < price => {
            give_back(prices, asked, &all);
            Err(match is_list {
                true => refusals::list_too_dear(price, value),
                false => refusals::too_dear(&all[0].offer, value),
            })
        }
        _ => Ok(all),
    }
}

/// Refuses promises for which too much is kept already.
pub fn check_room(shared: &Shared, prices: &Prices, new: usize) -> Result<(), Problem> {
    if !prices.has_promises_left(new) {
        return Err(refusals::no_promises_left());
    }
    shared.table.look(|table| room(table, new))?;
    Ok(())
}

/// Refuses what a user's share has no room for.
pub fn check_shares(shared: &Shared, scope: &Scope, asked: &[(&Document, &Priced)]) -> Result<(), Problem> {
    let Some(user) = scope.user() else { return Ok(()) };
    let offers = asked.iter().map(|(_, priced)| priced.offer);
    let bytes = asked.iter().map(|(document, _)| document.bytes).sum();
    let places = shared.known_prices()?.places();
    shared.table.look(|table| {
        requests::check_shares(table, scope, user, offers, places)?;
        requests::room_for_bytes(table, scope, user, bytes)
    })?;
    Ok(())
}

/// The prices of a list of requests, of which nothing is promised.
pub fn quote_all(shared: &Shared, documents: &[Document]) -> Result<(Vec<Priced>, u64), Problem> {
    let prices = shared.known_prices()?;
    let nowhere = BTreeSet::new();
    let asked: Vec<Asked<'_>> = documents.iter().map(|document| (document, &nowhere)).collect();
    let all = price_all(shared, &mut (*prices).clone(), &asked, true, None)?;
    Ok((all, prices.revision))
}

/// Counts nothing of these as taken any more.
pub fn give_back(prices: &mut Prices, asked: &[Asked<'_>], taken: &[Priced]) {
    for ((document, _), priced) in asked.iter().zip(taken) {
        prices.give_back(document, &priced.offer, priced.offer.width);
    }
}

/// The documents of a list, among which its value is divided as the price is: so each is worth its part of the price, or more.
/// A document that is in no list stays as it is.
pub fn with_values(
    documents: &[Arc<Document>],
    priced: &[Priced],
    list: Option<Money>,
) -> Vec<Arc<Document>> {
    let Some(value) = list else { return documents.to_vec() };
    let price: Money = priced.iter().map(|priced| priced.offer.price).sum();
    let part = |priced: &Priced| value.part(priced.offer.price.as_microcredits(), price.as_microcredits());
    let mut parts: Vec<Money> = priced.iter().map(part).collect();
    let rest = value.checked_sub(parts.iter().copied().sum()).unwrap_or_default();
    // The parts are rounded down.
    if let Some(first) = parts.first_mut() {
        *first = first.checked_add(rest).unwrap_or(*first);
    }
    let valued = documents.iter().zip(parts);
    valued.map(|(document, part)| Arc::new(document.worth(part))).collect()
}
