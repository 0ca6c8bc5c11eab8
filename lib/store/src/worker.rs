//! A thread that owns a connection, for callers that can't wait for a database themselves.
//!
//! The queue is bounded: when it is full, callers get an error at once. The connection is opened when it
//! is first needed, and again after it was lost, with growing pauses; work during a pause fails at once
//! with the reason of the last failure. Work that was accepted but not begun when the worker stops is not
//! done, and its caller gets an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::{Connection, Error, Halt, StoreUrl};

const QUEUE: usize = 256;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After this long without work, the server may be another one by now: ask before work is lost on it.
const ASK_AFTER_IDLE: Duration = Duration::from_secs(1);
const WAITING: &str = "asking the store";

type Job = Box<dyn FnOnce(Result<&mut Connection, Error>) + Send>;

/// Runs work on a connection of its own. Dropping it waits for the work that has begun, not for a connection.
pub struct Worker {
    queue: Option<SyncSender<Job>>,
    halt: Halt,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread of that name. Nothing is opened yet.
    pub fn start(url: StoreUrl, name: &str) -> Self {
        let (queue, jobs) = sync_channel(QUEUE);
        let halt = Halt::default();
        let mut source = Source::new(url, halt.clone());
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(&mut source, &jobs))
            .expect("a thread can be started");
        Self { queue: Some(queue), halt, thread: Some(thread) }
    }

    /// Runs `work` and waits for its result, without holding up the caller's thread. It is run even if
    /// the caller stops waiting.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let busy = |cause: &str| Error::Busy { doing: WAITING, cause: cause.to_owned() };
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // The caller may have stopped waiting; then the result is dropped.
            let _ = answer.send(connection.and_then(work));
        });
        match self.queue.as_ref().map(|queue| queue.try_send(job)) {
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => return Err(busy("too much is waiting already")),
            Some(Err(TrySendError::Disconnected(_))) | None => return Err(busy("it is stopping")),
        }
        match answered.await {
            Ok(result) => result,
            // Dropped without an answer: it was never begun, or it panicked and the connection with its
            // open transaction is gone.
            Err(_) => Err(busy("it stopped before this was done")),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.halt.request();
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn serve(source: &mut Source, jobs: &Receiver<Job>) {
    for job in jobs {
        if source.halt.is_requested() {
            return;
        }
        let done = catch_unwind(AssertUnwindSafe(|| job(source.connection())));
        if done.is_err() {
            tracing::error!("work on the store panicked; its connection is closed");
            source.connection = None;
        }
        source.last_used = Instant::now();
    }
}

/// Keeps the connection, and opens it when there is none.
struct Source {
    url: StoreUrl,
    halt: Halt,
    connection: Option<Connection>,
    last_used: Instant,
    pause: Duration,
    /// The end of the current pause, and the failure before it.
    paused: Option<(Instant, String)>,
}

impl Source {
    fn new(url: StoreUrl, halt: Halt) -> Self {
        Self { url, halt, connection: None, last_used: Instant::now(), pause: FIRST_PAUSE, paused: None }
    }

    fn connection(&mut self) -> Result<&mut Connection, Error> {
        let idle = self.last_used.elapsed() >= ASK_AFTER_IDLE;
        let usable = self.connection.take().and_then(|connection| still_usable(connection, idle));
        let connection = match usable {
            Some(connection) => connection,
            None => self.open()?,
        };
        Ok(self.connection.insert(connection))
    }

    fn open(&mut self) -> Result<Connection, Error> {
        if let Some((until, cause)) = &self.paused
            && Instant::now() < *until
        {
            return Err(Error::Connection { doing: "opening the store", cause: cause.clone() });
        }
        match Connection::open_until(&self.url, &self.halt) {
            Ok(connection) => {
                self.pause = FIRST_PAUSE;
                self.paused = None;
                Ok(connection)
            }
            Err(error) if self.halt.is_requested() => Err(error),
            Err(error) => {
                // Many processes lose one server at once; they should not come back at once.
                let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                // The callers say what is not done for it.
                tracing::debug!(store = %self.url, %error, retry_ms = pause.as_millis(), "the store can't be opened");
                self.paused = Some((Instant::now() + pause, error.reason()));
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                Err(error)
            }
        }
    }
}

fn still_usable(mut connection: Connection, ask: bool) -> Option<Connection> {
    let usable = !connection.is_closed() && (!ask || connection.ping().is_ok());
    usable.then_some(connection)
}
