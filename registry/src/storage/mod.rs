//! The registry's calls on the store, each one transaction or a load.
//!
//! The registry claims its owner once, when it first reaches the store. If it loses that claim, another
//! registry has taken over: it never claims again.

use std::collections::HashMap;

use estimand_runtime::single_writer::StorageError;
use estimand_store::{Claim, Error, Group, RegistrationChange, RegistrationRow, StoreUrl, Worker};

use crate::core::Edit;
use rows::known;

pub mod rows;

const OWNER: &str = "registry";

pub struct Storage {
    worker: Worker,
    claim: Option<Claim>,
}

/// Everything that is stored.
pub struct Contents {
    pub rows: Vec<RegistrationRow>,
    /// The highest version that each name ever had.
    pub versions: HashMap<String, u64>,
    /// Names that are bound, as far as this store knows.
    pub bound: Vec<String>,
}

impl Storage {
    pub fn new(url: StoreUrl) -> Self {
        Storage { worker: Worker::start(url, "registry"), claim: None }
    }

    /// Reads everything, after all that was stored under this claim has taken effect or failed for good.
    pub async fn load(&mut self) -> Result<Contents, Error> {
        let claim = self.claim.clone();
        let (claim, rows, versions, bindings) = self
            .worker
            .run(move |connection| {
                let claim = match claim {
                    Some(claim) => {
                        // A commit whose answer was lost may still be under way, and a plain read would not see
                        // it. An empty write waits for the lock that such a commit holds, and fails if
                        // the claim is over.
                        let nothing = Group { revision: claim.revision, ..Group::default() };
                        connection.commit(&claim, &nothing)?;
                        claim
                    }
                    None => {
                        connection.migrate()?;
                        connection.claim(OWNER, 0)?
                    }
                };
                let registrations = connection.load_registrations()?;
                Ok((claim, registrations, connection.last_versions()?, connection.load_bindings()?))
            })
            .await?;
        self.claim = Some(claim);
        let versions = versions.into_iter().map(|(name, version)| (name, known(version))).collect();
        let bound = bindings.into_iter().map(|row| row.data_name).collect();
        Ok(Contents { rows, versions, bound })
    }

    /// Stores changes together with their entries in the audit trail, in one transaction.
    pub async fn store(&self, edits: &[Edit]) -> Result<(), Error> {
        let Some(claim) = self.claim.clone() else {
            let cause = "nothing was loaded yet".to_owned();
            return Err(Error::Busy { doing: "storing registrations", cause });
        };
        let changes: Vec<RegistrationChange> = edits.iter().map(rows::change_of).collect();
        self.worker.run(move |connection| connection.change_registrations(&claim, &changes)).await
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
