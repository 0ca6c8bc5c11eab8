//! The task service's calls on the store, each one transaction or a load.
//!
//! The service claims its owner once, when it first reaches the store. If it loses that claim, another task service
//! has taken over: it never claims again.

use std::collections::HashMap;

use estimand_runtime::single_writer::StorageError;
use estimand_store::{Claim, Error, StoreUrl, TaskGroup, Worker};

use crate::task::Task;

pub mod rows;

const OWNER: &str = "tasks";

pub struct Storage {
    worker: Worker,
    claim: Option<Claim>,
}

/// Everything that is kept in memory.
pub struct Contents {
    pub tasks: Vec<Task>,
    pub gone: HashMap<String, u32>,
    pub highest: u64,
}

impl Storage {
    pub fn new(url: StoreUrl) -> Self {
        Storage { worker: Worker::start(url, "tasks"), claim: None }
    }

    /// Reads everything, after all that was stored under this claim has taken effect or failed for good. `highest` is the
    /// highest number that was given under it.
    pub async fn load(&mut self, highest: u64) -> Result<Contents, Error> {
        let claim = self.claim.clone();
        let (claim, stored) = self
            .worker
            .run(move |connection| {
                let claim = match claim {
                    Some(claim) => {
                        // A commit whose answer was lost may still be under way, and a plain read would not see it. An
                        // empty write waits for the lock that such a commit holds, and fails if the claim is over.
                        let highest = rows::column(highest);
                        connection.commit_tasks(&claim, &TaskGroup { highest, ..TaskGroup::default() })?;
                        claim
                    }
                    None => {
                        connection.migrate()?;
                        connection.claim(OWNER, 0)?
                    }
                };
                Ok((claim, connection.load_tasks()?))
            })
            .await?;
        let mut events: HashMap<i64, i64> = stored.events.into_iter().collect();
        let tasks: Vec<Task> = stored
            .tasks
            .iter()
            .filter_map(|row| {
                let events = events.remove(&row.number).unwrap_or(0);
                rows::task(row, rows::known(events))
            })
            .collect();
        let gone = stored.gone.into_iter().map(|row| (row.id, rows::count(row.attempt))).collect();
        let given = tasks.iter().map(|task| task.number.0).max().unwrap_or(0);
        let highest = highest.max(rows::known(claim.revision)).max(given);
        self.claim = Some(claim);
        Ok(Contents { tasks, gone, highest })
    }

    /// Stores a change in one transaction.
    pub async fn store(&self, group: TaskGroup) -> Result<(), Error> {
        let Some(claim) = self.claim.clone() else {
            let cause = "nothing was loaded yet".to_owned();
            return Err(Error::Busy { doing: "storing tasks", cause });
        };
        self.worker.run(move |connection| connection.commit_tasks(&claim, &group)).await
    }
}

/// The outcome of a call, as the writer has to know it.
pub fn outcome(error: &Error) -> StorageError {
    let cause = error.to_string();
    match error {
        Error::Fenced { .. } => StorageError::TakenOver(cause),
        Error::Connection { .. } => StorageError::Unknown(cause),
        Error::Busy { .. } | Error::Refused { .. } | Error::Denied { .. } | Error::Url(_) => {
            StorageError::NotStored(cause)
        }
    }
}
