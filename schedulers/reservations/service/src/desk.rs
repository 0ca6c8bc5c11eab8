//! The desk: prices what is asked for, holds the price, has the ledger promise the time, and answers.
//!
//! Requests that wait are served together: each is priced with those before it taken, their prices are held in one
//! transaction, and one order asks the ledger for all of them, on the condition that it is still at the revision that they were
//! priced for. If it has moved on, all are priced and ordered again. So nothing is promised at a price that was not right at
//! that moment, and nothing twice, however many ask.
//!
//! An answer of the ledger is stored while the next requests are opened.
//!
//! An order is stored before it is sent. Where its outcome stayed unknown, because this process or the task service ended, it
//! is sent again as it was: the ledger knows its key, and gives the same promises or refuses them for good.

mod answering;
mod change;
mod order;
mod pricing;
mod queue;

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_api::promise::MAX_BATCH;
use estimand_carrier::answer;
use estimand_client::Client;
use estimand_ordering::{Order, OrderKey, Step};
use estimand_reservations::MAX_LIST;
use estimand_runtime::Stop;
use estimand_service::Writer;
use futures_util::future::join_all;
use tokio::time::{Duration, sleep};

use crate::change::Rejection;
use crate::document::Document;
use crate::prices::{self, Priced, Prices};
use crate::refusals;
use crate::requests::{Open, Opened, known};
use crate::reservation::{Reservation, State};
use crate::shared::Shared;
use crate::table::Table;
use crate::writer::ReservationsState;

use answering::Answering;
pub use change::quote as quote_change;
use order::OrderGroup;
use pricing::{Asked, Parts, give_back, price_all, with_values};
pub use pricing::{check_room, check_shares, quote_all};
use queue::{Ask, Queue, Reply};
pub use queue::{ChangeRequest, DeskDoor, ReserveRequest, queue};

/// How many are served at once.
const MAX_SERVED: usize = 256;
/// How often the ledger is looked at although nothing was heard of it, and after a failure.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The ledger gives so many promises at once.
const MAX_MEMBERS: usize = MAX_BATCH - MAX_LIST;

pub struct Desk {
    pub shared: Arc<Shared>,
    pub writer: Writer<ReservationsState>,
    answering: Answering,
}

impl Desk {
    pub fn new(shared: Arc<Shared>, writer: Writer<ReservationsState>) -> Desk {
        Desk { shared, writer, answering: Answering::new() }
    }

    /// Serves until the stop.
    pub async fn run(&self, queue: &mut Queue, stop: &Stop) {
        let mut news = self.shared.revision.subscribe();
        let mut trained = self.shared.predictions.subscribe();
        loop {
            let ask = tokio::select! {
                () = stop.requested() => return,
                ask = queue.0.recv() => ask,
                _ = news.changed() => None,
                _ = trained.changed() => None,
                () = sleep(self.pause()) => None,
            };
            let mut asks: Vec<Ask> = ask.into_iter().collect();
            let mut members: usize = asks.iter().map(Ask::members).sum();
            while asks.len() < MAX_SERVED
                && members <= MAX_MEMBERS
                && let Ok(ask) = queue.0.try_recv()
            {
                members += ask.members();
                asks.push(ask);
            }
            tokio::select! {
                () = stop.requested() => return,
                () = self.serve(asks) => {}
            }
        }
    }

    fn pause(&self) -> Duration {
        let is_known = self.shared.prices.load().is_some();
        let has_orders = self.shared.table.look(Table::has_orders);
        if is_known && !has_orders { LOOK_EVERY } else { LOOK_AGAIN }
    }

    async fn serve(&self, asks: Vec<Ask>) {
        let refuse_all = |asks: Vec<Ask>, problem: &Problem| {
            asks.into_iter().for_each(|ask| ask.refuse(problem.clone()));
        };
        let Some(client) = self.shared.ledger.get().filter(|_| self.shared.table.is_loaded()) else {
            return refuse_all(asks, &Problem::unavailable("the reservations are not loaded yet", 1));
        };
        self.finish_orders(client).await;
        self.finish_changes(client).await;
        let prices = match self.fresh_prices(client).await {
            Ok(prices) => prices,
            Err(problem) => return refuse_all(asks, &problem),
        };
        let (mut requests, mut changes) = (Vec::new(), Vec::new());
        for ask in asks {
            match ask {
                Ask::Reserve(request, reply) => requests.push((request, reply)),
                Ask::Change(request, reply) => changes.push((request, reply)),
            }
        }
        if !requests.is_empty() {
            self.open(client, prices, requests).await;
        }
        for (request, reply) in changes {
            let _ = reply.send(self.change(client, request).await);
        }
    }

    /// Sends orders again whose outcome is unknown.
    async fn finish_orders(&self, client: &Client) {
        let orders: Vec<Vec<Arc<Reservation>>> = self.shared.table.look(|table| {
            let orders = table.orders().into_iter().filter(|(key, _)| !self.answering.has(key));
            orders.map(|(_, members)| members.into_iter().cloned().collect()).collect()
        });
        for members in orders {
            self.complete(client, OrderGroup::of_all(members)).await;
        }
    }

    /// Prices for the revision of the ledger that was heard of last, and the demand that is expected now.
    async fn fresh_prices(&self, client: &Client) -> Result<Arc<Prices>, Problem> {
        let heard = *self.shared.revision.borrow();
        let now = self.shared.now();
        let expected = self.shared.predictions.borrow().clone();
        let is_expected = |prices: &Prices| {
            expected.as_ref().is_none_or(|expected| Arc::ptr_eq(expected, &prices.predictions))
        };
        match self.shared.prices.load_full() {
            Some(prices) if prices.revision >= heard && !prices.is_past(now) && is_expected(&prices) => {
                Ok(prices)
            }
            _ => self.read_prices(client).await,
        }
    }

    async fn read_prices(&self, client: &Client) -> Result<Arc<Prices>, Problem> {
        let settings = Arc::new(self.shared.settings.clone());
        let timeline = client.capacity_timeline(&prices::query(&settings, self.shared.now())).await;
        let timeline = timeline.map_err(|error| {
            tracing::debug!(%error, "the ledger of capacity cannot be read");
            Problem::unavailable(format!("the ledger of capacity cannot be read: {error}"), 1)
        })?;
        self.shared.sells(prices::goods(&settings, &timeline));
        let predictions = self.shared.predictions.borrow().clone();
        let untrained = || Problem::unavailable("the predictor of demand is being trained", 1);
        // Where nothing is sold there is nothing to train on, and no price to be wrong.
        let nothing = || timeline.classes.is_empty().then(Arc::default);
        let predictions = predictions.or_else(nothing).ok_or_else(untrained)?;
        let prices = Prices::new(&settings, &timeline, &predictions).map_err(|error| {
            tracing::error!(%error, "the terms of sale do not fit the capacity");
            Problem::unavailable(format!("the operator's prices do not fit the capacity: {error}"), 60)
        })?;
        let prices = Arc::new(prices);
        self.shared.prices.store(Some(Arc::clone(&prices)));
        Ok(prices)
    }

    /// Prices requests and opens reservations for them, and completes those.
    async fn open(
        &self,
        client: &Client,
        prices: Arc<Prices>,
        requests: Vec<(ReserveRequest, Reply<Opened>)>,
    ) {
        // A request that is sent again is answered with the first one.
        let is_pending = |request: &ReserveRequest| {
            let key = request.key.as_deref();
            self.shared.table.look(|table| {
                key.and_then(|key| table.of_key(key)).is_some_and(|known| known.state() == State::Pending)
            })
        };
        if requests.iter().any(|(request, _)| is_pending(request)) {
            self.answering.end().await;
        }
        let places = prices.places();
        let (opening, revision) = self.price_each(client, prices, requests).await;
        let order = &OrderKey { key: new_key(), revision };
        let opened = join_all(opening.into_iter().map(|(request, parts, reply)| async move {
            let ReserveRequest { list, key, account, scope, by, .. } = request;
            let (documents, priced): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            let offers = priced.iter().map(|priced: &Priced| priced.offer);
            let parts = documents.into_iter().zip(offers).collect();
            let open = Open { parts, list, key, account, scope, places, by, order: order.clone() };
            (self.writer.submit(open).await, priced, reply)
        }));
        let mut groups = Vec::new();
        for (outcome, priced, reply) in opened.await {
            match outcome {
                Ok(Opened::New(reservations)) => groups.push(OrderGroup::new(reservations, priced, reply)),
                Ok(known) => drop(reply.send(Ok(known))),
                Err(error) => drop(reply.send(Err(error.into()))),
            }
        }
        if !groups.is_empty() {
            self.complete(client, groups).await;
        }
    }

    /// The requests that can be had, with the revision that they are priced for; the others are answered. No request is refused for the
    /// ledger's state as it was before.
    async fn price_each(
        &self,
        client: &Client,
        mut prices: Arc<Prices>,
        mut requests: Vec<(ReserveRequest, Reply<Opened>)>,
    ) -> (Vec<(ReserveRequest, Parts, Reply<Opened>)>, u64) {
        let mut is_read = false;
        loop {
            let mut scratch = (*prices).clone();
            let (mut priced, mut refused) = (Vec::new(), Vec::new());
            for (request, reply) in requests {
                match self.price(&mut scratch, &request) {
                    Ok(Ok(parts)) => priced.push((request, parts, reply)),
                    Ok(Err(known)) => drop(reply.send(Ok(Opened::Known(known)))),
                    Err(problem) => refused.push((request, problem, reply)),
                }
            }
            let may_be_old =
                !is_read && refused.iter().any(|(_, problem, _)| refusals::is_for_the_moment(problem));
            is_read = true;
            let newer = if may_be_old { self.newer_prices(client, &prices).await } else { None };
            match newer {
                Some(newer) => {
                    let refused = refused.into_iter().map(|(request, _, reply)| (request, reply));
                    requests = priced
                        .into_iter()
                        .map(|(request, _, reply)| (request, reply))
                        .chain(refused)
                        .collect();
                    prices = newer;
                }
                None => {
                    for (_, problem, reply) in refused {
                        let _ = reply.send(Err(problem));
                    }
                    return (priced, prices.revision);
                }
            }
        }
    }

    /// Asks the ledger what an order is to ask, and says what follows; none: it has nothing to ask.
    async fn ask(&self, client: &Client, order: &mut Order) -> Option<Step> {
        let question = order.question()?;
        let answer = answer(client, &question, || self.shared.now()).await;
        order.hear(&question, answer)
    }

    /// The prices of now, if the ledger has moved on.
    async fn newer_prices(&self, client: &Client, prices: &Prices) -> Option<Arc<Prices>> {
        let newer = self.read_prices(client).await.ok()?;
        (newer.revision > prices.revision).then_some(newer)
    }

    /// The prices of a request, which are counted as taken; or the reservations that the same request made before.
    fn price(
        &self,
        prices: &mut Prices,
        request: &ReserveRequest,
    ) -> Result<Result<Parts, Vec<Arc<Reservation>>>, Problem> {
        let documents: Vec<&Document> = request.documents.iter().map(|document| &**document).collect();
        let before =
            self.shared.table.look(|table| known(table, request.key.as_deref(), &documents, request.list));
        if let Some(known) = before? {
            return match known.iter().any(|one| one.state() == State::Pending) {
                true => {
                    let detail = "the same request is being promised; whether it is will be known soon";
                    Err(Problem::outcome_unknown(detail, 1))
                }
                false => Ok(Err(known)),
            };
        }
        let nowhere = BTreeSet::new();
        let asked: Vec<Asked<'_>> = documents.into_iter().map(|document| (document, &nowhere)).collect();
        let value = request.list.or(request.documents[0].value).unwrap_or_default();
        let priced = price_all(&self.shared, prices, &asked, request.list.is_some(), Some(value))?;
        let price = priced.iter().map(|priced| priced.offer.price).sum();
        let credits = self.shared.table.look(|table| table.credits.check(&request.account, price));
        if let Err(error) = credits {
            give_back(prices, &asked, &priced);
            return Err(Rejection::from(error).into());
        }
        let offered: Vec<_> = asked.iter().map(|(document, _)| *document).zip(&priced).collect();
        if let Err(problem) = check_shares(&self.shared, &request.scope, &offered) {
            give_back(prices, &asked, &priced);
            return Err(problem);
        }
        let documents = with_values(&request.documents, &priced, request.list);
        Ok(Ok(documents.into_iter().zip(priced).collect()))
    }
}

/// A key that no other order has.
pub fn new_key() -> String {
    format!("order {:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}
