//! A change of a reservation: priced as if its promise was not there, held, and then made of the promise in one step of the
//! ledger, on the condition that it is at the revision that was priced. A refusal leaves everything as it was.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;
use estimand_client::Client;
use estimand_ordering::{Order, Step};
use estimand_reservations::Money;

use super::order::{full_starts, unknown};
use super::{ChangeRequest, Desk, new_key};
use crate::change::Rejection;
use crate::document::Document;
use crate::prices::{Priced, Prices};
use crate::refusals;
use crate::requests::{ChangeAnswer, ChangeAnswered, PlanChange};
use crate::reservation::{Offer, PendingChange, Reservation, State};
use crate::shared::Shared;
use crate::usage::MAX_UNITS;

/// The document that a change makes, and its price. The reservation stays as it is.
pub fn quote(
    shared: &Shared,
    prices: &Prices,
    reservation: &Reservation,
    request: &ChangeRequest,
) -> Result<(Document, Offer), Problem> {
    shared.figures.quotes.increment();
    let (document, priced) = priced(shared, prices, reservation, request, &BTreeSet::new())?;
    Ok((document, priced.offer))
}

/// The document with the change, and its price as if the reservation's promise was not there.
fn priced(
    shared: &Shared,
    prices: &Prices,
    reservation: &Reservation,
    request: &ChangeRequest,
    without: &BTreeSet<(u64, u64)>,
) -> Result<(Document, Priced), Problem> {
    let (id, now) = (|| reservation.id.clone(), shared.now());
    if reservation.state() != State::Promised || reservation.progress.offer.start <= now {
        return Err(Rejection::Begun { id: id(), state: reservation.state().as_str() }.into());
    }
    if reservation.progress.change.is_some() {
        return Err(Rejection::Changing(id()).into());
    }
    let document = reservation.document.changed(&request.change, shared.clock.now_micros())?;
    let mut scratch = prices.clone();
    scratch.give_back(&reservation.document, &reservation.progress.offer, reservation.width());
    let priced = scratch.offer(&document, now, without);
    let priced = priced.map_err(|why| refusals::no_price(&why, &document, &shared.settings))?;
    let more = priced.offer.width.saturating_sub(reservation.width());
    if more > 0 {
        let units =
            shared.table.look(|table| table.usages.of(&reservation.account).map_or(0, |usage| usage.units));
        request.scope.check_share(ShareKind::Units, units, more, MAX_UNITS)?;
    }
    Ok((document, priced))
}

impl Desk {
    pub(super) async fn change(
        &self,
        client: &Client,
        request: ChangeRequest,
    ) -> Result<Arc<Reservation>, Problem> {
        let key = new_key();
        let mut without = BTreeSet::new();
        let mut order = Order::held(self.shared.find(&request.scope, &request.id)?.promise());
        loop {
            let prices = self.fresh_prices(client).await?;
            let reservation = self.shared.find(&request.scope, &request.id)?;
            self.shared.figures.quotes.increment();
            let worth_it = |(document, priced): (Document, Priced)| {
                let value = document.value.unwrap_or_default();
                match value < priced.offer.price {
                    true => Err(refusals::too_dear(&priced.offer, value)),
                    false => Ok((document, priced)),
                }
            };
            let priced = priced(&self.shared, &prices, &reservation, &request, &without).and_then(worth_it);
            let (document, priced) = match priced {
                // No request is refused for the ledger's state as it was before.
                Err(problem)
                    if refusals::is_for_the_moment(&problem)
                        && self.newer_prices(client, &prices).await.is_some()
                        && order.begin_round() =>
                {
                    continue;
                }
                priced => priced?,
            };
            let change = PendingChange {
                key: key.clone(),
                document: Arc::new(document),
                offer: priced.offer,
                revision: prices.revision,
                held: Money::ZERO,
            };
            let (number, before) = (reservation.number, Arc::clone(&reservation.document));
            let plan = PlanChange { number, before, change: change.clone(), by: request.by.clone() };
            self.writer.submit(plan).await?;
            order.change(change.revision, change.resize());
            match self.ask(client, &mut order).await {
                Some(Step::Done(done)) => {
                    // The next reading of the ledger has it.
                    self.shared.heard_of(done.revision);
                    let changed = self.answer_change(number, &key, ChangeAnswer::Made(done.promises)).await;
                    self.shared.tidying.ask();
                    return changed;
                }
                Some(Step::Plan(room)) => {
                    self.shared.figures.repeated.increment();
                    if room.promise.is_some() {
                        without.extend(full_starts(&priced, &room, &self.shared.settings));
                    }
                    self.answer_change(number, &key, ChangeAnswer::Refused).await?;
                    self.read_prices(client).await?;
                }
                Some(Step::Refuse(problem) | Step::Apart(problem)) => {
                    self.answer_change(number, &key, ChangeAnswer::Refused).await?;
                    return Err(problem);
                }
                Some(Step::AskAgain(reason)) => return Err(unknown(&reason)),
                None => return Err(unknown("its order has ended")),
            }
        }
    }

    /// Asks again for changes whose outcome is unknown. A change that the ledger has made is found to be made; a change that it
    /// has not made, because it has moved on, is refused.
    pub(super) async fn finish_changes(&self, client: &Client) {
        let open: Vec<Arc<Reservation>> = self.shared.table.look(|table| table.changing().cloned().collect());
        for reservation in open {
            let Some(change) = &reservation.progress.change else { continue };
            let mut order = Order::held(reservation.promise());
            order.change(change.revision, change.resize());
            let answer = match self.ask(client, &mut order).await {
                Some(Step::Done(done)) => ChangeAnswer::Made(done.promises),
                Some(Step::Plan(_) | Step::Refuse(_) | Step::Apart(_)) => ChangeAnswer::Refused,
                Some(Step::AskAgain(_)) | None => continue,
            };
            // If it is not stored, it is asked for again.
            let _ = self.answer_change(reservation.number, &change.key, answer).await;
        }
    }

    async fn answer_change(
        &self,
        number: u64,
        key: &str,
        answer: ChangeAnswer,
    ) -> Result<Arc<Reservation>, Problem> {
        let answered = ChangeAnswered { number, key: key.to_owned(), answer };
        Ok(self.writer.submit(answered).await?)
    }
}
