//! Reads of a store for those who ask a service. One thread does them in the order in which they are asked, so each user has
//! a few under way and waits for themselves beyond those.

use estimand_runtime::turns::Turns;

use crate::{Connection, Error, StoreUrl, Worker};

/// The reads of one user at the same time.
const OF_ONE_USER: usize = 2;

pub struct Reads {
    worker: Worker,
    turns: Turns<String>,
}

impl Reads {
    /// Starts a thread of that name. Nothing is opened yet.
    pub fn start(store: StoreUrl, name: &str) -> Self {
        Reads { worker: Worker::start(store, name), turns: Turns::new(OF_ONE_USER) }
    }

    /// Reads in a turn of a user, which lasts as long as the read does, whoever has stopped waiting. Operators and
    /// services (none) need no turn.
    pub async fn run<T: Send + 'static>(
        &self,
        user: Option<&str>,
        read: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.turns.take(user).await;
        let done = self.worker.run(move |connection| {
            let _turn = turn;
            read(connection)
        });
        done.await
    }
}
