//! The orders of the test and the open connections, and the waiting of all threads for either.

use std::collections::HashMap;
use std::io;
use std::net::{self, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After an error of accepting that is not the test's doing.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

#[derive(Default)]
pub(super) struct State {
    /// Bytes to the server are held, and those to the client.
    pub(super) paused: [bool; 2],
    pub(super) refusing: bool,
    /// The proxy is dropped.
    pub(super) over: bool,
    pub(super) latency: Duration,
    /// Both ends of each connection, by a number that only it has.
    pub(super) open: HashMap<u64, [TcpStream; 2]>,
    opened: u64,
}

#[derive(Default)]
pub(super) struct Switchboard {
    state: Mutex<State>,
    changed: Condvar,
}

/// An open connection. Closed when dropped.
pub(super) struct Connection {
    number: u64,
    board: Arc<Switchboard>,
}

/// The connection has been cut, or the proxy is over.
pub(super) struct Gone;

impl State {
    /// Closes all connections: their threads find the sockets at their end.
    pub(super) fn cut(&mut self) {
        for stream in self.open.drain().flat_map(|(_, ends)| ends) {
            let _ = stream.shutdown(net::Shutdown::Both);
        }
    }
}

impl Switchboard {
    /// Changes or reads the state; everyone who waits looks at it again.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Enters a connection, unless connections are refused by now.
    pub(super) fn open(
        self: &Arc<Self>,
        client: &TcpStream,
        server: &TcpStream,
    ) -> io::Result<Option<Connection>> {
        let ends = [client.try_clone()?, server.try_clone()?];
        let mut state = self.lock();
        if state.refusing || state.over {
            return Ok(None);
        }
        state.opened += 1;
        let number = state.opened;
        state.open.insert(number, ends);
        Ok(Some(Connection { number, board: Arc::clone(self) }))
    }

    pub(super) fn wait_until_accepting(&self) -> Result<(), Gone> {
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, ACCEPT_PAUSE, |state| !state.over)
            .unwrap_or_else(PoisonError::into_inner);
        let state = self
            .changed
            .wait_while(state, |state| state.refusing && !state.over)
            .unwrap_or_else(PoisonError::into_inner);
        if state.over { Err(Gone) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// When what arrives now is to be delivered.
    pub(super) fn due(&self) -> Instant {
        Instant::now() + self.board.lock().latency
    }

    /// Waits until `due`, and while the proxy is paused for what goes that `way`.
    pub(super) fn wait_until(&self, due: Instant, way: Way) -> Result<(), Gone> {
        let mut state = self.board.lock();
        loop {
            if !state.open.contains_key(&self.number) {
                return Err(Gone);
            }
            let left = due.saturating_duration_since(Instant::now());
            state = if state.paused[way as usize] {
                self.board.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else if left.is_zero() {
                return Ok(());
            } else {
                let waited = self.board.changed.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.board.with(|state| state.open.remove(&self.number));
    }
}
