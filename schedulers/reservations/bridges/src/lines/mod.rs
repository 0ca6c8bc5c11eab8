//! Reservations over plain TCP: a JSON document a line, pipelined.
//!
//! Each line is a request to the HTTP interface in other clothes, and is sent there with the token that the connection has
//! shown: so one place decides who may do what. Answers come in the order of the requests.
//!
//! Everything is bounded: connections, the time until one has shown that it may be here, the length of a line, the lines of a
//! connection that are being answered, the memory of all lines together, the memory of a token's answers, and the time
//! that half a line or an answer that nobody reads may take. No token takes all connections, or all of that memory. A
//! connection that says nothing costs a socket and no buffer, for ten seconds.

mod caller;
mod connection;
mod request;

use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_runtime::open_files::max_open_files;
use estimand_runtime::{Stop, Tasks};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

pub use caller::Connect;
use caller::{Caller, Callers, Counted};
use connection::{Connection, LONG_LINE_KIB};
use request::refusal;

/// The most connections at the same time, if half of the files that may be open are as many.
const MAX_CONNECTIONS: usize = 12_000;
/// How many requests are made at the same time for all connections: each has an HTTP connection of its own, which is used
/// again.
const MAX_REQUESTS: usize = 32;
/// The memory of long lines that are being read, in KiB.
const BUDGET_KIB: usize = 64 * 1024;

/// Serves lines on a listener until the process ends.
pub fn serve(listener: std::net::TcpListener, connect: Connect, tasks: &Tasks) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = Arc::new(TcpListener::from_std(listener)?);
    let most = MAX_CONNECTIONS.min(max_open_files() / 2);
    let shared = Arc::new(Lines {
        callers: Callers::new(connect),
        most,
        seats: Arc::new(Semaphore::new(most)),
        budget: Arc::new(Semaphore::new(BUDGET_KIB)),
        requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
    });
    tasks.spawn("reservations-lines", move |stop| {
        let listener = Arc::clone(&listener);
        let shared = Arc::clone(&shared);
        async move { shared.accept(&listener, &stop).await }
    });
    Ok(())
}

/// The bounds of all connections.
struct Lines {
    callers: Callers,
    /// The number of seats.
    most: usize,
    seats: Arc<Semaphore>,
    budget: Arc<Semaphore>,
    requests: Arc<Semaphore>,
}

impl Lines {
    /// A place among the connections for one that has shown the token of a caller.
    fn place_of(&self, caller: &Caller) -> Option<Counted> {
        Counted::one(&caller.connected, self.seats.available_permits(), self.most)
    }

    /// Room for a long line of a caller.
    fn room_of(&self, caller: &Caller) -> Option<(OwnedSemaphorePermit, Counted)> {
        let room = Arc::clone(&self.budget).try_acquire_many_owned(LONG_LINE_KIB as u32).ok()?;
        let free = self.budget.available_permits() / LONG_LINE_KIB;
        Some((room, Counted::one(&caller.long_lines, free, BUDGET_KIB / LONG_LINE_KIB)?))
    }

    async fn accept(self: Arc<Self>, listener: &TcpListener, stop: &Stop) {
        loop {
            let accepted = tokio::select! {
                () = stop.requested() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // There are too many open files, for a while.
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else {
                let problem = Problem::unavailable(format!("{} are connected already", self.most), 5);
                // It fits into the buffer of a new socket, or nobody hears it.
                let _ = stream.try_write(refusal(None, &problem).as_bytes());
                continue;
            };
            let shared = Arc::clone(&self);
            let stop = stop.clone();
            tokio::spawn(async move {
                let _seat = seat;
                let mut connection = Connection::new(shared, stream);
                tokio::select! {
                    () = stop.requested() => {}
                    () = connection.run() => {}
                }
            });
        }
    }
}
