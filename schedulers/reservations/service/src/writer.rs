//! Reservations and credits as the single writer's state: their storage and their publication.

use std::sync::Arc;

use estimand_service::{State, StorageError};

use crate::change::{Change, NAME, Rejection, outcomes};
use crate::shared::Shared;
use crate::storage::{Storage, rows};
use crate::table::Table;

/// How many changes are stored at once.
const GROUP_CHANGES: usize = 256;

/// The state that the writer owns.
pub struct ReservationsState {
    pub shared: Arc<Shared>,
    storage: Storage,
    /// The published table as it is after the changes that are being stored.
    staged: Table,
}

impl ReservationsState {
    pub fn new(shared: Arc<Shared>, storage: Storage) -> Self {
        ReservationsState { shared, storage, staged: Table::default() }
    }

    /// The reservations and credits that requests are decided on.
    pub fn table(&self) -> &Table {
        &self.staged
    }

    pub fn now_us(&self) -> i64 {
        self.shared.clock.now_micros()
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u64 {
        self.shared.now()
    }
}

impl State for ReservationsState {
    type Change = Change;
    type Rejection = Rejection;
    const NAME: &'static str = NAME;
    const SERVICE: &'static str = "reservation service";
    const GROUP: usize = GROUP_CHANGES;

    async fn load(&mut self) -> Result<(), StorageError> {
        let highest = self.staged.highest;
        let table = self.storage.load(highest).await?;
        tracing::info!(reservations = table.len(), "the reservations are loaded");
        self.shared.replace(table.clone());
        self.staged = table;
        Ok(())
    }

    async fn store(&mut self, changes: &[Change]) -> Result<(), StorageError> {
        let group = rows::group(changes, self.staged.highest);
        Ok(self.storage.store(group).await?)
    }

    fn publish(&mut self, changes: &[Change]) {
        self.shared.publish(changes);
    }

    fn took_effect(&self, changes: &[Change]) -> bool {
        let has_entries = changes.iter().flat_map(|change| &change.entries);
        let last = has_entries.map(|entry| entry.number).max();
        let has_bids = changes.iter().flat_map(|change| &change.bids);
        let last_bid = has_bids.map(|bid| bid.number).max();
        let choice = changes.iter().rev().find_map(|change| change.choice);
        last.is_none_or(|last| last <= self.staged.credits.last_entry)
            && last_bid.is_none_or(|last| last <= self.staged.last_bid)
            && choice.is_none_or(|choice| choice == self.staged.choice)
            && outcomes(changes)
                .into_iter()
                .all(|(number, reservation)| self.staged.get(number) == reservation)
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
