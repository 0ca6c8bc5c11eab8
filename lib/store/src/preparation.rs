//! The preparation of a store by a process that has several users of it: one of them makes the tables, and only then do
//! the others open connections.
//!
//! Otherwise they would make the tables all at once, and wait for each other's locks. The users get a [`StoreUrl`] of
//! [`StoreUrl::after_preparation`]; the one that prepares uses the original one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Error, Halt, StoreUrl};

/// The longest wait of a connection for a preparation that goes on. Its user tries again.
const WAIT: Duration = Duration::from_secs(10);
/// The longest wait of a connection for a preparation that is known to be delayed.
const DELAYED_WAIT: Duration = Duration::from_secs(1);
/// Between two looks at the request to give up.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Tells the users of a store how far its preparation is. Clones are the same.
#[derive(Clone, Debug)]
pub struct Preparation(Arc<Gate>);

#[derive(Debug)]
enum State {
    Opening,
    Delayed(String),
    Prepared,
}

/// The connections of a process to one store.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    prepared: Condvar,
    /// Ends the waits of all connections.
    halt: Halt,
}

impl StoreUrl {
    /// The same store, whose connections wait until it is prepared.
    pub fn after_preparation(&self) -> (StoreUrl, Preparation) {
        let gate = Arc::new(Gate {
            state: Mutex::new(State::Opening),
            prepared: Condvar::new(),
            halt: Halt::default(),
        });
        (StoreUrl { gate: Some(Arc::clone(&gate)), ..self.clone() }, Preparation(gate))
    }
}

impl Preparation {
    /// The tables are there.
    pub fn done(&self) {
        *self.0.lock() = State::Prepared;
        self.0.prepared.notify_all();
    }

    /// It takes longer, for that reason.
    pub fn delayed(&self, why: &str) {
        let mut state = self.0.lock();
        if !matches!(*state, State::Prepared) {
            *state = State::Delayed(why.to_owned());
        }
    }

    /// From now on no connection waits for the database any longer than a moment.
    pub fn halt(&self) {
        self.0.halt.request();
    }
}

impl Gate {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the store is prepared; the error says why it is not.
    pub(crate) fn pass(&self, halt: &Halt) -> Result<(), Error> {
        let began = Instant::now();
        let mut state = self.lock();
        loop {
            let (wait, why) = match &*state {
                State::Prepared => return Ok(()),
                State::Opening => (WAIT, "it is being opened"),
                State::Delayed(why) => (DELAYED_WAIT, why.as_str()),
            };
            if began.elapsed() >= wait || halt.is_requested() || self.halt.is_requested() {
                return Err(Error::Connection { doing: "opening the store", cause: why.to_owned() });
            }
            state = self.prepared.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn halt(&self) -> &Halt {
        &self.halt
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Connection;

    #[test]
    fn connections_wait_for_the_preparation_and_find_the_tables_made() {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreUrl::parse(&format!("sqlite://{}/store.db", folder.path().display())).unwrap();
        let (users, preparation) = store.after_preparation();
        preparation.delayed("the disk is being mounted");
        let early = Connection::open(&users).err().unwrap().to_string();
        assert!(early.contains("the disk is being mounted"), "{early}");
        std::thread::scope(|scope| {
            let user = scope.spawn(|| {
                let mut connection = Connection::open(&users)?;
                connection.migrate()?;
                connection.claim("data", 0)
            });
            Connection::open(&store).unwrap().migrate().unwrap();
            preparation.done();
            assert_eq!(user.join().unwrap().unwrap().epoch, 1);
        });
        let (users, preparation) = store.after_preparation();
        preparation.halt();
        assert!(Connection::open(&users).is_err(), "it is not waited for after the end");
    }
}
