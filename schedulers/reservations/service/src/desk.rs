//! The desk: prices what is asked for, holds the price, has the ledger promise the time, and answers.
//!
//! Requests that wait are served together: each is priced with those before it taken, their prices are held in one
//! transaction, and one order asks the ledger for all of them, on the condition that it is still at the revision that they were
//! priced for. If it has moved on, all are priced and ordered again. So nothing is promised at a price that was not right at
//! that moment, and nothing twice, however many ask.
//!
//! An order is stored before it is sent. Where its outcome stayed unknown, because this process or the task service ended, it
//! is sent again as it was: the ledger knows its key, and gives the same promises or refuses them for good.

mod order;

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_client::Client;
use estimand_runtime::Stop;
use estimand_runtime::single_writer::Writer;
use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Duration, sleep};

use crate::document::Document;
use crate::http::problems;
use crate::prices::{self, Priced, Prices};
use crate::refusals;
use crate::requests::{Open, Opened, known};
use crate::reservation::{Order, Reservation, State};
use crate::shared::Shared;
use crate::writer::ReservationsState;

use order::Member;

/// How many wait at most, and are served at once.
const MAX_WAITING: usize = 1_024;
const MAX_SERVED: usize = 256;
/// How often the ledger is looked at although nothing was heard of it, and after a failure.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A request for a reservation.
pub struct Ask {
    pub document: Arc<Document>,
    pub key: Option<String>,
    pub account: String,
    pub by: String,
    pub reply: oneshot::Sender<Result<Opened, Problem>>,
}

/// Hands requests to the desk. Clones are the same.
#[derive(Clone)]
pub struct DeskDoor(mpsc::Sender<Ask>);

/// The requests that wait for the desk.
pub struct Queue(mpsc::Receiver<Ask>);

pub fn queue() -> (DeskDoor, Queue) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (DeskDoor(sender), Queue(receiver))
}

impl DeskDoor {
    /// Makes a reservation, or finds the one that the same request made before.
    pub async fn reserve(
        &self,
        document: Arc<Document>,
        key: Option<String>,
        account: String,
        by: String,
    ) -> Result<Opened, Problem> {
        let (reply, answer) = oneshot::channel();
        let ask = Ask { document, key, account, by, reply };
        self.0
            .try_send(ask)
            .map_err(|_| Problem::unavailable("too many reservations are asked for at once", 1))?;
        let unknown = "the reservation service ended meanwhile: look, and ask again if there is none";
        answer.await.unwrap_or_else(|_| Err(Problem::outcome_unknown(unknown, 1)))
    }
}

pub struct Desk {
    pub shared: Arc<Shared>,
    pub writer: Writer<ReservationsState>,
}

impl Desk {
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
            while asks.len() < MAX_SERVED
                && let Ok(ask) = queue.0.try_recv()
            {
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
        let has_orders = self.shared.table(|table| !table.orders().is_empty());
        if is_known && !has_orders { LOOK_EVERY } else { LOOK_AGAIN }
    }

    async fn serve(&self, asks: Vec<Ask>) {
        let refuse_all = |asks: Vec<Ask>, problem: &Problem| {
            asks.into_iter().for_each(|ask| drop(ask.reply.send(Err(problem.clone()))));
        };
        let Some(client) = self.shared.ledger.borrow().clone().filter(|_| self.shared.is_loaded()) else {
            return refuse_all(asks, &Problem::unavailable("the reservations are not loaded yet", 1));
        };
        self.finish_orders(&client).await;
        let prices = match self.fresh_prices(&client).await {
            Ok(prices) => prices,
            Err(problem) => return refuse_all(asks, &problem),
        };
        if !asks.is_empty() {
            self.open(&client, prices, asks).await;
        }
    }

    /// Sends orders again whose outcome is unknown.
    async fn finish_orders(&self, client: &Client) {
        let orders: Vec<Vec<Arc<Reservation>>> = self.shared.table(|table| {
            table.orders().into_values().map(|members| members.into_iter().cloned().collect()).collect()
        });
        for members in orders {
            let members = members.into_iter().map(|reservation| Member::of(reservation, None)).collect();
            self.complete(client, members).await;
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
        let predictions = predictions.ok_or_else(untrained)?;
        let prices = Prices::new(&settings, &timeline, &predictions).map_err(|error| {
            tracing::error!(%error, "the terms of sale do not fit the capacity");
            Problem::unavailable(format!("the operator's prices do not fit the capacity: {error}"), 60)
        })?;
        let prices = Arc::new(prices);
        self.shared.prices.store(Some(Arc::clone(&prices)));
        Ok(prices)
    }

    /// Prices requests and opens reservations for them, and completes those.
    async fn open(&self, client: &Client, prices: Arc<Prices>, asks: Vec<Ask>) {
        let now = self.shared.now();
        let mut scratch = (*prices).clone();
        let order = Order { key: new_key(), revision: prices.revision };
        let mut opening = Vec::new();
        for ask in asks {
            match self.price(&mut scratch, &ask, now) {
                Ok(Ok(priced)) => opening.push((ask, priced)),
                Ok(Err(known)) => drop(ask.reply.send(Ok(Opened::Known(known)))),
                Err(problem) => drop(ask.reply.send(Err(problem))),
            }
        }
        let opened = join_all(opening.into_iter().map(|(ask, priced)| async {
            let Ask { document, key, account, by, reply } = ask;
            let open = Open { document, key, account, by, offer: priced.offer, order: order.clone() };
            (self.writer.submit(open).await, priced, reply)
        }));
        let mut members = Vec::new();
        for (outcome, priced, reply) in opened.await {
            match outcome {
                Ok(Opened::New(reservation)) => {
                    members.push(Member::of(reservation, Some(reply)).at(priced));
                }
                Ok(known) => drop(reply.send(Ok(known))),
                Err(error) => drop(reply.send(Err(problems::of_write(error)))),
            }
        }
        if !members.is_empty() {
            self.complete(client, members).await;
        }
    }

    /// The price of a request, which is counted as taken; or the reservation that the same request made before.
    fn price(
        &self,
        prices: &mut Prices,
        ask: &Ask,
        now: u64,
    ) -> Result<Result<Priced, Arc<Reservation>>, Problem> {
        let before = self.shared.table(|table| known(table, ask.key.as_deref(), &ask.document));
        if let Some(known) = before.map_err(|rejection| problems::of_rejection(&rejection))? {
            return match known.state() {
                State::Pending => {
                    let detail = "the same request is being promised; whether it is will be known soon";
                    Err(Problem::outcome_unknown(detail, 1))
                }
                _ => Ok(Err(known)),
            };
        }
        let document = &ask.document;
        self.shared.figures.quotes.increment();
        let priced = prices
            .offer(document, now, &BTreeSet::new())
            .map_err(|why| refusals::no_price(&why, document, &self.shared.settings))?;
        let value = document.value.unwrap_or_default();
        if value < priced.offer.price {
            return Err(refusals::too_dear(&priced.offer, value));
        }
        let credits = self.shared.table(|table| table.credits.check(&ask.account, priced.offer.price));
        credits.map_err(|error| problems::of_credits(&error))?;
        prices.take(document, &priced);
        Ok(Ok(priced))
    }
}

/// A key that no other order has.
pub fn new_key() -> String {
    format!("order {:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}
