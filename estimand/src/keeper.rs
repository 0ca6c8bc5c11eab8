//! The keeper of the store: it opens the store first, keeps other processes from taking it by accident, makes its
//! tables, and then looks every two seconds whether anything can be stored.
//!
//! The services' connections wait until the tables are there. What does not heal by itself ends the process, with the
//! reason; what may heal is tried again, and `/readyz` says what is missing.

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use estimand_runtime::{BackOff, PartReady};
use estimand_store::{Connection, Error, Halt, Preparation, StoreUrl};

use crate::services::{Owner, SERVICES};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long another holder may take to end: a server may hear a little later than we that a process is gone.
const HOLDER_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The needs of a keeper.
pub struct KeeperOptions {
    pub store: StoreUrl,
    pub preparation: Preparation,
    /// The services of this process that are alone over a store.
    pub owners: Vec<Owner>,
    /// Takes the store over from a process that lives.
    pub takes_over: bool,
    /// This process, for people.
    pub description: String,
    pub ready: PartReady,
    /// Called once, when the tables are there.
    pub on_prepared: Box<dyn FnOnce() + Send>,
    /// Called with the reason when the process cannot go on.
    pub on_fatal: Box<dyn Fn(&str) + Send>,
}

/// The thread of the keeper.
pub struct Keeper {
    end: Option<Sender<()>>,
    halt: Halt,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub fn start(options: KeeperOptions) -> std::io::Result<Keeper> {
        let (end, ended) = channel();
        let halt = Halt::default();
        let mut task = KeeperTask { options, halt: halt.clone(), connection: None, held: BTreeSet::new() };
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            let is_over = |pause| !matches!(ended.recv_timeout(pause), Err(RecvTimeoutError::Timeout));
            task.run(&is_over);
        })?;
        Ok(Keeper { end: Some(end), halt, thread: Some(thread) })
    }
}

/// Lets the store go.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.halt.request();
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

struct KeeperTask {
    options: KeeperOptions,
    halt: Halt,
    connection: Option<Connection>,
    /// The owners whose place this process has. After a loss of the connection it may be another's.
    held: BTreeSet<Owner>,
}

/// The reason why the store is not prepared.
enum Obstacle {
    Store(Error),
    /// Another process runs this service on it.
    Held(Owner, Option<String>),
}

impl KeeperTask {
    fn run(&mut self, is_over: &dyn Fn(Duration) -> bool) {
        if !self.prepare(is_over) {
            return;
        }
        self.options.preparation.done();
        self.options.ready.ready();
        std::mem::replace(&mut self.options.on_prepared, Box::new(|| ()))();
        let mut failing = false;
        while !is_over(LOOK_EVERY) {
            match self.look() {
                Ok(()) => {
                    if std::mem::take(&mut failing) {
                        tracing::info!("the database stores again");
                    }
                    self.options.ready.ready();
                }
                Err(Error::Fenced { owner, .. }) => {
                    let mut owners = SERVICES.into_iter().filter_map(|kind| kind.owner);
                    let service = owners.find(|one| one.name == owner).map_or("process", |one| one.service);
                    return self.end(&format!("another {service} has taken over this store"));
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "nothing can be stored; it is tried again");
                    }
                    self.options.ready.not_ready(format_args!("nothing can be stored: {error}"));
                }
            }
        }
    }

    /// Opens the store, however often that takes; false if the process ends.
    fn prepare(&mut self, is_over: &dyn Fn(Duration) -> bool) -> bool {
        let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let (mut told, mut held_since) = (false, None);
        loop {
            let why = match self.open() {
                Ok(()) => return true,
                Err(Obstacle::Held(owner, holder)) => {
                    let since: Instant = *held_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= HOLDER_ENDS_WITHIN {
                        self.end(&self.refusal(owner, holder.as_deref()));
                        return false;
                    }
                    pauses.reset();
                    format!("{} runs on it; waiting for its end", held_by(owner, holder.as_deref()))
                }
                Err(Obstacle::Store(error @ (Error::Connection { .. } | Error::Busy { .. }))) => {
                    format!("the database does not answer: {}", error.reason())
                }
                Err(Obstacle::Store(error)) => {
                    self.end(&format!("cannot use the store {}: {error}", self.options.store));
                    return false;
                }
            };
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(store = %self.options.store, why, "the store cannot be used yet; it is tried again");
            }
            self.options.ready.not_ready(&why);
            self.options.preparation.delayed(&why);
            if is_over(pauses.pause()) {
                return false;
            }
        }
    }

    fn open(&mut self) -> Result<(), Obstacle> {
        let KeeperOptions { store, owners, takes_over, description, .. } = &self.options;
        let mut connection = Connection::open_until(store, &self.halt).map_err(Obstacle::Store)?;
        self.held.clear();
        for owner in owners {
            match connection.hold(owner.name).map_err(Obstacle::Store)? {
                true => drop(self.held.insert(*owner)),
                false if *takes_over => {}
                // The table may not be there yet.
                false => return Err(Obstacle::Held(*owner, connection.holder(owner.name).ok().flatten())),
            }
        }
        let prepared = connection.migrate().and_then(|()| {
            owners.iter().try_for_each(|owner| connection.become_holder(owner.name, description))
        });
        prepared.map_err(Obstacle::Store)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Stores something small, with a connection that is made anew if it was lost.
    fn look(&mut self) -> Result<(), Error> {
        let KeeperOptions { store, owners, description, .. } = &self.options;
        let connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => self.connection.insert(connection),
            None => {
                self.held.clear();
                self.connection.insert(Connection::open_until(store, &self.halt)?)
            }
        };
        for owner in owners {
            if !self.held.contains(owner) && connection.hold(owner.name)? {
                self.held.insert(*owner);
            }
            connection.beat_holder(owner.name, description)?;
        }
        if owners.is_empty() { connection.ping() } else { Ok(()) }
    }

    fn refusal(&self, owner: Owner, holder: Option<&str>) -> String {
        format!(
            "{} runs on {}: end that one first, or give this one --take-over, which ends it",
            held_by(owner, holder),
            self.options.store
        )
    }

    fn end(&self, reason: &str) {
        self.options.ready.not_ready(reason);
        (self.options.on_fatal)(reason);
    }
}

fn held_by(owner: Owner, holder: Option<&str>) -> String {
    let holder = holder.filter(|holder| !holder.is_empty()).unwrap_or("another process");
    format!("the {} of {holder}", owner.service)
}
