//! The data service: owns values, their history and bindings. The only writer of `t_data`.
//!
//! A read is one look into an immutable snapshot in memory. A write is an operation in a bounded queue; the
//! one writer thread applies and stores it with all others that have arrived, and answers when it is durable.
//! Watchers follow a log of recent changes. The service knows no registration: the registry tells it which
//! names keep a history.
//!
//! `core` holds values and applies operations, `http` translates, `storage` knows the rows, `queue` and
//! `writer` are between. What the writer stores is in the journal first, which `journal` folds into `t_data`.

mod core;
mod figures;
mod http;
mod journal;
mod queue;
mod storage;
mod writer;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use estimand_api::names::DataName;
use estimand_api::problem::Problem;
use estimand_runtime::metrics::Pieces;
use estimand_runtime::{Clock, PartReady, Readiness, Stop, Tasks, Trouble};
use estimand_store::{Connection, Error, Halt, HistoryQuery, PastRows, Reads, StoreUrl, SwapRow};
use estimand_web::{Role, Routes, ServedPart, User};

pub use crate::core::backlog::FOLD_AGE;

use crate::core::alarms::Alarms;
use crate::core::epochs::Messages;
use crate::core::group::Retention;
use crate::core::leftovers::Leftovers;
use crate::core::log::Log;
use crate::core::operations::Operation;
use crate::core::snapshot::Snapshot;
use crate::http::node_labels::NodeLabels;
use crate::http::refusals::Refusals;
use crate::http::{
    asked, bindings, history, influx, metrics, name_list, names, node_labels, orders, otlp, problems,
    producers, push, read, read_one, speakers, watch, write,
};
use figures::Figures;
use figures::values::{Selection, ValueFigures};
use journal::Journal;
use queue::{Inbox, Submit};
use storage::{Storage, StoredState};
use writer::{Fatal, PublishedState, Writer};

/// Between two attempts to reach the database at start.
const START_PAUSE: Duration = Duration::from_millis(500);

/// The service, as handlers use it; clones are the same.
#[derive(Clone)]
pub struct DataService(Arc<Inner>);

struct Inner {
    published: Arc<PublishedState>,
    submit: Submit,
    figures: Arc<Figures>,
    journal: Arc<Journal>,
    past: Reads,
    clock: Arc<dyn Clock>,
    stop: Stop,
    speakers: speakers::Speakers,
    labels: NodeLabels,
    refusals: Refusals,
    leftovers: Mutex<Leftovers>,
    /// Those of the manager about epochs.
    messages: Mutex<Messages>,
}

/// The options of the service.
pub struct Options {
    pub store: StoreUrl,
    /// How old a change may become before it is in `t_data`; [`FOLD_AGE`] suits everybody who does not count instructions.
    pub fold_age: Duration,
    pub clock: Arc<dyn Clock>,
    pub readiness: Readiness,
    /// Ends the open watches.
    pub stop: Stop,
    /// Called with the reason when the service cannot go on.
    pub on_fatal: Box<dyn Fn(String) + Send>,
}

/// The writer thread; ended after the server, so that all accepted writes are answered.
#[derive(Debug)]
pub struct WriterThread {
    thread: JoinHandle<()>,
    halt: Halt,
}

impl WriterThread {
    /// Stores all accepted writes, and ends the thread.
    pub fn finish(self) {
        self.halt.request();
        if self.thread.join().is_err() {
            tracing::error!("the writer ended by a panic");
        }
    }
}

/// Types that only queries refer to, which no route brings along.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(
    estimand_api::duration::SpanText,
    estimand_api::instant::Instant,
    estimand_api::order::ValueOrder,
    estimand_api::condition::Condition,
    estimand_api::selector::ReadSelector,
    estimand_api::selector::Selector,
    estimand_api::instant::Moment,
    read_one::Explain,
    names::Names,
    asked::Limit,
    asked::NodeNames,
    asked::States
)))]
struct QueryTypes;

impl DataService {
    /// Starts the service; it loads on its own thread and says in `readiness` when it is done.
    pub fn start(options: Options, tasks: &Tasks) -> std::io::Result<(Self, WriterThread)> {
        let Options { store, fold_age, clock, readiness, stop, on_fatal } = options;
        let published = Arc::new(PublishedState {
            loaded: tokio::sync::watch::Sender::new(false),
            snapshot: ArcSwapOption::empty(),
            retention: ArcSwapOption::empty(),
            log: ArcSwapOption::empty(),
            epochs: ArcSwapOption::empty(),
        });
        let figures = Arc::new(Figures::default());
        let journal = Journal::start(store.clone(), fold_age, tasks, &readiness);
        let (submit, inbox) = queue::queue();
        let service = DataService(Arc::new(Inner {
            published: published.clone(),
            submit,
            figures: figures.clone(),
            journal: journal.clone(),
            past: Reads::start(store.clone(), "history"),
            clock: clock.clone(),
            stop,
            speakers: speakers::Speakers::default(),
            labels: NodeLabels::default(),
            refusals: Refusals::default(),
            leftovers: Mutex::default(),
            messages: Mutex::default(),
        }));
        let ready = readiness.part("data");
        ready.not_ready("not loaded yet");
        let halt = Halt::default();
        let starting = UnloadedWriter {
            store,
            clock,
            published,
            figures,
            journal,
            inbox,
            ready: ready.clone(),
            halt: halt.clone(),
        };
        let thread = std::thread::Builder::new().name("data-writer".to_owned()).spawn(move || {
            if let Err(Fatal(reason)) = starting.run() {
                ready.not_ready(&reason);
                on_fatal(reason);
            }
        })?;
        Ok((service, WriterThread { thread, halt }))
    }

    fn snapshot(&self) -> Result<Arc<Snapshot>, Problem> {
        self.0
            .published
            .snapshot
            .load_full()
            .ok_or_else(|| Problem::unavailable("the values are not loaded yet", 1))
    }

    /// Waits until the values are loaded.
    async fn loaded(&self) {
        // The sender lives as long as the service.
        let _ = self.0.published.loaded.subscribe().wait_for(|loaded| *loaded).await;
    }

    fn speakers(&self) -> &speakers::Speakers {
        &self.0.speakers
    }

    fn labels(&self) -> &NodeLabels {
        &self.0.labels
    }

    fn refusals(&self) -> &Refusals {
        &self.0.refusals
    }

    fn leftovers<T>(&self, look: impl FnOnce(&mut Leftovers) -> T) -> T {
        look(&mut self.0.leftovers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn messages(&self, take: impl FnOnce(&mut Messages)) {
        take(&mut self.0.messages.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn retention(&self) -> Arc<Retention> {
        self.0.published.retention.load_full().unwrap_or_default()
    }

    fn log(&self) -> Option<Arc<Log>> {
        self.0.published.log.load_full()
    }

    fn now(&self) -> i64 {
        self.0.clock.now_micros()
    }

    fn stop(&self) -> Stop {
        self.0.stop.clone()
    }

    async fn submit<O: Operation>(&self, operation: O, bytes: usize) -> Result<O::Reply, Problem> {
        self.snapshot()?;
        self.0.submit.run(operation, bytes).await.map_err(problems::of_submit)
    }

    /// The past values that a user asks for; none: an operator, or a service.
    async fn past(&self, user: Option<User>, query: HistoryQuery) -> Result<PastRows, Problem> {
        let user = user.as_ref().map(User::name);
        let rows = self.0.past.run(user, move |connection| connection.read_history(&query)).await;
        rows.map_err(|cause| no_past(&cause))
    }

    /// The past of a binding that a user asks for.
    async fn swaps(&self, user: Option<User>, name: &DataName, limit: i64) -> Result<Vec<SwapRow>, Problem> {
        let user = user.as_ref().map(User::name);
        let name = name.clone();
        let read = move |connection: &mut Connection| connection.binding_history(name.as_str(), limit);
        let rows = self.0.past.run(user, read).await;
        rows.map_err(|cause| no_past(&cause))
    }
}

impl ServedPart for DataService {
    fn routes(&self) -> Routes {
        Routes::new("data")
            .add(Role::Read, read_one::read_one, read_one::__path_read_one)
            .add(Role::Read, read::read, read::__path_read)
            .add(Role::Read, read::query, read::__path_query)
            .add(Role::Write, write::post, write::__path_post)
            .add(Role::Write, write::put, write::__path_put)
            .add(Role::Write, write::delete, write::__path_delete)
            .add(Role::Write, write::batch, write::__path_batch)
            .add(Role::Write, push::push, push::__path_push)
            .add(Role::Write, push::push_to_version_1, push::__path_push_to_version_1)
            .add(Role::Open, influx::ping, influx::__path_ping)
            .add(Role::Open, influx::health, influx::__path_health)
            .add(Role::Open, influx::ready, influx::__path_ready)
            .add(Role::Write, otlp::export, otlp::__path_export)
            .add(Role::Read, watch::watch, watch::__path_watch)
            .add(Role::Read, history::history, history::__path_history)
            .add(Role::Read, metrics::metrics, metrics::__path_metrics)
            .add(Role::Read, name_list::list, name_list::__path_list)
            .add(Role::Service, write::mark_node, write::__path_mark_node)
            .add(Role::Service, speakers::set_speakers, speakers::__path_set_speakers)
            .add(Role::Service, node_labels::set_labels, node_labels::__path_set_labels)
            .add(Role::Service, producers::set_producers, producers::__path_set_producers)
            .add(Role::Service, orders::set_epochs, orders::__path_set_epochs)
            .add(Role::Service, write::set_retention, write::__path_set_retention)
            .add(Role::Read, write::get_retention, write::__path_get_retention)
            .add(Role::Read, bindings::list, bindings::__path_list)
            .add(Role::Read, bindings::get, bindings::__path_get)
            .add(Role::Operate, bindings::bind, bindings::__path_bind)
            .add(Role::Operate, bindings::unbind, bindings::__path_unbind)
            .add(Role::Read, bindings::history, bindings::__path_history)
            .add(Role::Operate, bindings::roll_back, bindings::__path_roll_back)
            .schemas::<QueryTypes>()
            .share(self.clone())
    }

    fn write_figures(&self, text: &mut String) {
        let published = &self.0.published;
        let (snapshot, log) = (published.snapshot.load_full(), published.log.load_full());
        self.0.figures.render(text, snapshot.as_deref(), log.as_deref(), &self.0.submit);
        figures::write_backlog(text, &self.0.journal.backlog());
        self.0.refusals.write(text);
    }

    fn long_figures(&self) -> Pieces {
        Box::new(ValueFigures::new(self.clone(), Selection::default()))
    }
}

fn no_past(cause: &Error) -> Problem {
    tracing::warn!(%cause, "could not read history");
    Problem::unavailable("the database does not answer; only history needs it to be read", 2)
}

/// The writer before it has loaded.
struct UnloadedWriter {
    store: StoreUrl,
    clock: Arc<dyn Clock>,
    published: Arc<PublishedState>,
    figures: Arc<Figures>,
    journal: Arc<Journal>,
    inbox: Inbox,
    ready: PartReady,
    halt: Halt,
}

impl UnloadedWriter {
    fn run(self) -> Result<(), Fatal> {
        let began = Instant::now();
        let Some(stored) = self.load()? else { return Ok(()) };
        let StoredState { storage, snapshot, retention, journaled } = stored;
        let (revision, values) = (snapshot.revision, snapshot.values);
        let log = Arc::new(Log::new(revision));
        let mut alarms = Alarms::default();
        let grown: BTreeSet<_> = retention.keys().cloned().collect();
        for name in snapshot.own_names() {
            snapshot
                .table(name.as_str())
                .into_iter()
                .flat_map(|table| table.entries())
                .for_each(|e| alarms.set(&e));
        }
        self.published.log.store(Some(log.clone()));
        self.published.retention.store(Some(Arc::new(retention)));
        self.published.snapshot.store(Some(Arc::new(snapshot)));
        self.published.loaded.send_replace(true);
        self.journal.loaded(journaled, storage.fold_right());
        let from_journal = journaled.changes;
        tracing::info!(
            values,
            from_journal,
            revision,
            took_ms = began.elapsed().as_millis() as u64,
            "values loaded"
        );
        self.ready.ready();
        Writer {
            inbox: self.inbox,
            published: self.published,
            log,
            storage,
            journal: self.journal,
            clock: self.clock,
            figures: self.figures,
            halt: self.halt,
            alarms,
            held: VecDeque::new(),
            outdated: VecDeque::new(),
            stored_revision: revision,
            grown,
            pruned_at: Instant::now(),
        }
        .run()
    }

    /// Loads everything; waits for a database that does not answer. None if the service stops meanwhile.
    fn load(&self) -> Result<Option<StoredState>, Fatal> {
        let mut trouble = Trouble::default();
        while !self.halt.is_requested() {
            let mut progress =
                |loaded: usize| self.ready.not_ready(format_args!("{loaded} values loaded so far"));
            match Storage::load(&self.store, &self.halt, self.clock.now_micros(), &mut progress) {
                Ok(stored) => return Ok(Some(stored)),
                Err(cause @ (Error::Connection { .. } | Error::Busy { .. })) => {
                    if trouble.failed(START_PAUSE) {
                        tracing::warn!(%cause, "waiting for the database");
                    }
                    self.ready.not_ready(format_args!("waiting for the database: {}", cause.reason()));
                    std::thread::sleep(START_PAUSE);
                }
                Err(cause) => return Err(Fatal(format!("cannot use the store: {cause}"))),
            }
        }
        Ok(None)
    }
}
