//! The tasks as the single writer's state: their storage, their publication, and the consequences of a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_capacity::Tick;
use estimand_service::{State, StorageError};
use estimand_store::{LOG_PIECE, TaskGroup};
use estimand_web::Users;

use crate::change::{self, Change, NAME, Rejection};
use crate::core::promises::Promises;
use crate::core::queue::TaskNumber;
use crate::feed::{self, PUBLISHER};
use crate::progress;
use crate::shared::Shared;
use crate::storage::promises::LoadedPromises;
use crate::storage::{Storage, images, progress as progress_rows, rows};
use crate::table::TaskTable;
use crate::task::{TASK_BYTES, Task, tick};

/// About how many bytes are stored at once.
const GROUP_BYTES: usize = 4 << 20;
/// A row of a task or a line, beside the line's text.
const ROW_BYTES: usize = 512;

/// The state that the writer owns.
pub struct TasksState {
    pub shared: Arc<Shared>,
    pub users: Users,
    storage: Storage,
    /// The published tasks as they are after the changes that are being stored.
    staged: TaskTable,
}

impl TasksState {
    pub fn new(shared: Arc<Shared>, users: Users, storage: Storage) -> Self {
        TasksState { shared, users, storage, staged: TaskTable::default() }
    }

    /// The tasks that requests are decided on.
    pub fn table(&self) -> &TaskTable {
        &self.staged
    }

    /// The present tick of the ledger of promises.
    pub fn tick(&self) -> Tick {
        tick(self.now_us())
    }

    pub fn now_us(&self) -> i64 {
        self.shared.clock.now_micros()
    }
}

impl State for TasksState {
    type Change = Change;
    type Rejection = Rejection;
    const NAME: &'static str = NAME;
    const SERVICE: &'static str = "task service";
    const GROUP: usize = GROUP_BYTES;

    async fn load(&mut self) -> Result<(), StorageError> {
        let contents = self.storage.load(self.staged.highest).await?;
        tracing::info!(tasks = contents.tasks.len(), "the tasks are loaded");
        let feed = &contents.feed;
        self.shared.feed.begin(feed.base, feed.newest);
        let (base, newest) = progress_rows::extent(feed);
        self.shared.progress.begin(base, newest);
        if self.shared.publishes {
            self.shared.feed.count_on(feed.cursors.get(PUBLISHER).copied().unwrap_or(0));
            self.shared.publishing.ask();
        }
        let LoadedPromises { promises, revision, base } = contents.promises;
        self.staged = self.shared.table.look(|before| {
            let mut table = TaskTable::new(before, contents.tasks, contents.gone, contents.highest);
            table.set_promises(Promises::new(&before.promises, promises, revision, base));
            table
        });
        self.staged.images = contents.images;
        self.shared.replace(self.staged.clone());
        Ok(())
    }

    async fn store(&mut self, changes: &[Change]) -> Result<(), StorageError> {
        let events = feed::events_of(changes, self.shared.feed.newest());
        let removed_to = self.shared.feed.removal(events.len() as u64);
        let mut feed = rows::feed_group(&events, removed_to, feed::cursor_of(changes));
        let reports = progress::reports_of(changes, self.shared.progress.newest());
        let removed_to = self.shared.progress.removal(reports.len() as u64);
        feed.cursors.extend(progress_rows::cursors(&reports, removed_to));
        let progress = progress_rows::group(changes, &reports, removed_to);
        let group = TaskGroup { feed, progress, images: images::group(changes), ..rows::group(changes) };
        Ok(self.storage.store(group).await?)
    }

    fn publish(&mut self, changes: &[Change]) {
        self.shared.publish(changes, &self.staged);
    }

    fn took_effect(&self, changes: &[Change]) -> bool {
        let is_so = |(number, task): (TaskNumber, Option<&Task>)| {
            self.staged.get(number).map(|stored| &**stored) == task
        };
        let images: BTreeMap<&str, _> = changes
            .iter()
            .filter_map(|change| change.image.as_ref())
            .map(|image| (image.name.as_str(), image.after.as_ref()))
            .collect();
        let revision = changes.iter().map(|change| change.promises.revision).max().unwrap_or(0);
        self.staged.promises.revision >= revision
            && change::outcomes(changes).into_iter().all(is_so)
            && images.into_iter().all(|(name, after)| self.staged.images.get(name) == after)
    }

    fn weight(change: &Change) -> usize {
        let lines = change.edits.iter().flat_map(|edit| &edit.lines).map(|line| ROW_BYTES + line.size());
        let reports = change.edits.iter().flat_map(|edit| &edit.reports);
        let reports =
            reports.map(|report| ROW_BYTES + usize::try_from(report.weight()).unwrap_or(usize::MAX));
        let other = usize::from(change.image.is_some()) + change.promises.promises.len();
        let pieces = change.shortened.len() * usize::try_from(LOG_PIECE).unwrap_or(usize::MAX);
        let rows = change.edits.len() + change.deleted.len() + change.forgotten.len() + other + pieces;
        // With each change of a task its document is written again.
        let tasks = change.edits.iter().map(|edit| edit.after.bytes() - TASK_BYTES);
        let arrays = change.new_arrays.iter().map(|array| array.document.weight());
        let documents = usize::try_from(tasks.chain(arrays).sum::<u64>()).unwrap_or(usize::MAX);
        rows * ROW_BYTES + lines.sum::<usize>() + reports.sum::<usize>() + documents
    }

    fn stage(&mut self, change: &Change) {
        self.staged.apply(change);
    }

    fn unstage(&mut self, changes: &[Change]) {
        let numbers = change::numbers(changes);
        let promises = change::promise_numbers(changes);
        self.shared.table.look(|published| {
            self.staged.follow(published, &numbers);
            self.staged.follow_forgotten(published, changes);
            self.staged.follow_promises(published, &promises);
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "writer_tests.rs"]
mod tests;
