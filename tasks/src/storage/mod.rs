//! The task service's calls on the store, each one transaction or a load.

use std::collections::{BTreeMap, HashMap};

use estimand_store::{Claim, Connection, Error, GoneTaskRow, OwnedWorker, StoreUrl, StoredTasks, TaskGroup};

use crate::images::Images;
use crate::table::LastAttempt;
use crate::task::Task;
use promises::LoadedPromises;

pub mod images;
pub mod progress;
pub mod promises;
pub mod rows;

const OWNER: &str = "tasks";

pub struct Storage(OwnedWorker);

/// Everything that is kept in memory.
pub struct Contents {
    pub tasks: Vec<Task>,
    pub gone: HashMap<String, LastAttempt>,
    pub highest: u64,
    pub feed: FeedExtent,
    pub images: Images,
    pub promises: LoadedPromises,
}

/// The events that are kept: those after `base` up to `newest`.
#[derive(Debug, Clone, Default)]
pub struct FeedExtent {
    pub base: u64,
    pub newest: u64,
    /// How far readers are, by name.
    pub cursors: HashMap<String, u64>,
}

impl Storage {
    pub fn new(url: StoreUrl) -> Self {
        Storage(OwnedWorker::start(url, OWNER))
    }

    /// Reads everything, after all that was stored has taken effect or failed for good. `highest` is the highest number
    /// that was given since the start.
    pub async fn load(&mut self, highest: u64) -> Result<Contents, Error> {
        let ((stored, tasks), before) = self.0.load(read).await?;
        let last = |row: &GoneTaskRow| LastAttempt { number: rows::count(row.attempt), ended_at: row.at };
        let gone = stored.gone.into_iter().map(|row| (row.id.clone(), last(&row))).collect();
        let newest = tasks.iter().map(|task| task.number.0).max().unwrap_or(0);
        let highest = highest.max(rows::known(before)).max(newest);
        let (images, promises) = (images::images(&stored.images.images), promises::loaded(stored.promises));
        Ok(Contents { tasks, gone, highest, feed: rows::feed_extent(stored.feed), images, promises })
    }

    /// Stores a change in one transaction.
    pub async fn store(&self, group: TaskGroup) -> Result<(), Error> {
        let write = move |connection: &mut Connection, claim: &Claim| connection.commit_tasks(claim, &group);
        self.0.write("storing tasks", write).await
    }
}

/// Each row becomes a task before the next ones are read, so that a start takes no more memory than the tasks do.
fn read(connection: &mut Connection) -> Result<(StoredTasks, Vec<Task>), Error> {
    let mut stored = connection.load_tasks()?;
    let mut events: HashMap<i64, i64> = std::mem::take(&mut stored.events).into_iter().collect();
    let given = images::of_tasks(&stored.images.of_tasks);
    let (mut arrays, mut tasks) = (BTreeMap::new(), Vec::new());
    connection.each_task_array(|row| arrays.extend(rows::array(&row, &given)))?;
    connection.each_task(|row| {
        let events = events.remove(&row.number).unwrap_or(0);
        tasks.extend(rows::task(&row, rows::known(events), &arrays, &given));
    })?;
    Ok((stored, tasks))
}
