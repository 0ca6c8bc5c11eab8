//! The service of reservations: a time to come is priced, paid for, and promised by the ledger of the task service.
//!
//! How prices come about is up to `estimand-reservations`, which is pure; who has capacity, to the ledger. Here are the
//! reservations with their states, the credits that pay for them, and the desk between: `desk` (prices, holds, orders), `ledger`
//! (carries questions there),
//! `requests` and `writer` (one change after the other, each stored and then shown), `background` (news of the ledger, tasks
//! and releases), `starts` (for a bridge to workers of others), `storage`, and `http` (the handlers).
//!
//! Invariants: a price is held before its promise is asked for; money moves only in the transaction of the reservation that it
//! is for; all accounts together have what was granted; a reservation that was acknowledged is stored, and its promise is in
//! the ledger.

mod background;
mod bid;
mod celery;
mod change;
mod choice;
mod desk;
mod document;
mod http;
mod metrics;
mod predictions;
mod prices;
mod problems;
mod refusals;
mod requests;
mod reservation;
mod settings;
mod shared;
mod starts;
mod storage;
mod table;
mod usage;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_api::promise::PromiseTasks;
use estimand_api::reservation::{PriceCurve, PricePoint, PriceQuote, PriceQuotes};
use estimand_api::share::ShareKind;
use estimand_client::Client;
// The rule by which credits move is the one of the core.
use estimand_reservations::credits;
use estimand_runtime::metrics::Exposition;
use estimand_runtime::{Clock, Readiness, Tasks};
use estimand_service::{OnFatal, Request, Writer};
use estimand_store::{CreditEntryRow, Reads, StoreUrl};
use estimand_web::{Role, Routes, Scope, ServedPart, ShareReport};
use tokio::sync::Mutex;
use tokio::time::timeout;

use desk::{ChangeRequest, Desk, DeskDoor, ReserveRequest};
use document::{Document, ReservationList};
use http::{changes, credits as credit_routes, read, views};
use requests::{Cancel, Grant, Opened, Rebid, RefusedBids};
use reservation::Reservation;
use shared::Shared;
use storage::Storage;
use usage::{MAX_BYTES, MAX_OPEN, MAX_UNITS};
use writer::ReservationsState;

pub use celery::CeleryStart;
pub use desk::new_key;
pub use document::MAX_DOCUMENT_BYTES;
pub use estimand_reservations::{EarlyEnd, Money};
pub use requests::StartNews;
pub use settings::{CeleryTerms, Settings};
pub use starts::{DueStarts, Start, Starts};

/// How long a refusal waits for its bid to be kept.
const KEEP_WITHIN: Duration = Duration::from_secs(2);

/// How long the cancellation of a reservation waits for what its task had.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// The needs of a reservation service.
pub struct ReservationServiceOptions {
    pub store: StoreUrl,
    pub clock: Arc<dyn Clock>,
    pub settings: Settings,
    pub on_fatal: OnFatal,
}

/// A reservation service that runs. Clones are the same one.
#[derive(Clone)]
pub struct ReservationService(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    writer: Writer<ReservationsState>,
    desk: DeskDoor,
    /// Reads the journal and bids, so that reading much makes no change wait.
    reads: Arc<Reads>,
}

impl ReservationService {
    /// Starts the tasks of the process; loading goes on after this returns, and `readiness` says when it is done.
    pub fn start(options: ReservationServiceOptions, tasks: &Tasks, readiness: &Readiness) -> Self {
        let ReservationServiceOptions { store, clock, settings, on_fatal } = options;
        let shared = Arc::new(Shared::new(clock, settings));
        let state = ReservationsState::new(Arc::clone(&shared), Storage::new(store.clone()));
        let ready = readiness.part("reservations");
        let writer = Writer::start(tasks, "reservations", state, ready, on_fatal);
        let reads = Arc::new(Reads::start(store, "reservations-reads"));
        background::start(&shared, &writer, &reads, tasks);
        let (door, queue) = desk::queue();
        let desk = Arc::new(Desk::new(Arc::clone(&shared), writer.clone()));
        // The lock says that one run of the task at a time serves the queue; nothing else ever takes it.
        let queue = Arc::new(Mutex::new(queue));
        tasks.spawn("reservations-desk", move |stop| {
            let (desk, queue) = (Arc::clone(&desk), Arc::clone(&queue));
            async move { desk.run(&mut *queue.lock().await, &stop).await }
        });
        ReservationService(Arc::new(Inner { shared, writer, desk: door, reads }))
    }

    /// Sets the task service, which has the ledger; it may not be known when this starts. There are no prices before. The first one given
    /// stays.
    pub fn set_task_service(&self, client: Client) {
        let _ = self.0.shared.ledger.set(client);
        self.0.shared.heard_of(1);
    }

    /// Sets the data service, which has the choice of a predictor. Without one, the choice stays as it is. The first one given stays.
    pub fn set_data_service(&self, client: Client) {
        let _ = self.0.shared.facts.set(client);
    }

    /// The starts of its reservations, for a bridge that publishes them.
    pub fn starts(&self) -> Starts {
        Starts::new(Arc::clone(&self.0.shared), self.0.writer.clone())
    }

    fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Has a request decided, and waits until its outcome is durable.
    async fn change<R>(&self, request: R) -> Result<R::Reply, Problem>
    where
        R: Request<ReservationsState>,
    {
        Ok(self.0.writer.submit(request).await?)
    }

    /// The price that a request would have now.
    fn quote(&self, document: &Document, scope: &Scope) -> Result<PriceQuote, Problem> {
        let shared = self.shared();
        let prices = shared.known_prices()?;
        shared.figures.quotes.increment();
        desk::check_room(shared, &prices, 1)?;
        let priced = prices.offer(document, shared.now(), &BTreeSet::new());
        let priced = priced.map_err(|why| refusals::no_price(&why, document, &shared.settings))?;
        desk::check_shares(shared, scope, &[(document, &priced)])?;
        Ok(views::quote(document, &priced.offer, prices.revision))
    }

    /// The prices of a list of requests, each with those before it promised.
    fn quote_list(&self, list: &ReservationList, scope: &Scope) -> Result<PriceQuotes, Problem> {
        let (all, revision) = desk::quote_all(self.shared(), &list.documents)?;
        let asked: Vec<_> = list.documents.iter().zip(&all).collect();
        desk::check_shares(self.shared(), scope, &asked)?;
        let price: Money = all.iter().map(|priced| priced.offer.price).sum();
        let quotes = list.documents.iter().zip(&all);
        Ok(PriceQuotes {
            price: price.to_string(),
            covered: list.value.map(|value| value >= price),
            quotes: quotes
                .map(|(document, priced)| views::quote(document, &priced.offer, revision))
                .collect(),
        })
    }

    fn curve(&self, document: &Document) -> Result<PriceCurve, Problem> {
        let shared = self.shared();
        let prices = shared.known_prices()?;
        let points = prices.curve(document, shared.now());
        let points = points.map_err(|why| refusals::no_price(&why, document, &shared.settings))?;
        let point = |(start, price): (u64, Option<Money>)| PricePoint {
            start: refusals::instant(start),
            price: price.map(|price| price.to_string()),
        };
        Ok(PriceCurve {
            slot: shared.settings.slot,
            duration: document.duration,
            points: points.into_iter().map(point).collect(),
            revision: prices.revision,
            predictor: Some(views::predictor(&prices.predictions)),
        })
    }

    async fn reserve(&self, request: ReserveRequest) -> Result<Opened, Problem> {
        let has_celery = request.documents.iter().any(|document| document.celery.is_some());
        if has_celery && self.shared().settings.celery.is_none() {
            return Err(refusals::no_celery());
        }
        // By its key a bid is counted once.
        let key = request.key.clone().unwrap_or_else(desk::new_key);
        let (documents, account) = (request.worths(), request.account.clone());
        let answer = self.0.desk.reserve(ReserveRequest { key: Some(key.clone()), ..request }).await;
        match &answer {
            Ok(Opened::New(_)) => self.shared().figures.granted.increment(),
            Ok(Opened::Known(_)) => {}
            Err(problem) => {
                if self.shared().figures.refused(&problem.kind) {
                    self.keep_bids(RefusedBids { documents, key, account }).await;
                }
            }
        }
        answer
    }

    /// Keeps bids that were refused. That they cannot be kept changes nothing for their caller.
    async fn keep_bids(&self, bids: RefusedBids) {
        let kept = timeout(KEEP_WITHIN, self.0.writer.submit(bids)).await;
        if !matches!(kept, Ok(Ok(()))) {
            self.shared().figures.lost_bids.increment();
            tracing::debug!(?kept, "bids that were refused are not kept");
        }
    }

    /// The price that a change would have now.
    fn quote_change(&self, request: &ChangeRequest) -> Result<PriceQuote, Problem> {
        let shared = self.shared();
        let prices = shared.known_prices()?;
        let reservation = shared.find(&request.scope, &request.id)?;
        let (document, offer) = desk::quote_change(shared, &prices, &reservation, request)?;
        let before = reservation.progress.offer.price;
        Ok(views::changed_quote(before, &document, &offer, prices.revision))
    }

    async fn change_reservation(&self, request: ChangeRequest) -> Result<Arc<Reservation>, Problem> {
        self.0.desk.change(request).await
    }

    async fn rebid(
        &self,
        id: String,
        value: Money,
        scope: Scope,
        by: String,
    ) -> Result<Arc<Reservation>, Problem> {
        self.change(Rebid { id, value, scope, by }).await
    }

    async fn cancel(&self, id: String, scope: Scope, by: String) -> Result<Arc<Reservation>, Problem> {
        tracing::info!(reservation = id, by, "to be cancelled");
        let tasks = self.tasks_of(&id, &scope).await;
        self.change(Cancel { id, by, scope, in_full: None, tasks }).await
    }

    /// The tasks on the promise of a reservation as they are now, if it has a task of its own that may have begun.
    async fn tasks_of(&self, id: &str, scope: &Scope) -> Option<PromiseTasks> {
        let shared = self.shared();
        let found = shared.find(scope, id).ok()?;
        let has_begun = found.is_live() && found.progress.offer.start <= shared.now();
        let client = shared.ledger.get().filter(|_| has_begun && found.document.task.is_some())?;
        let promise = timeout(LOOK_WITHIN, client.promise_of(&found.promise_id())).await;
        let known = promise.ok()?.inspect_err(|error| tracing::debug!(%error, "a promise cannot be read"));
        known.ok()?.tasks
    }

    async fn grant(
        &self,
        user: String,
        amount: Money,
        key: Option<String>,
        by: String,
    ) -> Result<(Money, bool), Problem> {
        self.change(Grant { user, amount, key, by }).await
    }

    /// Entries of the journal, the newest first.
    async fn entries(
        &self,
        user: Option<String>,
        before: i64,
        limit: i64,
    ) -> Result<Vec<CreditEntryRow>, Problem> {
        let of = user.clone();
        let read = self
            .0
            .reads
            .run(user.as_deref(), move |connection| connection.credit_entries(of.as_deref(), before, limit));
        read.await.map_err(|error| {
            tracing::warn!(%error, "the journal of credits cannot be read");
            Problem::unavailable("the database does not answer", 1)
        })
    }
}

/// Types that only queries refer to, which no route brings along.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(estimand_api::duration::SpanText)))]
struct QueryTypes;

impl ServedPart for ReservationService {
    fn routes(&self) -> Routes {
        Routes::new("reservations")
            .add(Role::User, read::list_reservations, read::__path_list_reservations)
            .add(Role::User, changes::reserve, changes::__path_reserve)
            .add(Role::User, changes::reserve_list, changes::__path_reserve_list)
            .add(Role::Read, read::prices, read::__path_prices)
            .add(Role::User, read::reservation, read::__path_reservation)
            .add(Role::User, changes::change_reservation, changes::__path_change_reservation)
            .add(Role::User, changes::bid, changes::__path_bid)
            .add(Role::User, changes::cancel_reservation, changes::__path_cancel_reservation)
            .add(Role::User, credit_routes::balances, credit_routes::__path_balances)
            .add(Role::User, credit_routes::journal, credit_routes::__path_journal)
            .add(Role::Operate, credit_routes::grant, credit_routes::__path_grant)
            .schemas::<QueryTypes>()
            .share(self.clone())
    }

    fn report_shares(&self, report: &mut ShareReport) {
        report.bound(ShareKind::Reservations, MAX_OPEN);
        report.bound(ShareKind::Units, MAX_UNITS);
        report.bound(ShareKind::ReservationBytes, MAX_BYTES);
        self.shared().table.look(|table| {
            for (account, usage) in table.usages.all() {
                report.add(account, ShareKind::Reservations, usage.open);
                report.add(account, ShareKind::Units, usage.units);
                report.add(account, ShareKind::ReservationBytes, usage.bytes);
            }
        });
    }

    fn write_figures(&self, text: &mut String) {
        let shared = self.shared();
        let mut out = Exposition::new(text);
        shared.table.look(|table| shared.figures.write(&mut out, table));
        let predictions = shared.predictions.borrow().clone();
        shared.figures.write_training(&mut out, predictions.as_deref(), shared.clock.now_micros());
    }
}
