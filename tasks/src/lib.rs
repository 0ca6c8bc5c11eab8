//! Tasks: pieces of work that are done once, on the node that the facts say is best.
//!
//! The service keeps the tasks, places them, has the manager tell each node's agent what belongs there, and takes the
//! agents' news. Through which states a task goes and where it is placed is decided in `estimand_placement`, which is pure;
//! a simulator calls the same functions. Around it: `writer` and `requests` (one change after the other, each stored and
//! then shown), `background`, `storage`, and `http` (the handlers).
//!
//! Invariants: a submission that was acknowledged is stored; a placement is stored before anybody is told of it; a task is
//! placed again only after its attempt has ended or its lease on a silent node is over; a line of a log is stored once.

pub use estimand_placement as core;

mod agents;
mod arriving;
mod background;
mod bells;
mod change;
mod engines;
mod feed;
mod holdings;
mod http;
mod images;
mod log;
mod metrics;
mod open_lines;
mod pressures;
mod progress;
mod publishing;
mod requests;
mod scope;
mod shared;
mod silences;
mod storage;
mod table;
mod task;
mod tunnels;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;
use estimand_api::task_files::TaskOutputs;
use estimand_api::task_log::TaskLogEntry;
use estimand_api::task_record::TaskTransition;
use estimand_broker::amqp::AmqpUrl;
use estimand_runtime::metrics::Exposition;
use estimand_runtime::{Clock, Readiness, Stop, Tasks};
use estimand_service::{OnFatal, Request, Writer};
use estimand_store::{Connection, Error, Reads, StoreUrl, TaskLogRange};
use estimand_web::{Role, Routes, ServedPart, ShareReport, Users};
use tokio::sync::watch;

use agents::orders::OrderBook;
use agents::{files, news, tunnels as tunnel_orders};
use http::{
    capacity, changes, events, images as published, logs, progress as said, promises, read, timeline,
    tunnels as tunneling, usage, watch as watching, web,
};
use shared::Shared;
use storage::{Storage, rows};
use task::Task;
use writer::TasksState;

pub use agents::Agents;
pub use engines::{Engine, EngineError, EngineReply, PlacedAttempt};
pub use shared::{FilePeer, Peers};

/// The needs of a task service.
pub struct TaskServiceOptions {
    pub store: StoreUrl,
    pub clock: Arc<dyn Clock>,
    /// The server's stop: requests that wait are answered then.
    pub stop: Stop,
    pub on_fatal: OnFatal,
    /// The broker that is told what happens to tasks.
    pub publish: Option<AmqpUrl>,
    /// Only published images run.
    pub published_images_only: bool,
    /// The length of the lease of a task that asks for no other one.
    pub lease: Duration,
    /// The users, with their limits.
    pub users: Users,
}

/// A task service that runs. Clones are the same one.
#[derive(Clone)]
pub struct TaskService(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    writer: Writer<TasksState>,
    /// Reads logs and transitions, so that reading much makes no change wait.
    reads: Arc<Reads>,
    stop: Stop,
    /// The users, with their limits.
    users: Users,
    published_images_only: bool,
    /// The tunnels that agents are to make.
    tunnel_orders: Arc<OrderBook>,
}

impl TaskService {
    /// Starts the tasks of the process; loading goes on after this returns, and `readiness` says when it is done.
    pub fn start(options: TaskServiceOptions, tasks: &Tasks, readiness: &Readiness) -> Self {
        let TaskServiceOptions { store, clock, stop, on_fatal, publish, published_images_only, lease, users } =
            options;
        let tunnel_orders = OrderBook::new(clock.now_micros());
        let shared = Arc::new(Shared::new(clock, lease, publish.is_some(), readiness));
        let state = TasksState::new(Arc::clone(&shared), users.clone(), Storage::new(store.clone()));
        let writer = Writer::start(tasks, "tasks", state, readiness.part("tasks"), on_fatal);
        let reads = Arc::new(Reads::start(store, "tasks-reads"));
        background::start(&shared, &writer, &reads, tasks);
        let service = TaskService(Arc::new(Inner {
            shared,
            writer,
            reads,
            stop,
            users,
            published_images_only,
            tunnel_orders,
        }));
        if let Some(url) = publish {
            publishing::start(&service, &url, tasks);
        }
        service
    }

    /// Sets the services that it speaks to; they may not be known when it starts. Nothing is placed before. The first ones given
    /// stay.
    pub fn set_peers(&self, peers: Peers) {
        let _ = self.0.shared.peers.set(peers);
    }

    fn shared(&self) -> &Shared {
        &self.0.shared
    }

    fn users(&self) -> &Users {
        &self.0.users
    }

    fn published_only(&self) -> bool {
        self.0.published_images_only
    }

    fn is_stopping(&self) -> bool {
        self.0.stop.is_requested()
    }

    /// Waits until something changes, or the server is to stop.
    async fn rung(&self, bell: &mut watch::Receiver<u64>) {
        tokio::select! {
            _ = bell.changed() => self.shared().figures.wakes.increment(),
            () = self.0.stop.requested() => {}
        }
    }

    /// Has a request decided, and waits until its outcome is durable.
    async fn change<R>(&self, request: R) -> Result<R::Reply, Problem>
    where
        R: Request<TasksState>,
    {
        Ok(self.0.writer.submit(request).await?)
    }

    /// Reads the store in a user's turn, which lasts as long as the read does, whoever has stopped waiting.
    async fn read<T: Send + 'static>(
        &self,
        user: Option<&str>,
        read: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Problem> {
        self.0.reads.run(user, read).await.map_err(|error| unread(&error))
    }

    /// Everything that happened to a task.
    async fn transitions(&self, task: &Task) -> Result<Vec<TaskTransition>, Problem> {
        let number = rows::column(task.number.0);
        let read = self.read(task.user(), move |connection| connection.task_events(number)).await?;
        Ok(read.iter().filter_map(rows::transition).collect())
    }

    /// The outputs of a task, if it is to have any and an attempt has ended.
    async fn outputs(&self, task: &Task) -> Result<Option<TaskOutputs>, Problem> {
        if task.document.outputs.is_empty() {
            return Ok(None);
        }
        let number = rows::column(task.number.0);
        let text = self.read(task.user(), move |connection| connection.task_outputs(number)).await?;
        let wrong = |cause: &String| tracing::error!(task = task.id, cause, "stored outputs cannot be read");
        Ok(text.and_then(|text| rows::value(&text).inspect_err(wrong).ok()))
    }

    /// Lines of a task's log in their order, or from the last one back.
    async fn lines(
        &self,
        task: &Task,
        range: TaskLogRange,
        limit: u64,
        back: bool,
    ) -> Result<Vec<TaskLogEntry>, Problem> {
        let limit = rows::column(limit);
        let read = self.read(task.user(), move |connection| connection.task_log(&range, limit, back));
        Ok(read.await?.into_iter().map(rows::log_entry).collect())
    }
}

/// Types that only queries refer to, which no route brings along.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(
    estimand_api::duration::SpanText,
    estimand_api::instant::Moment,
    estimand_api::names::UserName,
    estimand_api::selector::Selector,
    estimand_api::task_log::LogStream
)))]
struct QueryTypes;

fn unread(error: &Error) -> Problem {
    tracing::warn!(%error, "what is stored of a task cannot be read");
    Problem::unavailable("the database does not answer", 1)
}

impl ServedPart for TaskService {
    fn routes(&self) -> Routes {
        Routes::new("tasks")
            .add(Role::Node, news::news, news::__path_news)
            .add(Role::Node, files::files, files::__path_files)
            .add(Role::Node, tunnel_orders::orders, tunnel_orders::__path_orders)
            .add(Role::Node, tunnel_orders::make, tunnel_orders::__path_make)
            .add(Role::Node, tunnel_orders::refuse, tunnel_orders::__path_refuse)
            .add(Role::User, read::list, read::__path_list)
            .add(Role::User, changes::submit, changes::__path_submit)
            .add(Role::User, logs::logs, logs::__path_logs)
            .add(Role::User, events::events, events::__path_events)
            .add(Role::User, said::progress, said::__path_progress)
            .add(Role::User, watching::watch, watching::__path_watch)
            .add(Role::User, changes::cancel, changes::__path_cancel)
            .add(Role::User, changes::yield_task, changes::__path_yield_task)
            .add(Role::User, read::get, read::__path_get)
            .add(Role::User, tunneling::open, tunneling::__path_open)
            .add(Role::User, web::web, web::__path_web)
            .add(Role::User, changes::delete, changes::__path_delete)
            .add(Role::User, usage::usage, usage::__path_usage)
            .add(Role::Read, published::list, published::__path_list)
            .add(Role::Operate, published::publish, published::__path_publish)
            .add(Role::Read, published::get, published::__path_get)
            .add(Role::Operate, published::remove, published::__path_remove)
            .add(Role::Read, capacity::capacity, capacity::__path_capacity)
            .add(Role::Read, timeline::timeline, timeline::__path_timeline)
            .add(Role::Operate, promises::promises, promises::__path_promises)
            .add(Role::Operate, promises::promise, promises::__path_promise)
            .add(Role::Operate, promises::promise_of, promises::__path_promise_of)
            .add(Role::Operate, promises::resize, promises::__path_resize)
            .add(Role::Operate, promises::release, promises::__path_release)
            .add(Role::Operate, promises::release_all, promises::__path_release_all)
            .schemas::<QueryTypes>()
            .share(self.clone())
    }

    fn write_figures(&self, text: &mut String) {
        let shared = self.shared();
        let mut out = Exposition::new(text);
        shared.table.look(|table| shared.figures.write(&mut out, table, &shared.feed, &shared.bells));
        metrics::write_tunnels(&mut out, &shared.tunnels);
        if shared.publishes {
            shared.published.write(&mut out, shared.feed.newest());
        }
    }

    fn report_shares(&self, report: &mut ShareReport) {
        self.shared().table.look(|table| table.holdings.report(report));
        report.bound(ShareKind::Tunnels, tunnels::MAX_OF_ALL as u64);
    }
}
