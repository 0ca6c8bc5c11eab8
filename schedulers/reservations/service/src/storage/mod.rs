//! The reservation service's calls on the store, each one transaction or a load.

use estimand_store::{Claim, Connection, Error, OwnedWorker, ReservationGroup, StoreUrl};

use crate::table::Table;

pub mod rows;

const OWNER: &str = "reservations";

pub struct Storage(OwnedWorker);

impl Storage {
    pub fn new(url: StoreUrl) -> Self {
        Storage(OwnedWorker::start(url, OWNER))
    }

    /// Reads everything, after all that was stored has taken effect or failed for good. `highest` is the highest number
    /// that was given since the start.
    pub async fn load(&mut self, highest: u64) -> Result<Table, Error> {
        let (stored, before) = self.0.load(Connection::load_reservations).await?;
        Ok(rows::table(stored, highest.max(rows::known(before))))
    }

    /// Stores a change in one transaction.
    pub async fn store(&self, group: ReservationGroup) -> Result<(), Error> {
        let write =
            move |connection: &mut Connection, claim: &Claim| connection.commit_reservations(claim, &group);
        self.0.write("storing reservations", write).await
    }
}
