//! Studies as the single writer's state: their storage and their publication.

use std::sync::Arc;

use estimand_service::{State, StorageError};

use crate::change::{Change, NAME, Rejection};
use crate::shared::Shared;
use crate::storage::{Storage, rows};
use crate::table::Table;

/// Changes that are stored at once.
const GROUP_CHANGES: usize = 256;

/// The state that the writer owns.
pub struct StudiesState {
    pub shared: Arc<Shared>,
    storage: Storage,
    /// The published table as it is after the changes that are being stored.
    staged: Table,
}

impl StudiesState {
    pub fn new(shared: Arc<Shared>, storage: Storage) -> Self {
        StudiesState { shared, storage, staged: Table::default() }
    }

    /// The studies that requests are decided on.
    pub fn table(&self) -> &Table {
        &self.staged
    }

    #[cfg(test)]
    pub fn set_table(&mut self, table: Table) {
        self.staged = table;
    }

    pub fn now_us(&self) -> i64 {
        self.shared.clock.now_micros()
    }
}

impl State for StudiesState {
    type Change = Change;
    type Rejection = Rejection;
    const NAME: &'static str = NAME;
    const SERVICE: &'static str = "tuning service";
    const GROUP: usize = GROUP_CHANGES;

    async fn load(&mut self) -> Result<(), StorageError> {
        let table = self.storage.load(self.staged.highest, self.now_us()).await?;
        tracing::info!(studies = table.len(), "the studies are loaded");
        self.shared.replace(table.clone());
        self.staged = table;
        Ok(())
    }

    async fn store(&mut self, changes: &[Change]) -> Result<(), StorageError> {
        Ok(self.storage.store(rows::group(changes, &self.staged)).await?)
    }

    fn publish(&mut self, changes: &[Change]) {
        self.shared.publish(changes);
    }

    fn took_effect(&self, changes: &[Change]) -> bool {
        self.staged.has(changes)
    }

    fn stage(&mut self, change: &Change) {
        self.staged.apply(change);
    }

    fn unstage(&mut self, _: &[Change]) {
        let highest = self.staged.highest;
        self.staged = self.shared.table.look(Table::clone);
        self.staged.highest = highest;
    }
}
