//! The registry's calls on the store, each one transaction or a load.

use std::collections::HashMap;

use estimand_store::{Claim, Connection, Error, OwnedWorker, RegistrationChange, RegistrationRow, StoreUrl};

use crate::core::Edit;
use rows::known;

pub mod rows;

const OWNER: &str = "registry";

pub struct Storage(OwnedWorker);

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
        Storage(OwnedWorker::start(url, OWNER))
    }

    /// Reads everything, after all that was stored has taken effect or failed for good.
    pub async fn load(&mut self) -> Result<Contents, Error> {
        let read = |connection: &mut Connection| {
            let registrations = connection.load_registrations()?;
            Ok((registrations, connection.last_versions()?, connection.load_bindings()?))
        };
        let ((rows, versions, bindings), _) = self.0.load(read).await?;
        let versions = versions.into_iter().map(|(name, version)| (name, known(version))).collect();
        let bound = bindings.into_iter().map(|row| row.data_name).collect();
        Ok(Contents { rows, versions, bound })
    }

    /// Stores changes together with their entries in the audit trail, in one transaction.
    pub async fn store(&self, edits: &[Edit]) -> Result<(), Error> {
        let changes: Vec<RegistrationChange> = edits.iter().map(rows::change_of).collect();
        let write = move |connection: &mut Connection, claim: &Claim| {
            connection.change_registrations(claim, &changes)
        };
        self.0.write("storing registrations", write).await
    }
}
