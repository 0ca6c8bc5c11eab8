//! The tuning service's calls on the store, each one transaction or a load.

use estimand_store::{Claim, Connection, Error, OwnedWorker, StoreUrl, StudyGroup};

use crate::table::Table;

pub mod rows;

const OWNER: &str = "tuning";

pub struct Storage(OwnedWorker);

impl Storage {
    pub fn new(url: StoreUrl) -> Self {
        Storage(OwnedWorker::start(url, OWNER))
    }

    /// Reads everything, after all that was stored has taken effect or failed for good. `highest` is the highest number
    /// that was given since the start, and `now` the instant from which on trials are listened to.
    pub async fn load(&mut self, highest: u64, now: i64) -> Result<Table, Error> {
        let (stored, before) = self.0.load(Connection::load_studies).await?;
        Ok(rows::table(stored, highest.max(rows::known(before)), now))
    }

    /// Stores a change in one transaction.
    pub async fn store(&self, group: StudyGroup) -> Result<(), Error> {
        let write =
            move |connection: &mut Connection, claim: &Claim| connection.commit_studies(claim, &group);
        self.0.write("storing studies", write).await
    }
}
