//! The things that each user has of those that are kept, counted as tasks come, change and go: tasks that are not over, bytes of
//! documents, bytes of logs. And the bounds of all of them.

use std::collections::{BTreeSet, HashMap};

use estimand_api::share::ShareKind;
use estimand_web::ShareReport;

use crate::core::queue::TaskNumber;
use crate::task::Task;

/// The most tasks that are kept. Beyond that those that are over make room.
pub const MAX_TASKS: usize = 100_000;
/// About the most memory that the documents of tasks take,
pub const MAX_BYTES: u64 = 256 << 20;
/// and the most disk that their logs take, of which each user has a share; tasks without a user have no bound but their own.
pub const MAX_LOG_BYTES: u64 = 16 << 30;

#[derive(Debug, Clone, Default)]
pub struct Holdings {
    by_user: HashMap<String, Holding>,
    bytes: u64,
}

/// The part of one user. Tasks without a user count as those of a user without a name.
#[derive(Debug, Clone, Default)]
pub struct Holding {
    /// Tasks that wait or run.
    pub open: u64,
    pub bytes: u64,
    pub logs: u64,
    over: BTreeSet<TaskNumber>,
}

impl Holding {
    /// The tasks that are over, the oldest first.
    pub fn over(&self) -> impl Iterator<Item = TaskNumber> {
        self.over.iter().copied()
    }
}

impl Holdings {
    /// The bytes of all documents.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn of(&self, user: Option<&str>) -> Option<&Holding> {
        self.by_user.get(user.unwrap_or_default())
    }

    /// Users who have most come first.
    pub fn largest(&self) -> Vec<&Holding> {
        let mut all: Vec<&Holding> = self.by_user.values().collect();
        all.sort_by_key(|holding| std::cmp::Reverse(holding.bytes));
        all
    }

    /// `document` are the bytes of an array's document if the task is the first of it.
    pub fn add(&mut self, task: &Task, document: u64) {
        let bytes = task.bytes() + document;
        let user = task.user().unwrap_or_default();
        if !self.by_user.contains_key(user) {
            self.by_user.insert(user.to_owned(), Holding::default());
        }
        let Some(holding) = self.by_user.get_mut(user) else { return };
        holding.bytes += bytes;
        holding.logs += task.log.bytes;
        match task.state().is_final() {
            true => drop(holding.over.insert(task.number)),
            false => holding.open += 1,
        }
        self.bytes += bytes;
    }

    /// The opposite of adding.
    pub fn remove(&mut self, task: &Task, document: u64) {
        let bytes = task.bytes() + document;
        let user = task.user().unwrap_or_default();
        let Some(holding) = self.by_user.get_mut(user) else { return };
        holding.bytes -= bytes;
        holding.logs -= task.log.bytes;
        match task.state().is_final() {
            true => drop(holding.over.remove(&task.number)),
            false => holding.open -= 1,
        }
        if holding.bytes == 0 {
            self.by_user.remove(user);
        }
        self.bytes -= bytes;
    }

    pub fn report(&self, report: &mut ShareReport) {
        report.bound(ShareKind::Tasks, MAX_TASKS as u64);
        report.bound(ShareKind::Memory, MAX_BYTES);
        report.bound(ShareKind::Logs, MAX_LOG_BYTES);
        report.bound(ShareKind::Priority, 0);
        for (user, holding) in self.by_user.iter().filter(|(user, _)| !user.is_empty()) {
            report.add(user, ShareKind::Tasks, holding.open);
            report.add(user, ShareKind::Memory, holding.bytes);
            report.add(user, ShareKind::Logs, holding.logs);
        }
    }
}
