//! The bells of tasks: a request that follows one task or array is woken by a change of that one, and by no other.
//!
//! There is a bell for as long as somebody follows; a change of a task that nobody follows rings none.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::change::Change;
use crate::core::queue::TaskNumber;

/// The bells of the tasks and arrays that are followed, by number.
#[derive(Debug, Default)]
pub struct Bells(Mutex<HashMap<TaskNumber, watch::Sender<u64>>>);

/// A follower's place at the bell of a task, or at the one for all tasks.
pub struct Bell {
    pub receiver: watch::Receiver<u64>,
    /// The task, with all bells. The last follower takes its bell down.
    task: Option<(TaskNumber, Arc<Bells>)>,
}

impl Bells {
    pub fn listen(self: &Arc<Self>, task: TaskNumber) -> Bell {
        let receiver = self.bells().entry(task).or_insert_with(|| watch::Sender::new(0)).subscribe();
        Bell { receiver, task: Some((task, Arc::clone(self))) }
    }

    /// Rings for the tasks of changes, and for their arrays.
    pub fn ring(&self, changes: &[Change]) {
        let bells = self.bells();
        if bells.is_empty() {
            return;
        }
        let edited = changes.iter().flat_map(|change| &change.edits).map(|edit| &edit.after);
        let deleted = changes.iter().flat_map(|change| &change.deleted).map(|task| &**task);
        let of_task = edited.chain(deleted).flat_map(|task| {
            let array = task.array.as_ref().map(|array| array.number);
            [Some(task.number), array].into_iter().flatten()
        });
        // Each once, however many tasks of an array have changed.
        let numbers: BTreeSet<TaskNumber> = of_task.collect();
        numbers.iter().filter_map(|number| bells.get(number)).for_each(ring);
    }

    pub fn ring_one(&self, task: TaskNumber) {
        self.bells().get(&task).into_iter().for_each(ring);
    }

    pub fn ring_all(&self) {
        self.bells().values().for_each(ring);
    }

    /// How many follow one task or array.
    pub fn followers(&self) -> usize {
        self.bells().values().map(watch::Sender::receiver_count).sum()
    }

    fn bells(&self) -> MutexGuard<'_, HashMap<TaskNumber, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ring(bell: &watch::Sender<u64>) {
    bell.send_modify(|rung| *rung += 1);
}

impl Bell {
    /// The bell of all tasks.
    pub fn of_all(receiver: watch::Receiver<u64>) -> Self {
        Bell { receiver, task: None }
    }

    /// The bell is that of one task, which has not changed since the follower has its place.
    pub fn is_quiet(&self) -> bool {
        // The sender lives as long as this place.
        self.task.is_some() && !self.receiver.has_changed().unwrap_or(true)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let Some((task, bells)) = &self.task else { return };
        let mut bells = bells.bells();
        // The only receiver that is left is this one.
        if bells.get(task).is_some_and(|bell| bell.receiver_count() <= 1) {
            bells.remove(task);
        }
    }
}
