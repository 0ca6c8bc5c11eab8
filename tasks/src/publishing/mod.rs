//! Publishes what happens to tasks to RabbitMQ: each event of the feed at least once, in order.
//!
//! The revision up to which the broker has confirmed events is stored with the tasks, about once a second. After a crash
//! those since then are published again; their message ids say so. While the broker is away nothing is lost: the events
//! are in the store, and are kept for it (`feed`, which says how many).

mod broker;

use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_api::task_event::TaskEvent;
use estimand_broker::amqp::{AmqpError, AmqpUrl, Connection};
use estimand_runtime::{CallError, Calls, Next, Tasks, Work};
use estimand_service::{Decision, Request};
use tokio::time::Instant;

use crate::TaskService;
use crate::change::{Change, Rejection};
use crate::feed::PUBLISHER;
use crate::writer::TasksState;

/// How many events are sent before their confirmations are waited for.
const BATCH: usize = 256;
/// How long that may take, and so may connecting.
const WITHIN: Duration = Duration::from_secs(20);
/// How often the cursor is stored.
const STORE_EVERY: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often it looks although nothing was announced.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Starts the loop.
pub fn start(service: &TaskService, url: &AmqpUrl, tasks: &Tasks) {
    let calls = tasks.calls("rabbitmq", WITHIN);
    let (service, url, drivers) = (service.clone(), url.clone(), tasks.clone());
    tasks.spawn("tasks-publisher", move |stop| {
        let driver = drivers.driver("tasks-publisher", "publishing what happens to tasks").every(LOOK_EVERY);
        let mut driver = driver.pauses(FIRST_PAUSE, LONGEST_PAUSE);
        let (service, calls, url) = (service.clone(), Arc::clone(&calls), url.clone());
        async move {
            let mut publisher = Publisher::new(service.clone(), calls, url);
            driver.run(&mut publisher, &service.shared().publishing, stop.requested()).await;
        }
    });
}

#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Call(#[from] CallError<AmqpError>),
    #[error("{0}")]
    Feed(Problem),
    #[error("how far it is cannot be stored: {0}")]
    Cursor(String),
}

struct Publisher {
    service: TaskService,
    calls: Arc<Calls>,
    url: AmqpUrl,
    connection: Option<Connection>,
    /// All up to this revision are confirmed; none before it is known.
    confirmed: Option<u64>,
    stored: u64,
    stored_at: Instant,
}

impl Publisher {
    fn new(service: TaskService, calls: Arc<Calls>, url: AmqpUrl) -> Self {
        Publisher {
            service,
            calls,
            url,
            connection: None,
            confirmed: None,
            stored: 0,
            stored_at: Instant::now(),
        }
    }

    /// The next events, and the revision up to which they reach. Those that are not kept any more are counted.
    async fn next(&mut self, after: u64) -> Result<(Vec<Arc<TaskEvent>>, u64), PublishError> {
        match self.service.events(None, after, BATCH).await {
            Ok(found) => Ok(found),
            Err(problem) if problem.status == 410 => {
                let feed = &self.service.shared().feed;
                let (base, newest) = (feed.base(), feed.newest());
                // Of a store that was restored the newest ones were published in another life.
                let from = if after > newest { newest } else { base };
                // Where nothing was ever published, nothing is missing.
                if after > 0 {
                    let lost = base.saturating_sub(after);
                    self.service.shared().published.lost.add(lost);
                    tracing::error!(
                        after,
                        from,
                        "events of tasks cannot be published: they are not kept any more"
                    );
                }
                self.service.events(None, from, BATCH).await.map_err(PublishError::Feed)
            }
            Err(problem) => Err(PublishError::Feed(problem)),
        }
    }

    /// Sends events, over a new connection if there is none, and waits until the broker has them.
    async fn publish(&mut self, events: &[Arc<TaskEvent>]) -> Result<(), CallError<AmqpError>> {
        let Publisher { calls, connection, url, .. } = self;
        // One that failed, or whose answers are late, is not used again.
        let used = connection.take();
        let call = async {
            let used = match used {
                Some(connection) => connection,
                None => broker::open(url).await?,
            };
            broker::publish(&used, events).await?;
            Ok(used)
        };
        *connection = Some(calls.call(call).await?);
        Ok(())
    }

    /// Stores how far it is, now and then.
    async fn store(&mut self, confirmed: u64) -> Result<Next, PublishError> {
        if confirmed == self.stored {
            return Ok(Next::Period);
        }
        let due = self.stored_at + STORE_EVERY;
        if Instant::now() < due {
            return Ok(Next::At(due));
        }
        self.stored_at = Instant::now();
        self.service
            .change(Published(confirmed))
            .await
            .map_err(|problem| PublishError::Cursor(problem.detail))?;
        self.stored = confirmed;
        Ok(Next::Period)
    }
}

impl Work for Publisher {
    type Error = PublishError;

    async fn round(&mut self) -> Result<Next, PublishError> {
        let service = self.service.clone();
        let shared = service.shared();
        if !shared.table.is_loaded() {
            return Ok(Next::Period);
        }
        let mut confirmed = match self.confirmed {
            Some(confirmed) => confirmed,
            None => {
                self.stored = shared.feed.counted();
                self.stored
            }
        };
        loop {
            let (events, next) = self.next(confirmed).await?;
            if !events.is_empty() {
                self.publish(&events).await?;
                shared.published.published.add(events.len() as u64);
            }
            let is_all = next == confirmed || next >= shared.feed.newest();
            confirmed = next;
            self.confirmed = Some(confirmed);
            shared.published.confirmed.set(i64::try_from(confirmed).unwrap_or(i64::MAX));
            let due = self.store(confirmed).await?;
            if is_all {
                return Ok(due);
            }
        }
    }
}

/// The broker has everything up to a revision.
struct Published(u64);

impl Request<TasksState> for Published {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let (at, highest) = (state.now_us(), state.table().highest);
        let cursor = Some((PUBLISHER, self.0));
        Ok(Decision::change(Change { cursor, highest, at, ..Change::default() }, |_, _| ()))
    }
}
