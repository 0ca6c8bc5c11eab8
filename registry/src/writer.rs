//! The one task that changes what is registered: it decides, stores, publishes and answers, one request after
//! the other.
//!
//! Nothing is published before it is durable, and what is published is what is stored. A task does it rather
//! than the handlers, because a handler ends when its client goes away, and must not end between storing and
//! publishing. When the connection breaks during a change, its outcome is unknown: everything is loaded again
//! before anything else is decided. When another registry has claimed the store, nothing is changed any more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_runtime::{PartReady, Stop};
use estimand_store::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use crate::book::{Book, Entry};
use crate::edit::{Ask, Edit, Verdict, decide};
use crate::rows;
use crate::shelf::Shelf;
use crate::{OnFatal, Shared};

/// Between two attempts to reach the database.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long the caller of a change whose outcome is unknown waits for the database to tell.
const FIND_OUT_WITHIN: Duration = Duration::from_secs(3);

/// A request and who waits for it.
#[derive(Debug)]
pub struct Job {
    pub ask: Ask,
    pub by: String,
    pub reply: oneshot::Sender<Result<Done, Problem>>,
}

/// What a request has come to.
#[derive(Debug)]
pub struct Done {
    /// What is registered now; none after a deletion.
    pub entry: Option<Arc<Entry>>,
    /// The generation of the book that keeps another history than the one before, if this one does.
    pub retention: Option<u64>,
}

/// What the writer knows about what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It must load before it decides anything.
    Unknown,
    /// The book is what is stored.
    Known,
    /// Another registry has taken over.
    Over,
}

/// The task's belongings.
pub struct Writer {
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Job>,
    shelf: Shelf,
    ready: PartReady,
    on_fatal: OnFatal,
    /// The highest version that each name ever had.
    versions: HashMap<String, u64>,
    standing: Standing,
}

impl Writer {
    pub fn new(
        shared: Arc<Shared>,
        inbox: mpsc::Receiver<Job>,
        shelf: Shelf,
        ready: PartReady,
        on_fatal: OnFatal,
    ) -> Self {
        Writer {
            shared,
            inbox,
            shelf,
            ready,
            on_fatal,
            versions: HashMap::new(),
            standing: Standing::Unknown,
        }
    }

    /// Works until the stop. May be called again after a panic, when nothing is certain.
    pub async fn run(&mut self, stop: &Stop) {
        if self.standing == Standing::Known {
            self.standing = Standing::Unknown;
        }
        loop {
            if self.standing == Standing::Unknown && !self.load_until(stop).await {
                return;
            }
            let job = tokio::select! {
                () = stop.requested() => return,
                job = self.inbox.recv() => job,
            };
            let Some(job) = job else { return };
            // Whoever has gone away or waited too long was told nothing certain: not to begin is right then.
            if job.reply.is_closed() {
                continue;
            }
            let answer = self.perform(job.ask, &job.by).await;
            // Whoever asked may have gone away meanwhile; then nobody needs the answer.
            let _ = job.reply.send(answer);
        }
    }

    /// Loads, however often that takes, and refuses what is asked meanwhile; `false` if it was stopped.
    async fn load_until(&mut self, stop: &Stop) -> bool {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::select! {
                () = stop.requested() => return false,
                () = self.load() => {}
            }
            if self.standing != Standing::Unknown {
                return true;
            }
            let end = Instant::now() + jittered(pause);
            loop {
                let job = tokio::select! {
                    () = stop.requested() => return false,
                    job = timeout_at(end, self.inbox.recv()) => job,
                };
                match job {
                    Ok(Some(job)) => drop(job.reply.send(Err(unreachable()))),
                    Ok(None) => return false,
                    Err(_) => break,
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Makes the book what is stored, if the database can be asked.
    async fn load(&mut self) {
        match self.shelf.load().await {
            Ok(loaded) => {
                let held = loaded.rows.into_iter().filter_map(rows::held).collect();
                self.versions = loaded.versions;
                let before = self.shared.book.load().as_ref().map_or(0, |book| book.generation);
                let book = Book::new(before + 1, held);
                tracing::info!(registrations = book.len(), "the registrations are loaded");
                self.publish(book);
                self.ready.ready();
                self.standing = Standing::Known;
            }
            Err(error @ Error::Fenced { .. }) => self.end(&error),
            Err(error) => {
                tracing::warn!(%error, "the registrations cannot be loaded; trying again");
                if self.shared.book.load().is_none() {
                    self.ready.not_ready("the registrations are not loaded: the database does not answer");
                }
            }
        }
    }

    async fn perform(&mut self, ask: Ask, by: &str) -> Result<Done, Problem> {
        if self.standing == Standing::Over {
            return Err(over());
        }
        let book = self.shared.book()?;
        let last_version = self.versions.get(ask.name().as_str()).copied().unwrap_or(0);
        let now = rows::instant(self.shared.clock.now_micros());
        match decide(&book, ask, last_version, now, by)? {
            Verdict::Nothing(entry) => Ok(Done { entry: Some(entry), retention: None }),
            Verdict::Edit(edit) => self.store(&book, edit).await,
        }
    }

    async fn store(&mut self, book: &Book, edit: Edit) -> Result<Done, Problem> {
        // Until the answer is there; a panic before that must not leave a wrong certainty.
        self.standing = Standing::Unknown;
        match self.shelf.store(&edit).await {
            Ok(()) => {
                self.versions.insert(edit.name.to_string(), edit.version);
                self.publish(book.with(&edit.name, edit.after.clone()));
                self.standing = Standing::Known;
                Ok(self.done(edit))
            }
            Err(error @ Error::Fenced { .. }) => {
                self.end(&error);
                Err(over())
            }
            Err(error @ Error::Connection { .. }) => {
                tracing::warn!(%error, name = %edit.name, version = edit.version, "a change broke off; finding out");
                self.find_out(edit).await
            }
            Err(error @ (Error::Busy { .. } | Error::Refused { .. } | Error::Url(_))) => {
                tracing::error!(%error, name = %edit.name, version = edit.version, "a change could not be stored");
                self.standing = Standing::Known;
                Err(Problem::unavailable("the database did not take this; nothing of it was done", 1))
            }
        }
    }

    /// Asks the database whether a change took effect.
    async fn find_out(&mut self, edit: Edit) -> Result<Done, Problem> {
        let end = Instant::now() + FIND_OUT_WITHIN;
        let mut pause = FIRST_PAUSE;
        while self.standing == Standing::Unknown && Instant::now() < end {
            // Cut off, it leaves everything as uncertain as it is.
            let _ = timeout_at(end, self.load()).await;
            if self.standing == Standing::Unknown {
                sleep(jittered(pause).min(end.saturating_duration_since(Instant::now()))).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        match self.standing {
            Standing::Known if self.took_effect(&edit) => Ok(self.done(edit)),
            Standing::Known => Err(Problem::unavailable(
                "the connection to the database broke; nothing was done, send it again",
                1,
            )),
            // What was stored before the other registry took over cannot be told from what was not.
            Standing::Over | Standing::Unknown => Err(unknown_outcome()),
        }
    }

    /// Whether exactly this change is the last one of its name. Only the book and the versions that were loaded
    /// after it tell.
    fn took_effect(&self, edit: &Edit) -> bool {
        let last = self.versions.get(edit.name.as_str()).copied();
        let book = self.shared.book.load();
        let held = book.as_ref().and_then(|book| book.get(edit.name.as_str()));
        last == Some(edit.version)
            && match (&edit.after, held) {
                (Some(after), Some(held)) => {
                    held.readable().is_some_and(|entry| entry.registered == after.registered)
                }
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            }
    }

    fn done(&self, edit: Edit) -> Done {
        let Edit { name, action, version, by, after, retention_changed, .. } = edit;
        tracing::info!(%name, version, action = action.as_str(), by, "changed");
        // Here rather than in the handler, which ends when its client goes away. Managers are told of a deletion
        // by whoever waits for its effect.
        if after.is_some() {
            self.shared.managers.poke(&name);
        }
        let generation = self.shared.book.load().as_ref().map(|book| book.generation);
        Done { entry: after, retention: generation.filter(|_| retention_changed) }
    }

    fn publish(&self, book: Book) {
        self.shared.book.store(Some(Arc::new(book)));
        self.shared.listeners.poke();
    }

    /// Another registry writes from now on; this one must not answer changes, and the process should end.
    fn end(&mut self, error: &Error) {
        self.standing = Standing::Over;
        tracing::error!(%error, "another registry has taken over the store");
        self.ready.not_ready(TAKEN_OVER);
        (self.on_fatal)(TAKEN_OVER);
    }
}

const TAKEN_OVER: &str = "another registry has taken over this store";

fn over() -> Problem {
    Problem::unavailable(
        format!("{TAKEN_OVER}; nothing was done, and nothing can be changed here any more"),
        1,
    )
}

fn unreachable() -> Problem {
    Problem::unavailable("the database does not answer; nothing was done", 1)
}

/// Also what a caller is told who has waited too long.
pub fn unknown_outcome() -> Problem {
    Problem::outcome_unknown(
        "the database does not answer, and whether this took effect is unknown: look, and send it again if not",
        1,
    )
}

fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}
