//! The data service: owns values, their history and bindings. The only writer of `t_data`.
//!
//! Reads are one look into an immutable snapshot in memory (`snapshot`, `read`); a write is an operation in a
//! bounded queue (`queue`), applied and stored with whatever else has arrived by the one writer thread
//! (`group`, `writer`, `shelf`), and answered when it is durable. Watchers follow a log of recent changes
//! (`log`, `watch`). The service knows no registration: which names keep a history it is told.

mod alarms;
mod bindings;
mod entry;
mod figures;
mod group;
mod history;
mod log;
mod queue;
mod read;
mod shelf;
mod shown;
mod skew;
mod slot;
mod snapshot;
mod speakers;
mod swaps;
mod watch;
mod write;
mod writer;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use estimand_api::names::DataName;
use estimand_api::problem::Problem;
use estimand_runtime::Metrics;
use estimand_runtime::{Clock, PartReady, Readiness, Stop};
use estimand_store::{Error, Halt, HistoryQuery, HistoryRow, StoreUrl, SwapRow, Worker};
use estimand_web::{Role, Routes};

use alarms::Alarms;
use figures::Figures;
use group::{Done, Op, Retention};
use log::Log;
use queue::{Inbox, Submit};
use shelf::{Shelf, Stored};
use snapshot::Snapshot;
use writer::{Fatal, Published, Writer};

/// How long a database that does not answer is left alone at start between two attempts.
const START_PAUSE: Duration = Duration::from_millis(500);

/// What handlers need; clones are the same service.
#[derive(Clone)]
pub struct DataService(Arc<Inner>);

struct Inner {
    published: Arc<Published>,
    submit: Submit,
    past: Worker,
    clock: Arc<dyn Clock>,
    stop: Stop,
    speakers: speakers::Speakers,
}

/// What the service is started with.
pub struct Options {
    pub store: StoreUrl,
    pub clock: Arc<dyn Clock>,
    pub readiness: Readiness,
    pub metrics: Metrics,
    /// Ends the open watches.
    pub stop: Stop,
    /// Called with the reason when the service cannot go on.
    pub on_fatal: Box<dyn Fn(String) + Send>,
}

/// The writer thread; ended after the server, so that what was accepted is answered.
#[derive(Debug)]
pub struct Running {
    thread: JoinHandle<()>,
    halt: Halt,
}

impl Running {
    /// Has everything stored that was accepted, and ends the thread.
    pub fn finish(self) {
        self.halt.request();
        if self.thread.join().is_err() {
            tracing::error!("the writer ended by a panic");
        }
    }
}

/// What queries alone refer to, which no route brings along.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(
    estimand_api::duration::SpanText,
    estimand_api::instant::Instant,
    history::Moment,
    read::Explain,
    read::Names,
    read::States
)))]
struct OfQueries;

impl DataService {
    /// Starts the service; it loads on its own thread and says in `readiness` when it is done.
    pub fn start(options: Options) -> std::io::Result<(Self, Running)> {
        let Options { store, clock, readiness, metrics, stop, on_fatal } = options;
        let published = Arc::new(Published {
            snapshot: ArcSwapOption::empty(),
            retention: ArcSwapOption::empty(),
            log: ArcSwapOption::empty(),
        });
        let figures = Arc::new(Figures::default());
        let (submit, inbox) = queue::queue();
        let service = DataService(Arc::new(Inner {
            published: published.clone(),
            submit: submit.clone(),
            past: Worker::start(store.clone(), "history"),
            clock: clock.clone(),
            stop,
            speakers: speakers::Speakers::default(),
        }));
        let (shown, counted) = (published.clone(), figures.clone());
        metrics.source(Box::new(move |out| {
            let (snapshot, log) = (shown.snapshot.load_full(), shown.log.load_full());
            counted.render(out, snapshot.as_deref(), log.as_deref(), &submit);
        }));
        let ready = readiness.part("data");
        ready.not_ready("not loaded yet");
        let halt = Halt::default();
        let starting =
            Starting { store, clock, published, figures, inbox, ready: ready.clone(), halt: halt.clone() };
        let thread = std::thread::Builder::new().name("data-writer".to_owned()).spawn(move || {
            if let Err(Fatal(reason)) = starting.run() {
                ready.not_ready(&reason);
                on_fatal(reason);
            }
        })?;
        Ok((service, Running { thread, halt }))
    }

    /// What the service answers; hot paths first.
    pub fn routes(&self) -> Routes {
        Routes::new("data")
            .add(Role::Read, read::read_one, read::__path_read_one)
            .add(Role::Read, read::read, read::__path_read)
            .add(Role::Write, write::post, write::__path_post)
            .add(Role::Write, write::put, write::__path_put)
            .add(Role::Write, write::delete, write::__path_delete)
            .add(Role::Write, write::batch, write::__path_batch)
            .add(Role::Read, watch::watch, watch::__path_watch)
            .add(Role::Read, history::history, history::__path_history)
            .add(Role::Service, write::mark_node, write::__path_mark_node)
            .add(Role::Service, speakers::set_speakers, speakers::__path_set_speakers)
            .add(Role::Service, write::set_retention, write::__path_set_retention)
            .add(Role::Read, write::get_retention, write::__path_get_retention)
            .add(Role::Read, bindings::list, bindings::__path_list)
            .add(Role::Read, bindings::get, bindings::__path_get)
            .add(Role::Operate, bindings::bind, bindings::__path_bind)
            .add(Role::Operate, bindings::unbind, bindings::__path_unbind)
            .add(Role::Read, bindings::history, bindings::__path_history)
            .add(Role::Operate, bindings::roll_back, bindings::__path_roll_back)
            .schemas::<OfQueries>()
            .share(self.clone())
    }

    fn snapshot(&self) -> Result<Arc<Snapshot>, Problem> {
        self.0
            .published
            .snapshot
            .load_full()
            .ok_or_else(|| Problem::unavailable("the values are not loaded yet", 1))
    }

    fn speakers(&self) -> &speakers::Speakers {
        &self.0.speakers
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

    async fn submit(&self, op: Op, bytes: usize) -> Result<Done, Problem> {
        self.snapshot()?;
        self.0.submit.run(op, bytes).await
    }

    async fn past(&self, query: HistoryQuery) -> Result<Vec<HistoryRow>, Problem> {
        let rows = self.0.past.run(move |connection| connection.read_history(&query)).await;
        rows.map_err(|cause| no_past(&cause))
    }

    async fn swaps(&self, name: &DataName, limit: i64) -> Result<Vec<SwapRow>, Problem> {
        let name = name.clone();
        let rows = self.0.past.run(move |connection| connection.binding_history(name.as_str(), limit)).await;
        rows.map_err(|cause| no_past(&cause))
    }
}

fn no_past(cause: &Error) -> Problem {
    tracing::warn!(%cause, "could not read history");
    Problem::unavailable("the database does not answer; only history needs it to be read", 2)
}

/// The writer before it has loaded.
struct Starting {
    store: StoreUrl,
    clock: Arc<dyn Clock>,
    published: Arc<Published>,
    figures: Arc<Figures>,
    inbox: Inbox,
    ready: PartReady,
    halt: Halt,
}

impl Starting {
    fn run(self) -> Result<(), Fatal> {
        let began = Instant::now();
        let Some(stored) = self.load()? else { return Ok(()) };
        let Stored { shelf, snapshot, retention } = stored;
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
        tracing::info!(values, revision, took_ms = began.elapsed().as_millis() as u64, "values loaded");
        self.ready.ready();
        Writer {
            inbox: self.inbox,
            published: self.published,
            log,
            shelf,
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
    fn load(&self) -> Result<Option<Stored>, Fatal> {
        while !self.halt.is_requested() {
            let mut progress =
                |loaded: usize| self.ready.not_ready(format_args!("{loaded} values loaded so far"));
            match Shelf::load(&self.store, &self.halt, self.clock.now_micros(), &mut progress) {
                Ok(stored) => return Ok(Some(stored)),
                Err(cause @ (Error::Connection { .. } | Error::Busy { .. })) => {
                    tracing::warn!(%cause, "waiting for the database");
                    self.ready.not_ready(format_args!("waiting for the database: {cause}"));
                    std::thread::sleep(START_PAUSE);
                }
                Err(cause) => return Err(Fatal(format!("cannot use the store: {cause}"))),
            }
        }
        Ok(None)
    }
}
