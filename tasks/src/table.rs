//! All tasks in memory, with the indices by which they are found. What is published equals what is stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_api::promise::PromiseEnd;
use estimand_api::task_document::{TaskDocument, array_member};

use crate::change::Change;
use crate::core::Millis;
use crate::core::book::Book;
use crate::core::promise::Promise;
use crate::core::promises::Promises;
use crate::core::queue::TaskNumber;
use crate::core::usage::Tally;
use crate::holdings::Holdings;
use crate::images::Images;
use crate::task::{Array, Task};

#[derive(Debug, Clone, Default)]
pub struct TaskTable {
    tasks: BTreeMap<TaskNumber, Arc<Task>>,
    /// Those of which a task is kept.
    arrays: BTreeMap<TaskNumber, KeptArray>,
    /// Tasks and arrays; so in `by_key`.
    by_id: HashMap<String, TaskNumber>,
    by_key: HashMap<String, TaskNumber>,
    by_node: HashMap<String, BTreeSet<TaskNumber>>,
    /// The tasks that wait for the end of each task or array.
    followers: HashMap<TaskNumber, BTreeSet<TaskNumber>>,
    pub images: Images,
    /// The tasks on each promise that are not over.
    by_promise: HashMap<String, BTreeSet<TaskNumber>>,
    pub promises: Promises,
    /// The nodes, the promises that live and the placed tasks, with what is free over time.
    pub book: Book,
    pub holdings: Holdings,
    /// The last attempts of deleted tasks, by id.
    pub gone: HashMap<String, LastAttempt>,
    /// The highest number that a task ever had.
    pub highest: u64,
    /// Grows with each change of what any node is told.
    generation: u64,
    /// The generation at which the tasks were loaded, and those of nodes that changed since.
    loaded_at: u64,
    generations: HashMap<String, u64>,
}

/// The last attempt at a task that was deleted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastAttempt {
    pub number: u32,
    /// Microseconds since 1970.
    pub ended_at: i64,
}

#[derive(Debug, Clone)]
struct KeptArray {
    array: Arc<Array>,
    /// How many of its tasks are kept, and how many of those are not over.
    kept: u32,
    open: u32,
}

/// A task or an array: both have an id.
#[derive(Debug, Clone)]
pub enum Named {
    Task(Arc<Task>),
    Array(Arc<Array>),
}

impl Named {
    pub fn id(&self) -> &str {
        match self {
            Named::Task(task) => &task.id,
            Named::Array(array) => &array.id,
        }
    }

    pub fn number(&self) -> TaskNumber {
        match self {
            Named::Task(task) => task.number,
            Named::Array(array) => array.number,
        }
    }

    /// The task that it is; an array is none.
    pub fn task(self) -> Result<Arc<Task>, Problem> {
        match self {
            Named::Task(task) => Ok(task),
            Named::Array(array) => Err(Problem::conflict(format!(
                "`{}` is an array: each of its tasks is one, such as `{}`",
                array.id,
                array_member(&array.id, 0)
            ))),
        }
    }

    pub fn document(&self) -> &TaskDocument {
        match self {
            Named::Task(task) => &task.document,
            Named::Array(array) => &array.document,
        }
    }
}

impl TaskTable {
    /// The tasks that were loaded, after those of a table that was not certain any more.
    pub fn new(
        before: &TaskTable,
        tasks: Vec<Task>,
        gone: HashMap<String, LastAttempt>,
        highest: u64,
    ) -> TaskTable {
        let generation = before.generation + 1;
        let mut table =
            TaskTable { gone, highest, generation, loaded_at: generation, ..TaskTable::default() };
        tasks.into_iter().for_each(|task| table.put(Arc::new(task)));
        table.generations.clear();
        table
    }

    /// Has the promises that were loaded.
    pub fn set_promises(&mut self, promises: Promises) {
        self.book.follow_all(&promises);
        self.promises = promises;
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

    pub fn array(&self, id: &str) -> Option<&Arc<Array>> {
        self.arrays.get(self.by_id.get(id)?).map(|kept| &kept.array)
    }

    /// The task or array of this id.
    pub fn find(&self, id: &str) -> Option<Named> {
        self.numbered(*self.by_id.get(id)?)
    }

    pub fn of_key(&self, key: &str) -> Option<Named> {
        self.numbered(*self.by_key.get(key)?)
    }

    fn numbered(&self, number: TaskNumber) -> Option<Named> {
        let task = self.tasks.get(&number).cloned().map(Named::Task);
        task.or_else(|| self.arrays.get(&number).map(|kept| Named::Array(Arc::clone(&kept.array))))
    }

    pub fn is_free(&self, id: &str) -> bool {
        !self.by_id.contains_key(id)
    }

    /// The tasks of an array that are kept, in the order of their index.
    pub fn of_array(&self, array: &Array) -> impl Iterator<Item = &Arc<Task>> {
        self.tasks.range(array.numbers()).map(|(_, task)| task)
    }

    pub fn kept_of_array(&self, number: TaskNumber) -> u32 {
        self.arrays.get(&number).map_or(0, |array| array.kept)
    }

    /// How many tasks of an array are not over.
    pub fn open_of_array(&self, number: TaskNumber) -> u32 {
        self.arrays.get(&number).map_or(0, |array| array.open)
    }

    /// The tasks that wait for the end of a task or array.
    pub fn followers(&self, number: TaskNumber) -> impl Iterator<Item = TaskNumber> {
        self.followers.get(&number).into_iter().flatten().copied()
    }

    /// The tasks on a promise that are not over.
    pub fn of_promise(&self, id: &str) -> impl Iterator<Item = TaskNumber> {
        self.by_promise.get(id).into_iter().flatten().copied()
    }

    pub fn open_on(&self, promise: &Promise) -> impl Iterator<Item = &Arc<Task>> {
        self.of_promise(&promise.id).filter_map(|number| self.get(number))
    }

    /// The usage of a promise by its tasks, also by those that are not over, and how many of these there are.
    pub fn usage_of(&self, promise: &Promise, now: Millis) -> (Tally, u32) {
        let mut tally = promise.tally;
        let mut open = 0;
        for task in self.open_on(promise) {
            open += 1;
            if let Some(term) = task.term(&self.promises) {
                tally.count(&task.progress.usage.so_far(&task.progress, now, &term));
            }
        }
        (tally, open)
    }

    /// The tasks that are to be asked to end, since their promise is about to be over.
    pub fn leaving(&self, now: Millis) -> impl Iterator<Item = &Arc<Task>> {
        let numbers = self.promises.leaving(now).flat_map(|promise| self.of_promise(&promise.id));
        numbers.filter_map(|number| self.tasks.get(&number)).filter(|task| !task.progress.is_stopping())
    }

    /// Some promise or its tasks are due.
    pub fn is_due(&self, now: Millis) -> bool {
        self.promises.is_due(now.tick()) || self.leaving(now).next().is_some()
    }

    /// The end of a task's promise, as its node is told it at this moment.
    pub fn promise_end_of(&self, task: &Task, now: Millis) -> Option<PromiseEnd> {
        self.promises.find(task.document.promise.as_ref()?)?.end_from(now, task.checkpoint_grace())
    }

    /// The oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<Task>> {
        self.tasks.values()
    }

    /// Those with such numbers, the newest first.
    pub fn newest(&self, first: TaskNumber, end: TaskNumber) -> impl Iterator<Item = &Arc<Task>> {
        self.tasks.range(first.min(end)..end).rev().map(|(_, task)| task)
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

    /// Shows what a change makes of it.
    pub fn apply(&mut self, change: &Change) {
        self.highest = self.highest.max(change.highest);
        change.image.iter().for_each(|image| self.images.apply(image));
        change.deleted.iter().for_each(|task| self.remove(task.number));
        for id in &change.forgotten {
            self.gone.remove(id);
        }
        change.edits.iter().for_each(|edit| self.put(Arc::new(edit.after.clone())));
        self.promises.apply(&change.promises);
        self.book.apply(&change.promises);
        change.promises.promises.iter().for_each(|promise| self.renew_nodes_of(promise));
    }

    /// Has what another table has of these tasks, and its images.
    pub fn follow(&mut self, other: &TaskTable, numbers: &BTreeSet<TaskNumber>) {
        self.highest = self.highest.max(other.highest);
        self.images.clone_from(&other.images);
        let (kept, gone): (Vec<TaskNumber>, Vec<TaskNumber>) =
            numbers.iter().partition(|number| other.get(**number).is_some());
        // An id may have gone from one to another.
        gone.into_iter().for_each(|number| self.remove(number));
        kept.into_iter().filter_map(|number| other.get(number)).for_each(|task| self.put(Arc::clone(task)));
    }

    /// Has the last attempts that another table has, of the tasks that changes forget.
    pub fn follow_forgotten(&mut self, other: &TaskTable, changes: &[Change]) {
        for id in changes.iter().flat_map(|change| &change.forgotten) {
            let last = other.gone.get(id).map(|last| (id.clone(), *last));
            self.gone.remove(id);
            self.gone.extend(last);
        }
    }

    /// Has the promises that another table has, and its nodes.
    pub fn follow_promises(&mut self, other: &TaskTable, numbers: &BTreeSet<u64>) {
        self.promises.follow(&other.promises, numbers);
        self.book.follow(&self.promises, numbers.iter().copied());
        numbers
            .iter()
            .filter_map(|number| other.promises.get(*number))
            .for_each(|promise| self.renew_nodes_of(promise));
    }

    /// The nodes of a promise's tasks are told its end, which may be another one.
    fn renew_nodes_of(&mut self, promise: &Promise) {
        let tasks = self.of_promise(&promise.id).filter_map(|number| self.tasks.get(&number));
        let nodes: BTreeSet<String> = tasks.filter_map(|task| task.placed_on()).map(str::to_owned).collect();
        nodes.iter().for_each(|node| self.renew(node));
    }

    fn put(&mut self, task: Arc<Task>) {
        let before = self.tasks.get(&task.number).cloned();
        before.iter().for_each(|before| self.forget(before));
        self.learn(&task);
        if before.as_ref().and_then(|before| before.listing()) != task.listing() {
            before.iter().for_each(|before| self.unlist(before));
            self.list(&task);
        }
        self.by_id.insert(task.id.clone(), task.number);
        if let Some(key) = &task.key {
            self.by_key.insert(key.clone(), task.number);
        }
        self.book.put_task(&task.view());
        self.highest = self.highest.max(task.number.0);
        self.tasks.insert(task.number, task);
    }

    fn remove(&mut self, number: TaskNumber) {
        let Some(task) = self.tasks.remove(&number) else { return };
        self.book.remove_task(number);
        self.unlist(&task);
        self.forget(&task);
        self.by_id.remove(&task.id);
        if let Some(key) = &task.key {
            self.by_key.remove(key);
        }
        if let (number @ 1.., Some(ended_at)) = (task.progress.attempt, task.ended_at) {
            self.gone.insert(task.id.clone(), LastAttempt { number, ended_at });
        }
    }

    /// Counts a task with its user, in its array, on its promise, and as one that waits for others.
    fn learn(&mut self, task: &Task) {
        if let Some(promise) = task.document.promise.as_ref().filter(|_| !task.state().is_final()) {
            self.by_promise.entry(promise.clone()).or_default().insert(task.number);
        }
        for awaited in &task.progress.awaits {
            self.followers.entry(awaited.number).or_default().insert(task.number);
        }
        let Some(array) = &task.array else { return self.holdings.add(task, 0) };
        let new = || KeptArray { array: Arc::clone(array), kept: 0, open: 0 };
        let kept = self.arrays.entry(array.number).or_insert_with(new);
        kept.kept += 1;
        kept.open += u32::from(!task.state().is_final());
        let first = kept.kept == 1;
        self.holdings.add(task, if first { array.document.weight() } else { 0 });
        if first {
            self.by_id.insert(array.id.clone(), array.number);
            if let Some(key) = &array.key {
                self.by_key.insert(key.clone(), array.number);
            }
        }
    }

    /// The opposite of learning.
    fn forget(&mut self, task: &Task) {
        if let Some(promise) = &task.document.promise
            && let Some(numbers) = self.by_promise.get_mut(promise)
        {
            numbers.remove(&task.number);
            if numbers.is_empty() {
                self.by_promise.remove(promise);
            }
        }
        for awaited in &task.progress.awaits {
            if let Some(followers) = self.followers.get_mut(&awaited.number) {
                followers.remove(&task.number);
                if followers.is_empty() {
                    self.followers.remove(&awaited.number);
                }
            }
        }
        let Some(array) = &task.array else { return self.holdings.remove(task, 0) };
        let Some(kept) = self.arrays.get_mut(&array.number) else { return };
        kept.kept -= 1;
        kept.open -= u32::from(!task.state().is_final());
        let last = kept.kept == 0;
        self.holdings.remove(task, if last { array.document.weight() } else { 0 });
        if last {
            self.arrays.remove(&array.number);
            self.by_id.remove(&array.id);
            if let Some(key) = &array.key {
                self.by_key.remove(key);
            }
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
