//! The outbox as the agent sees it: put writes in, let it run, look at its figures.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use estimand_api::names::DataName;
use estimand_api::write::Write;
use estimand_runtime::{Clock, SystemClock};
use tokio::sync::Notify;

use super::SpoolError;
use super::parcel::Refusal;
use super::spool::{Limits, Spool};
use super::state::{QueuedWrite, State, Urgency};

/// The largest write that is taken at all; several times what a data service takes.
const MAX_ITEM_BYTES: usize = 512 * 1024;

/// Bounds and times.
#[derive(Clone)]
pub struct OutboxOptions {
    /// The folder of the spool, of this outbox alone.
    pub dir: PathBuf,
    pub max_spool_bytes: u64,
    /// How large a file of the spool gets; it leaves as one batch.
    pub segment_bytes: u64,
    /// The most that waits in memory: while a batch is on its way, and while the disk takes nothing.
    pub max_memory_bytes: usize,
    /// Writes that have waited so long go to the disk: the most that a killed agent loses.
    pub spool_after: Duration,
    /// The pause after a first failure, which doubles with each one in a row.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// How long deliveries may go on after the stop is asked for.
    pub flush_for: Duration,
    pub clock: Arc<dyn Clock>,
}

impl OutboxOptions {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        OutboxOptions {
            dir: dir.into(),
            max_spool_bytes: 256 * 1024 * 1024,
            segment_bytes: 1024 * 1024,
            max_memory_bytes: 8 * 1024 * 1024,
            spool_after: Duration::from_secs(1),
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(2),
            flush_for: Duration::from_millis(300),
            clock: Arc::new(SystemClock),
        }
    }
}

/// How deliveries stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Writes that the data service has acknowledged.
    pub delivered: u64,
    /// Writes that it does not take.
    pub refused: u64,
    /// Writes that were given up because a bound was reached, or that the disk has spoilt.
    pub dropped: u64,
    /// Writes that are not delivered yet, in memory and on disk.
    pub waiting_items: usize,
    pub spooled_bytes: u64,
    /// How long ago the oldest of those that wait was collected.
    pub oldest_waiting_us: Option<i64>,
    /// Since when nothing can be delivered, in microseconds since 1970; none: the last delivery went well.
    pub failing_since: Option<i64>,
    /// Why the last delivery that failed did; stays after it went well again.
    pub last_error: Option<String>,
    /// Why the disk does not take what waits; none: it does.
    pub spool_error: Option<String>,
}

/// Takes writes from any thread and delivers them; clones are the same outbox.
#[derive(Clone)]
pub struct Outbox(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub options: OutboxOptions,
    state: Mutex<State>,
    /// Locked only by threads that may wait for a disk.
    spool: Mutex<Spool>,
    /// There is something new in the queue.
    pub poke: Notify,
    on_setback: Mutex<Option<Arc<OnSetback>>>,
}

/// A write that no reader will see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setback {
    /// The data service does not take it.
    Refused(Refusal),
    /// It is older than what the data service has of this name.
    Older(DataName),
}

type OnSetback = dyn Fn(Setback) + Send + Sync;

impl Outbox {
    /// Opens the folder, with what a former process left in it. Blocking.
    pub fn open(options: OutboxOptions) -> Result<Outbox, SpoolError> {
        let limits = Limits { max_bytes: options.max_spool_bytes, segment_bytes: options.segment_bytes };
        let spool = Spool::open(&options.dir, limits)?;
        let content = spool.content();
        if content.items > 0 {
            tracing::info!(
                items = content.items,
                bytes = content.bytes,
                "found undelivered values in the spool"
            );
        }
        Ok(Outbox(Arc::new(Shared {
            state: Mutex::new(State::new(options.max_memory_bytes, content)),
            spool: Mutex::new(spool),
            poke: Notify::new(),
            on_setback: Mutex::new(None),
            options,
        })))
    }

    /// Takes writes, in the order in which they are to be delivered.
    ///
    /// They need their order: a write without one is delivered too, but if it has to be sent twice, it may
    /// have its effect twice. What is put after the end of [`run`](Self::run) waits for the next run.
    pub fn put(&self, writes: Vec<Write>) {
        self.put_with(writes, Urgency::AtOnce);
    }

    /// The same, and they may wait a moment for others.
    pub fn put_in_company(&self, writes: Vec<Write>) {
        self.put_with(writes, Urgency::WithOthers);
    }

    fn put_with(&self, writes: Vec<Write>, urgency: Urgency) {
        let held = writes.into_iter().map(QueuedWrite::new);
        let (held, oversized): (Vec<QueuedWrite>, Vec<QueuedWrite>) =
            held.partition(|held| held.bytes <= MAX_ITEM_BYTES);
        if !held.is_empty() {
            self.0.state().push(held, urgency);
            self.0.poke.notify_one();
        }
        let reason = |held: &QueuedWrite| format!("{} bytes are more than a value can have", held.bytes);
        self.0.refuse(oversized.iter().map(|held| Refusal::of(&held.write, reason(held))).collect());
    }

    /// Moves the instants of what waits in memory and came until now: they are by a clock that was so much behind. What is
    /// on disk keeps its instants.
    pub fn move_collected(&self, by: i64) {
        self.0.state().move_collected(by);
    }

    pub fn figures(&self) -> Figures {
        let now = self.0.options.clock.now_micros();
        let state = self.0.state();
        Figures {
            delivered: state.counts.delivered,
            refused: state.counts.refused,
            dropped: state.counts.dropped,
            waiting_items: state.waiting(),
            spooled_bytes: state.spool.bytes,
            oldest_waiting_us: state.oldest().map(|at| now.saturating_sub(at).max(0)),
            failing_since: state.counts.failing_since,
            last_error: state.counts.last_error.clone(),
            spool_error: state.counts.spool_error.clone(),
        }
    }

    /// Has every write reported that no reader will see. The callback must not block: deliveries wait for it.
    pub fn on_setback(&self, callback: impl Fn(Setback) + Send + Sync + 'static) {
        *lock(&self.0.on_setback) = Some(Arc::new(callback));
    }
}

impl Shared {
    /// The state in memory. Never locked while something waits.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Does something with the spool on a thread that may wait for the disk, and then takes it into account.
    ///
    /// Both are done even if the caller is not interested any more, and nobody sees the one without the other.
    pub async fn on_disk<R, T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Spool) -> R + Send + 'static,
        then: impl FnOnce(&mut State, R) -> T + Send + 'static,
    ) -> T {
        let shared = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let mut spool = lock(&shared.spool);
            let result = work(&mut spool);
            let mut state = shared.state();
            state.spool = spool.content();
            then(&mut state, result)
        });
        match done.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is being shut down; nothing of it goes on.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Counts and reports what is not taken.
    pub fn refuse(&self, refused: Vec<Refusal>) {
        if refused.is_empty() {
            return;
        }
        self.state().counts.refused += refused.len() as u64;
        for Refusal { data_name, node_name, reason } in &refused {
            tracing::debug!(%data_name, %node_name, reason, "the data service does not take a value");
        }
        self.tell(refused.into_iter().map(Setback::Refused));
    }

    pub fn tell(&self, setbacks: impl Iterator<Item = Setback>) {
        let Some(callback) = lock(&self.on_setback).clone() else { return };
        setbacks.for_each(|setback| callback(setback));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
