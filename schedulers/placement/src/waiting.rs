//! The tasks that wait for a unit of their promise.

use std::collections::{BTreeSet, HashMap};

use super::queue::TaskNumber;
use super::request::Request;
use super::task::TaskView;

#[derive(Debug, Default)]
pub struct UnitQueue {
    waiting: HashMap<TaskNumber, UnitWaiter>,
    by_promise: HashMap<String, BTreeSet<TaskNumber>>,
}

#[derive(Debug)]
pub struct UnitWaiter {
    pub promise: String,
    pub request: Request,
    pub priority: i32,
}

impl UnitQueue {
    pub fn push(&mut self, task: &TaskView<'_>, promise: &str, request: Request) {
        self.remove(task.number);
        let waiter = UnitWaiter { promise: promise.to_owned(), request, priority: task.priority };
        self.waiting.insert(task.number, waiter);
        self.by_promise.entry(promise.to_owned()).or_default().insert(task.number);
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn get(&self, task: TaskNumber) -> Option<&UnitWaiter> {
        self.waiting.get(&task)
    }

    /// The tasks that wait for units of a promise.
    pub fn of(&self, promise: &str) -> impl Iterator<Item = TaskNumber> {
        self.by_promise.get(promise).into_iter().flatten().copied()
    }

    pub fn remove(&mut self, task: TaskNumber) -> Option<UnitWaiter> {
        let waiter = self.waiting.remove(&task)?;
        if let Some(tasks) = self.by_promise.get_mut(&waiter.promise) {
            tasks.remove(&task);
            if tasks.is_empty() {
                self.by_promise.remove(&waiter.promise);
            }
        }
        Some(waiter)
    }
}
