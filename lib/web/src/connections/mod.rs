//! The open connections of one server: how many there may be, and which are given up when there are more.
//!
//! A process has a limited number of descriptors, and a connection takes one before anything is known of whoever made it. So
//! a part of them is kept for all else: files, the database, runs, requests to others. The kernel gives out the lowest number
//! that is free, so a new connection's number says how many are in use: when it comes near the reserve, connections are
//! given up that nobody waits on, and if there are not enough of those, some of whoever has most.
//!
//! A connection is entered when it is accepted, before a handshake, and leaves when it is dropped.

mod peer;
mod surplus;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use crate::live_shares::ConnectionShare;
use estimand_runtime::metrics::{Counter, Exposition, Kind};
use estimand_runtime::open_files::max_open_files;

/// However many descriptors there are: each connection takes some memory, too.
const MAX_CONNECTIONS: usize = 50_000;
/// The most descriptors that are kept for all else than connections.
const MAX_RESERVE: usize = 4096;
/// How much of the room is left free for those that come while others are given up.
const MARGIN_SHARE: usize = 16;
/// A client that has just connected is about to send its request.
const GRACE: Duration = Duration::from_secs(1);
/// How often the log says that there are too many.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// Stands in place of a time while a request is being answered.
const BUSY: u64 = u64::MAX;

/// All of one server's.
#[derive(Debug, Clone)]
pub(crate) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// The files that were open before there was a connection.
    open_before: usize,
    table: Mutex<Table>,
    changed: Notify,
    idle_closed: Counter,
    largest_closed: Counter,
    refused: Counter,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// In the order in which they came.
    open: BTreeMap<u64, Arc<Connection>>,
    /// Those that were given up and are not gone yet.
    closing: usize,
    choosing: bool,
    said: Option<Instant>,
}

/// One connection, as far as it is known.
#[derive(Debug)]
pub(crate) struct Connection {
    all: Connections,
    id: u64,
    peer: SocketAddr,
    local: SocketAddr,
    /// The user at the other end, where that is known from the beginning.
    user: Option<u32>,
    /// Milliseconds since the server began at which its last request was answered, or [`BUSY`].
    idle_since: AtomicU64,
    closed: AtomicBool,
    reader: AtomicWaker,
    share: ConnectionShare,
}

/// Lies in a connection for as long as it is open.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<Connection>);

/// Lives for as long as a request of the connection is being answered.
#[derive(Debug)]
pub(crate) struct BusyConnection(Arc<Connection>);

/// The number of connections that there may be in all, as the process is now.
pub(crate) fn most() -> usize {
    Room::of(max_open_files()).descriptors
}

/// How many descriptors may be in use after a connection has come.
#[derive(Debug, PartialEq, Eq)]
struct Room {
    /// Near it, connections are given up. No more are accepted, whatever else is open.
    descriptors: usize,
    /// From there on a new one is closed at once: those that were given up are not gone yet.
    refused_from: usize,
}

impl Room {
    fn of(max_open_files: usize) -> Self {
        let reserve = (max_open_files / 4).min(MAX_RESERVE);
        let descriptors = (max_open_files - reserve).min(MAX_CONNECTIONS);
        // Others make room for it, so it is refused only when hardly anything is left.
        Room { descriptors, refused_from: descriptors + reserve - reserve / 8 }
    }
}

impl Connections {
    /// None yet, in a process that has that many files open.
    pub(crate) fn new(open_files: usize) -> Self {
        Connections(Arc::new(Shared {
            began: Instant::now(),
            open_before: open_files,
            table: Mutex::default(),
            changed: Notify::new(),
            idle_closed: Counter::new(),
            largest_closed: Counter::new(),
            refused: Counter::new(),
        }))
    }

    /// The number of connections that may be accepted before one of them is closed: further ones wait in the kernel. Those that
    /// are accepted faster than they are entered stay below the number from which a connection is refused.
    pub(crate) fn most_accepted(&self) -> usize {
        most().saturating_sub(self.0.open_before).max(1)
    }

    /// Enters a connection with that descriptor, and makes room for the next ones; none if there is no room for this one.
    pub(crate) fn admit(
        &self,
        descriptor: usize,
        local: SocketAddr,
        peer: SocketAddr,
        user: Option<u32>,
    ) -> Option<Ticket> {
        let Room { descriptors: room, refused_from } = Room::of(max_open_files());
        let mut table = self.table();
        let used = descriptor.max(self.0.open_before + table.open.len());
        let ticket = if used < refused_from {
            Some(self.enter(&mut table, local, peer, user))
        } else {
            self.0.refused.increment();
            None
        };
        let margin = (room / MARGIN_SHARE).max(1);
        let wanted = if used + margin >= room { margin.saturating_sub(table.closing) } else { 0 };
        if wanted > 0 && !table.choosing {
            table.choosing = true;
            self.give_up(table, wanted);
        }
        ticket
    }

    fn enter(&self, table: &mut Table, local: SocketAddr, peer: SocketAddr, user: Option<u32>) -> Ticket {
        let id = table.next;
        table.next += 1;
        let connection = Arc::new(Connection {
            all: self.clone(),
            id,
            peer,
            local,
            user,
            idle_since: AtomicU64::new(self.now_ms()),
            closed: AtomicBool::new(false),
            reader: AtomicWaker::new(),
            share: ConnectionShare::default(),
        });
        table.open.insert(id, Arc::clone(&connection));
        Ticket(connection)
    }

    /// Closes as many connections as are wanted. Nobody is kept from coming and going while they are chosen.
    fn give_up(&self, mut table: MutexGuard<'_, Table>, wanted: usize) {
        let all: Vec<Arc<Connection>> = table.open.values().filter(|one| !one.is_closed()).cloned().collect();
        let is_said = table.said.is_none_or(|at| at.elapsed() >= SAID_EVERY);
        if is_said {
            table.said = Some(Instant::now());
        }
        drop(table);
        let idle_for = |one: &Arc<Connection>| one.idle_for(self.now_ms());
        let idle = surplus::longest_idle(&all, idle_for, GRACE, wanted);
        let rest = wanted - idle.len();
        let largest = match rest {
            0 => Vec::new(),
            _ => surplus::of_largest(&all, &peer::of_each(&all), idle_for, rest),
        };
        if is_said {
            tracing::warn!(
                open = all.len(),
                idle = idle.len(),
                of_largest = largest.len(),
                "there are too many connections: closing idle ones, and some of whoever has most"
            );
        }
        let mut table = self.table();
        table.choosing = false;
        for (chosen, counter) in [(idle, &self.0.idle_closed), (largest, &self.0.largest_closed)] {
            for connection in chosen {
                let is_open = table.open.contains_key(&connection.id);
                if is_open && !connection.closed.swap(true, Ordering::AcqRel) {
                    table.closing += 1;
                    counter.increment();
                    connection.reader.wake();
                }
            }
        }
    }

    /// Waits until none is open.
    pub(crate) async fn drained(&self) {
        loop {
            let changed = self.0.changed.notified();
            if self.open() == 0 {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.table().open.len()
    }

    pub(crate) fn write_figures(&self, text: &mut String) {
        let mut exposition = Exposition::new(text);
        let help = "Open connections.";
        exposition.single("estimand_http_connections", Kind::Gauge, help, self.open() as f64);
        let name = "estimand_http_connections_given_up_total";
        exposition.family(name, Kind::Counter, "Connections that were closed because there were too many.");
        for (why, counter) in
            [("idle", &self.0.idle_closed), ("largest", &self.0.largest_closed), ("refused", &self.0.refused)]
        {
            exposition.sample(name, &[("why", why)], counter.get() as f64);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(BUSY - 1)
    }
}

impl Connection {
    /// From now on, until what this returns is dropped, the connection is not idle.
    pub(crate) fn begin(self: &Arc<Self>) -> BusyConnection {
        self.idle_since.store(BUSY, Ordering::Relaxed);
        BusyConnection(Arc::clone(self))
    }

    pub(crate) fn share(&self) -> &ConnectionShare {
        &self.share
    }

    /// None while a request is being answered.
    fn idle_for(&self, now_ms: u64) -> Option<Duration> {
        let since = self.idle_since.load(Ordering::Relaxed);
        (since != BUSY).then(|| Duration::from_millis(now_ms.saturating_sub(since)))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Ticket {
    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.0)
    }

    /// True once the connection is to be closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// True once the connection is to be closed; otherwise the waker is woken when it is.
    pub(crate) fn is_closed_or_wakes(&self, waker: &Waker) -> bool {
        self.0.reader.register(waker);
        self.0.is_closed()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.0.all.table();
        table.open.remove(&self.0.id);
        // Under the lock: whoever closes it looks there first.
        table.closing -= usize::from(self.0.is_closed());
        drop(table);
        self.0.all.0.changed.notify_waiters();
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.all.now_ms(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
