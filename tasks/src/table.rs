//! All tasks in memory, with the indices by which they are found. What is published equals what is stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::core::queue::TaskNumber;
use crate::task::Task;

#[derive(Debug, Default)]
pub struct TaskTable {
    tasks: BTreeMap<TaskNumber, Arc<Task>>,
    by_id: HashMap<String, TaskNumber>,
    by_key: HashMap<String, TaskNumber>,
    by_node: HashMap<String, BTreeSet<TaskNumber>>,
    /// The last attempt of deleted tasks, by id.
    pub gone: HashMap<String, u32>,
    /// The highest number that a task ever had.
    pub highest: u64,
    /// Grows with each change of what any node is told.
    generation: u64,
    /// The generation at which the tasks were loaded, and those of nodes that changed since.
    loaded_at: u64,
    generations: HashMap<String, u64>,
}

impl TaskTable {
    /// The tasks that were loaded, after those of a table that was not certain any more.
    pub fn new(before: &TaskTable, tasks: Vec<Task>, gone: HashMap<String, u32>, highest: u64) -> TaskTable {
        let generation = before.generation + 1;
        let mut table =
            TaskTable { gone, highest, generation, loaded_at: generation, ..TaskTable::default() };
        tasks.into_iter().for_each(|task| table.put(Arc::new(task)));
        table.generations.clear();
        table
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn get(&self, number: TaskNumber) -> Option<&Arc<Task>> {
        self.tasks.get(&number)
    }

    pub fn named(&self, id: &str) -> Option<&Arc<Task>> {
        self.tasks.get(self.by_id.get(id)?)
    }

    pub fn of_key(&self, key: &str) -> Option<&Arc<Task>> {
        self.tasks.get(self.by_key.get(key)?)
    }

    /// The oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<Task>> {
        self.tasks.values()
    }

    /// Those before a number, the newest first.
    pub fn before(&self, number: Option<TaskNumber>) -> impl Iterator<Item = &Arc<Task>> {
        let end = number.unwrap_or(TaskNumber(u64::MAX));
        self.tasks.range(..end).rev().map(|(_, task)| task)
    }

    /// The tasks of which something may be on a node.
    pub fn on_node(&self, node: &str) -> impl Iterator<Item = &Arc<Task>> {
        let numbers = self.by_node.get(node).into_iter().flatten();
        numbers.filter_map(|number| self.tasks.get(number))
    }

    /// The nodes on which something may be.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.by_node.keys().map(String::as_str)
    }

    /// Changes whenever what the node is told does.
    pub fn generation(&self, node: &str) -> u64 {
        self.generations.get(node).copied().unwrap_or(self.loaded_at)
    }

    pub fn put(&mut self, task: Arc<Task>) {
        let before = self.tasks.get(&task.number).cloned();
        if before.as_ref().and_then(|before| before.listing()) != task.listing() {
            before.iter().for_each(|before| self.unlist(before));
            self.list(&task);
        }
        self.by_id.insert(task.id.clone(), task.number);
        if let Some(key) = &task.key {
            self.by_key.insert(key.clone(), task.number);
        }
        self.highest = self.highest.max(task.number.0);
        self.tasks.insert(task.number, task);
    }

    pub fn remove(&mut self, number: TaskNumber) {
        let Some(task) = self.tasks.remove(&number) else { return };
        self.unlist(&task);
        self.by_id.remove(&task.id);
        if let Some(key) = &task.key {
            self.by_key.remove(key);
        }
        if task.progress.attempt > 0 {
            self.gone.insert(task.id.clone(), task.progress.attempt);
        }
    }

    fn list(&mut self, task: &Task) {
        if let Some(node) = task.placed_on() {
            self.by_node.entry(node.to_owned()).or_default().insert(task.number);
            self.renew(node);
        }
    }

    fn unlist(&mut self, task: &Task) {
        let Some(node) = task.placed_on() else { return };
        if let Some(numbers) = self.by_node.get_mut(node) {
            numbers.remove(&task.number);
            if numbers.is_empty() {
                self.by_node.remove(node);
            }
            self.renew(node);
        }
    }

    fn renew(&mut self, node: &str) {
        self.generation += 1;
        self.generations.insert(node.to_owned(), self.generation);
    }
}
