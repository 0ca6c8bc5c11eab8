//! The one writer of a service's state: it takes requests, decides one after the other, stores, publishes and answers.
//!
//! A service implements [`State`] (its data, and how they are stored) and a [`Request`] for each kind of request. These
//! rules hold for all of them:
//!
//! - Nothing is published before it is durable, and the published state equals the stored one.
//! - A task does it rather than the handlers, because a handler ends when its client goes away, and must not end
//!   between storing and publishing.
//! - A state that can be staged is changed by groups: what arrives while a change is stored is decided together, each
//!   request on the state as it is after those before it, and stored as one. Whatever was decided on a change that is
//!   not durable yet is answered after it, with its outcome.
//! - When the connection breaks during a change, its outcome is unknown: everything is loaded again before anything
//!   else is decided. The caller learns the outcome if it can be found out in time.
//! - When another process has taken the storage over, nothing is changed any more.

mod pending;
mod state;

use std::sync::Arc;
use std::time::Duration;

use estimand_runtime::{BackOff, PartReady, Stop, Tasks, Trouble};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::errors::{StorageError, SubmitError, taken_over};
use pending::{Group, Job, PendingRequest};

pub use state::{Decision, Request, State};

/// How many requests may wait; their callers hold more of them, and wait for a place.
const MAX_WAITING: usize = 256;
/// How long a caller waits for such a place.
const PLACE_WITHIN: Duration = Duration::from_secs(5);
/// How many requests are decided at once.
const MAX_DECIDED: usize = 1024;
/// How long a caller waits for its change to be durable.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long the caller of a change whose outcome is unknown waits for the storage to tell.
const FIND_OUT_WITHIN: Duration = Duration::from_secs(3);
/// The pause between two attempts to reach the storage.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Called once, with the reason, when a service cannot go on and its process should end.
pub type OnFatal = Box<dyn Fn(&str) + Send + Sync>;

/// Hands requests to the writer. Clones are the same.
pub struct Writer<S: State>(mpsc::Sender<Box<dyn Job<S>>>);

impl<S: State> Clone for Writer<S> {
    fn clone(&self) -> Self {
        Writer(self.0.clone())
    }
}

impl<S: State> Writer<S> {
    /// Starts the task. Loading goes on after this returns, and `ready` says when it is done.
    pub fn start(tasks: &Tasks, name: &'static str, state: S, ready: PartReady, on_fatal: OnFatal) -> Self {
        let (sender, inbox) = mpsc::channel(MAX_WAITING);
        let task = WriterTask {
            state,
            inbox,
            ready,
            on_fatal,
            certainty: Certainty::Unknown,
            has_loaded: false,
            trouble: Trouble::default(),
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
        self.0.send_timeout(job, PLACE_WITHIN).await.map_err(|refused| match refused {
            mpsc::error::SendTimeoutError::Timeout(_) => SubmitError::Overloaded,
            mpsc::error::SendTimeoutError::Closed(_) => SubmitError::Stopping(S::SERVICE),
        })?;
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(answer)) => answer,
            // The task has ended, or panicked with this in its hands, or takes too long.
            Ok(Err(_)) | Err(_) => Err(SubmitError::OutcomeUnknown),
        }
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
    on_fatal: OnFatal,
    certainty: Certainty,
    has_loaded: bool,
    /// With loading.
    trouble: Trouble,
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
            self.perform(job).await;
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
                self.trouble.over();
                self.certainty = Certainty::Known;
                self.ready.ready();
            }
            Err(error @ StorageError::TakenOver(_)) => self.end(&error),
            Err(error) => {
                match self.trouble.failed(Duration::ZERO) {
                    true => tracing::warn!(%error, "{} cannot be loaded; it is tried again", S::NAME),
                    false => tracing::debug!(%error, "{} cannot be loaded", S::NAME),
                }
                if !self.has_loaded {
                    let why = format!("{} are not loaded: the database does not answer", S::NAME);
                    self.ready.not_ready(why);
                }
            }
        }
    }

    /// Decides a request and those that wait behind it, as far as they are stored together, and answers them.
    async fn perform(&mut self, first: Box<dyn Job<S>>) {
        if self.certainty == Certainty::Over {
            return first.refuse(SubmitError::TakenOver(S::SERVICE));
        }
        let mut group = Group { changes: Vec::new(), callers: Vec::new() };
        let (mut next, mut decided, mut weight) = (Some(first), 0, 0);
        while let Some(job) = next {
            if !job.is_abandoned() {
                let (change, answer) = job.decide(&self.state, group.changes.len());
                if let Some(change) = change {
                    weight += S::weight(&change);
                    self.state.stage(&change);
                    group.changes.push(change);
                }
                match group.changes.len() {
                    0 => answer(Ok((&self.state, &[]))),
                    needed => group.callers.push((needed, answer)),
                }
            }
            decided += 1;
            let goes_on = weight < S::GROUP && decided < MAX_DECIDED;
            next = if goes_on { self.inbox.try_recv().ok() } else { None };
        }
        if !group.changes.is_empty() {
            self.settle(group).await;
        }
    }

    /// Stores the changes of a group and answers its callers.
    async fn settle(&mut self, group: Group<S>) {
        let Group { changes, callers } = group;
        let (mut durable, mut outcome) = (0, self.store(&changes).await);
        if outcome.is_ok() {
            durable = changes.len();
        } else if matches!(outcome, Err(SubmitError::NotStored)) && changes.len() > 1 {
            // One of them may be to blame. Those before it need not suffer; those after it were decided on it.
            for change in changes.chunks(1) {
                self.state.stage(&change[0]);
                outcome = self.store(change).await;
                if outcome.is_err() {
                    break;
                }
                durable += 1;
            }
        }
        for (needed, answer) in callers {
            answer(match &outcome {
                Err(error) if durable < needed => Err(error.clone()),
                _ => Ok((&self.state, &changes)),
            });
        }
    }

    async fn store(&mut self, changes: &[S::Change]) -> Result<(), SubmitError<S::Rejection>> {
        // Until the answer is there; a panic before that must not leave a wrong certainty.
        self.certainty = Certainty::Unknown;
        match self.state.store(changes).await {
            Ok(()) => {
                self.state.publish(changes);
                self.certainty = Certainty::Known;
                Ok(())
            }
            Err(error @ StorageError::TakenOver(_)) => {
                self.end(&error);
                Err(SubmitError::TakenOver(S::SERVICE))
            }
            Err(StorageError::Unknown(cause)) => {
                tracing::warn!(cause, "a change of {} broke off; finding out", S::NAME);
                self.find_out(changes).await
            }
            Err(StorageError::NotStored(cause)) => {
                tracing::error!(cause, "a change of {} could not be stored", S::NAME);
                self.state.unstage(changes);
                self.certainty = Certainty::Known;
                Err(SubmitError::NotStored)
            }
        }
    }

    /// Asks the storage whether changes took effect.
    async fn find_out(&mut self, changes: &[S::Change]) -> Result<(), SubmitError<S::Rejection>> {
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
            Certainty::Known if self.state.took_effect(changes) => Ok(()),
            Certainty::Known => Err(SubmitError::Broken),
            // After the take-over, a stored change cannot be told from one that was not stored.
            Certainty::Over | Certainty::Unknown => Err(SubmitError::OutcomeUnknown),
        }
    }

    /// Another process writes from now on; this one must not answer changes, and should end.
    fn end(&mut self, error: &StorageError) {
        self.certainty = Certainty::Over;
        tracing::error!(%error, "another process has taken {} over", S::NAME);
        let reason = taken_over(S::SERVICE);
        self.ready.not_ready(&reason);
        (self.on_fatal)(&reason);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
