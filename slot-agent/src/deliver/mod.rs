//! The way of values from the slots to the data service: [`Sequencer`] numbers them, [`Outbox`] delivers them.
//!
//! Slots [`put`](Outbox::put) writes that already carry their order (epoch and sequence); that never blocks
//! and never fails. One task ([`Outbox::run`]) sends them in batches, one at a time and oldest first. A batch
//! whose outcome is unknown is sent again as it was: the data service takes nothing twice that carries the
//! same order, so each write has its effect once. Nothing is left out because something newer follows, since
//! a history may want it.
//!
//! Values that cannot be delivered go to a bounded spool on disk within a second. So the agent that is killed loses
//! at most what it got within its last second; one that is asked to stop loses nothing that its disk can hold.
//! Something is dropped only where a bound is reached: then the oldest goes, and it is counted and said.
//! Nothing here knows how a value came to be, and no disk is ever touched on a worker of the async runtime.

mod courier;
mod line;
mod outbox;
mod parcel;
mod sequencer;
mod spool;
mod state;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use estimand_client as client;

pub use outbox::{Outbox, OutboxOptions, Setback};
pub use parcel::Refusal;
pub use sequencer::Sequencer;

/// The options of a client for [`Outbox::run`]: one attempt, because the outbox has a pause of its own
/// between attempts, and a limit after which an answer is not waited for any more.
pub fn client_options(credentials: &client::Credentials) -> client::Options {
    client::Options {
        connect_timeout: Duration::from_secs(2),
        read_timeout: Duration::from_secs(15),
        total_timeout: Duration::from_secs(15),
        attempts: 1,
        retry_within: Duration::ZERO,
        credentials: credentials.clone(),
        ..client::Options::default()
    }
}

/// The folder of the spool or the mark of the sequencer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("the folder {} cannot be made: {source}", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("the folder {} cannot be listed: {source}", path.display())]
    List { path: PathBuf, source: std::io::Error },
    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}
