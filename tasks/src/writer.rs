//! The tasks as the single writer's state: their storage, their publication, and the consequences of a change.

use std::sync::Arc;

use estimand_runtime::single_writer::{State, StorageError};

use crate::change::{Change, Rejection, TAKEN_OVER};
use crate::shared::Shared;
use crate::storage::{self, Storage, rows};
use crate::table::TaskTable;

/// The state that the writer owns.
pub struct TasksState {
    pub shared: Arc<Shared>,
    storage: Storage,
}

impl TasksState {
    pub fn new(shared: Arc<Shared>, storage: Storage) -> Self {
        TasksState { shared, storage }
    }

    /// Looks at the tasks. Only for a moment: readers do the same.
    pub fn table<T>(&self, look: impl FnOnce(&TaskTable) -> T) -> T {
        self.shared.table(look)
    }

    pub fn now_us(&self) -> i64 {
        self.shared.clock.now_micros()
    }
}

impl State for TasksState {
    type Change = Change;
    type Rejection = Rejection;
    const NAME: &'static str = "the tasks";
    const TAKEN_OVER: &'static str = TAKEN_OVER;

    async fn load(&mut self) -> Result<(), StorageError> {
        let highest = self.table(|table| table.highest);
        let contents = self.storage.load(highest).await.map_err(|error| storage::outcome(&error))?;
        tracing::info!(tasks = contents.tasks.len(), "the tasks are loaded");
        self.shared.replace(|before| TaskTable::new(before, contents.tasks, contents.gone, contents.highest));
        Ok(())
    }

    async fn store(&mut self, change: &Change) -> Result<(), StorageError> {
        self.storage.store(rows::group(change)).await.map_err(|error| storage::outcome(&error))
    }

    fn publish(&mut self, change: &Change) {
        self.shared.publish(change);
    }

    /// They are one transaction, so one of them says it for all.
    fn took_effect(&self, change: &Change) -> bool {
        self.table(|table| {
            change
                .edits
                .iter()
                .all(|edit| table.get(edit.after.number).is_some_and(|task| **task == edit.after))
                && change.deleted.iter().all(|task| table.get(task.number).is_none())
        })
    }
}
