//! Ends a container that runs, when that is wished: through its engine, and without it while that is away.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Complaints;
use crate::containers::engine::{Engine, EngineError};
use crate::containers::{Place, processes};

/// How long the engine may take to pass a signal on.
const SIGNAL_WITHIN: Duration = Duration::from_secs(2);
/// Between attempts.
const EVERY: Duration = Duration::from_millis(500);

/// The wish of the watch for a container. A later one includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    GoOn,
    /// It is to write down how far it is, and to end after that.
    Checkpoint,
    End,
    Kill,
}

/// Returns when it is to end.
pub async fn until_wished(mut wished: watch::Receiver<Wish>) {
    if wished.wait_for(|wish| *wish > Wish::GoOn).await.is_err() {
        pending::<()>().await;
    }
}

pub struct Ender {
    place: Place,
    wished: watch::Receiver<Wish>,
    /// The container's id, once it is known.
    id: Arc<OnceLock<String>>,
}

impl Ender {
    pub fn new(place: Place, wished: watch::Receiver<Wish>, id: Arc<OnceLock<String>>) -> Self {
        Ender { place, wished, id }
    }

    /// Goes on until the one who follows the container has seen its end, and drops this.
    pub async fn serve(self) -> Infallible {
        until_wished(self.wished.clone()).await;
        let mut asked = Wish::GoOn;
        let mut complaints = Complaints::default();
        loop {
            let wish = *self.wished.borrow();
            let done = match wish {
                Wish::Kill => self.kill().await,
                wish if wish <= asked => Ok(()),
                // It may be about to start.
                Wish::Checkpoint => self.signal("SIGUSR1").await.map(|()| asked = wish),
                Wish::GoOn | Wish::End => self.signal("SIGTERM").await.map(|()| asked = Wish::End),
            };
            if let Err(error) = done {
                complaints.say(&error);
            }
            let mut wished = self.wished.clone();
            wished.mark_unchanged();
            tokio::select! {
                () = sleep(EVERY) => {}
                Ok(()) = wished.changed() => {}
            }
        }
    }

    /// The processes themselves first: they may not outlive a lease because their engine is away.
    async fn kill(&self) -> Result<(), EngineError> {
        match self.id.get() {
            Some(id) if processes::kill_all(id) => Ok(()),
            _ => self.signal("SIGKILL").await,
        }
    }

    async fn signal(&self, signal: &str) -> Result<(), EngineError> {
        let signalling =
            async { Engine::connect(&self.place.socket).await?.signal(&self.place.name, signal).await };
        let late = |_| Err(EngineError::Away(format!("no answer within {SIGNAL_WITHIN:?}")));
        timeout(SIGNAL_WITHIN, signalling).await.unwrap_or_else(late)
    }
}
