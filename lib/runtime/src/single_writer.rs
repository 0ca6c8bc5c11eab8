//! The one writer of a service's state: it takes requests one after the other, decides, stores, publishes and answers.
//!
//! A service implements [`State`] (its data, and how they are stored) and a [`Request`] for each kind of request. These
//! rules hold for all of them:
//!
//! - Nothing is published before it is durable, and the published state equals the stored one.
//! - A task does it rather than the handlers, because a handler ends when its client goes away, and must not end
//!   between storing and publishing.
//! - When the connection breaks during a change, its outcome is unknown: everything is loaded again before anything
//!   else is decided. The caller learns the outcome if it can be found out in time.
//! - When another process has taken the storage over, nothing is changed any more.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{BackOff, PartReady, Stop, Tasks};

/// How many requests may wait.
const MAX_WAITING: usize = 256;
/// How long a caller waits for its change to be durable.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long the caller of a change whose outcome is unknown waits for the storage to tell.
const FIND_OUT_WITHIN: Duration = Duration::from_secs(3);
/// The pause between two attempts to reach the storage.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The state of a service, which one writer owns.
pub trait State: Send + 'static {
    /// One change, as it is stored and then published.
    type Change: fmt::Debug + Send + Sync + 'static;
    /// The reason why a request is rejected: the service's own error.
    type Rejection: Send + 'static;

    /// Names the state in the log, as in "the registrations".
    const NAME: &'static str;
    /// The readiness of a service whose storage another process has taken over.
    const TAKEN_OVER: &'static str;

    /// Claims the storage if it is not claimed yet, reads everything, and publishes it.
    fn load(&mut self) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// Makes a change durable, whole or not at all.
    fn store(&mut self, change: &Self::Change) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// Shows a change that is durable to all readers.
    fn publish(&mut self, change: &Self::Change);

    /// True if the state that was loaded last contains the change. Asked after a broken connection.
    fn took_effect(&self, change: &Self::Change) -> bool;
}

/// Something that can be asked of a state.
pub trait Request<S: State>: Send + 'static {
    type Reply: Send + 'static;

    /// Decides, purely: no I/O, nothing published.
    fn decide(self, state: &S) -> Result<Decision<S, Self::Reply>, S::Rejection>;
}

/// The outcome of a request.
pub enum Decision<S: State, Reply> {
    /// It is so already.
    Nothing(Reply),
    /// A change, and the function that makes the reply once it is published.
    Change(S::Change, MakeReply<S, Reply>),
}

type MakeReply<S, Reply> = Box<dyn FnOnce(&S, &<S as State>::Change) -> Reply + Send>;

impl<S: State, Reply> Decision<S, Reply> {
    /// A change. `reply` is called once it is published, and also carries out its consequences.
    pub fn change(change: S::Change, reply: impl FnOnce(&S, &S::Change) -> Reply + Send + 'static) -> Self {
        Decision::Change(change, Box::new(reply))
    }
}

/// The reason why the storage did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// Another process writes now, and this one never will again.
    #[error("{0}")]
    TakenOver(String),
    /// The connection broke: the change may have taken effect.
    #[error("{0}")]
    Unknown(String),
    /// Nothing took effect.
    #[error("{0}")]
    NotStored(String),
}

/// The reason why a request brought no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitError<Rejection> {
    Rejected(Rejection),
    /// Nothing was loaded yet, or the storage does not answer: nothing was done.
    Unreachable,
    /// The storage refused the change: nothing was done.
    NotStored,
    /// The connection broke, and the change did not take effect.
    Broken,
    /// The change may or may not have taken effect.
    OutcomeUnknown,
    /// Another process has taken the storage over: nothing was done, and nothing will be.
    TakenOver,
    /// Too many requests wait: nothing was done.
    Overloaded,
    /// The service is stopping: nothing was done.
    Stopping,
}

/// Called once when another process has taken the storage over.
pub type OnTakenOver = Box<dyn Fn() + Send + Sync>;

/// Hands requests to the writer. Clones are the same.
pub struct Writer<S: State>(mpsc::Sender<Box<dyn Job<S>>>);

impl<S: State> Clone for Writer<S> {
    fn clone(&self) -> Self {
        Writer(self.0.clone())
    }
}

impl<S: State> Writer<S> {
    /// Starts the task. Loading goes on after this returns, and `ready` says when it is done.
    pub fn start(
        tasks: &Tasks,
        name: &'static str,
        state: S,
        ready: PartReady,
        on_taken_over: OnTakenOver,
    ) -> Self {
        let (sender, inbox) = mpsc::channel(MAX_WAITING);
        let task = WriterTask {
            state,
            inbox,
            ready,
            on_taken_over,
            certainty: Certainty::Unknown,
            has_loaded: false,
        };
        // The lock says that one run of the task at a time owns the writer; nothing else ever takes it.
        let task = Arc::new(Mutex::new(task));
        tasks.spawn(name, move |stop| {
            let task = Arc::clone(&task);
            async move { task.lock().await.run(&stop).await }
        });
        Writer(sender)
    }

    /// Has a request decided, and waits until its outcome is durable.
    pub async fn submit<R: Request<S>>(&self, request: R) -> Result<R::Reply, SubmitError<S::Rejection>> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(PendingRequest { request, reply });
        self.0.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => SubmitError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => SubmitError::Stopping,
        })?;
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(answer)) => answer,
            // The task has ended, or panicked with this in its hands, or takes too long.
            Ok(Err(_)) | Err(_) => Err(SubmitError::OutcomeUnknown),
        }
    }
}

/// A request and its caller.
struct PendingRequest<R, Reply, Rejection> {
    request: R,
    reply: oneshot::Sender<Result<Reply, SubmitError<Rejection>>>,
}

/// A pending request of any type.
trait Job<S: State>: Send {
    /// True if the caller has gone away or waited too long. It was told nothing certain: not to begin is right then.
    fn is_abandoned(&self) -> bool;
    fn refuse(self: Box<Self>, error: SubmitError<S::Rejection>);
    fn perform<'a>(self: Box<Self>, task: &'a mut WriterTask<S>) -> BoxFuture<'a, ()>;
}

impl<S: State, R: Request<S>> Job<S> for PendingRequest<R, R::Reply, S::Rejection> {
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    // A caller that has gone away needs no answer.
    fn refuse(self: Box<Self>, error: SubmitError<S::Rejection>) {
        let _ = self.reply.send(Err(error));
    }

    fn perform<'a>(self: Box<Self>, task: &'a mut WriterTask<S>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let PendingRequest { request, reply } = *self;
            let _ = reply.send(task.perform(request).await);
        })
    }
}

/// The writer's knowledge of the stored state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// It must load before it decides anything.
    Unknown,
    /// The published state equals the stored one.
    Known,
    /// Another process has taken over.
    Over,
}

struct WriterTask<S: State> {
    state: S,
    inbox: mpsc::Receiver<Box<dyn Job<S>>>,
    ready: PartReady,
    on_taken_over: OnTakenOver,
    certainty: Certainty,
    has_loaded: bool,
}

impl<S: State> WriterTask<S> {
    /// Works until the stop. May be called again after a panic, when nothing is certain.
    async fn run(&mut self, stop: &Stop) {
        if self.certainty == Certainty::Known {
            self.certainty = Certainty::Unknown;
        }
        loop {
            if self.certainty == Certainty::Unknown && !self.load_until(stop).await {
                return;
            }
            let job = tokio::select! {
                () = stop.requested() => return,
                job = self.inbox.recv() => job,
            };
            let Some(job) = job else { return };
            if !job.is_abandoned() {
                job.perform(self).await;
            }
        }
    }

    /// Loads, however often that takes, and refuses requests meanwhile; `false` if it was stopped.
    async fn load_until(&mut self, stop: &Stop) -> bool {
        let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            tokio::select! {
                () = stop.requested() => return false,
                () = self.load() => {}
            }
            if self.certainty != Certainty::Unknown {
                return true;
            }
            let end = Instant::now() + pauses.pause();
            loop {
                let job = tokio::select! {
                    () = stop.requested() => return false,
                    job = timeout_at(end, self.inbox.recv()) => job,
                };
                match job {
                    Ok(Some(job)) => job.refuse(SubmitError::Unreachable),
                    Ok(None) => return false,
                    Err(_) => break,
                }
            }
        }
    }

    /// Loads the stored state and publishes it, if the storage can be asked.
    async fn load(&mut self) {
        match self.state.load().await {
            Ok(()) => {
                self.has_loaded = true;
                self.certainty = Certainty::Known;
                self.ready.ready();
            }
            Err(error @ StorageError::TakenOver(_)) => self.end(&error),
            Err(error) => {
                tracing::warn!(%error, "{} cannot be loaded; trying again", S::NAME);
                if !self.has_loaded {
                    let why = format!("{} are not loaded: the database does not answer", S::NAME);
                    self.ready.not_ready(why);
                }
            }
        }
    }

    async fn perform<R: Request<S>>(&mut self, request: R) -> Result<R::Reply, SubmitError<S::Rejection>> {
        if self.certainty == Certainty::Over {
            return Err(SubmitError::TakenOver);
        }
        match request.decide(&self.state).map_err(SubmitError::Rejected)? {
            Decision::Nothing(reply) => Ok(reply),
            Decision::Change(change, reply) => {
                self.store(&change).await?;
                Ok(reply(&self.state, &change))
            }
        }
    }

    async fn store(&mut self, change: &S::Change) -> Result<(), SubmitError<S::Rejection>> {
        // Until the answer is there; a panic before that must not leave a wrong certainty.
        self.certainty = Certainty::Unknown;
        match self.state.store(change).await {
            Ok(()) => {
                self.state.publish(change);
                self.certainty = Certainty::Known;
                Ok(())
            }
            Err(error @ StorageError::TakenOver(_)) => {
                self.end(&error);
                Err(SubmitError::TakenOver)
            }
            Err(StorageError::Unknown(cause)) => {
                tracing::warn!(cause, "a change of {} broke off; finding out", S::NAME);
                self.find_out(change).await
            }
            Err(StorageError::NotStored(cause)) => {
                tracing::error!(cause, "a change of {} could not be stored", S::NAME);
                self.certainty = Certainty::Known;
                Err(SubmitError::NotStored)
            }
        }
    }

    /// Asks the storage whether a change took effect.
    async fn find_out(&mut self, change: &S::Change) -> Result<(), SubmitError<S::Rejection>> {
        let end = Instant::now() + FIND_OUT_WITHIN;
        let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        while self.certainty == Certainty::Unknown && Instant::now() < end {
            // Cut off, it leaves everything as uncertain as it is.
            let _ = timeout_at(end, self.load()).await;
            if self.certainty == Certainty::Unknown {
                sleep(pauses.pause().min(end.saturating_duration_since(Instant::now()))).await;
            }
        }
        match self.certainty {
            Certainty::Known if self.state.took_effect(change) => Ok(()),
            Certainty::Known => Err(SubmitError::Broken),
            // After the take-over, a stored change cannot be told from one that was not stored.
            Certainty::Over | Certainty::Unknown => Err(SubmitError::OutcomeUnknown),
        }
    }

    /// Another process writes from now on; this one must not answer changes, and should end.
    fn end(&mut self, error: &StorageError) {
        self.certainty = Certainty::Over;
        tracing::error!(%error, "another process has taken {} over", S::NAME);
        self.ready.not_ready(S::TAKEN_OVER);
        (self.on_taken_over)();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "single_writer_tests.rs"]
mod tests;
