//! The edits of one change, with what follows from them: tasks that come after others are told of their ends in the same
//! change, and so on through chains. So nothing waits for what is over, whatever is deleted later.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use estimand_api::task_stop::{ROOM_GRACE, StopOrder};

use crate::change::Change;
use crate::core::promise::{Promise, PromiseChange};
use crate::core::queue::TaskNumber;
use crate::core::state::{Actor, Event, State};
use crate::table::TaskTable;
use crate::task::{Edit, Task, millis};

pub struct Edits<'a> {
    pub table: &'a TaskTable,
    at: i64,
    edits: BTreeMap<TaskNumber, Edit>,
    /// The promises that change with them.
    promises: Vec<Promise>,
}

impl<'a> Edits<'a> {
    pub fn new(table: &'a TaskTable, at: i64) -> Self {
        Edits { table, at, edits: BTreeMap::new(), promises: Vec::new() }
    }

    /// The edit of a task that is kept.
    pub fn of(&mut self, task: &Task) -> &mut Edit {
        let table = self.table;
        self.edits.entry(task.number).or_insert_with(|| edit_of(table, task))
    }

    /// Changes promises, and ends the tasks of those that have no capacity any more.
    pub fn change_promises(&mut self, promises: Vec<Promise>) {
        promises.iter().for_each(|promise| self.end_tasks_of(promise));
        self.promises.extend(promises);
    }

    fn end_tasks_of(&mut self, promise: &Promise) {
        let Some(reason) = promise.end() else { return };
        let table = self.table;
        for task in table.of_promise(&promise.id).filter_map(|number| table.get(number)) {
            self.end_for(task, reason.clone());
        }
    }

    /// Ends a task with its promise. One that is to end already stays as it is.
    pub fn end_for(&mut self, task: &Task, reason: String) {
        let at = self.at;
        // Its capacity may be another's by now, unless it comes to its end with the window, which its node holds.
        let grace = task.checkpoint_grace().map(|grace| grace.min(ROOM_GRACE));
        let stop = grace.map(|grace| StopOrder::with_checkpoint(Some(grace))).unwrap_or_default();
        let _ = self.of(task).apply(at, Event::PromiseEnded { reason, stop }, Actor::Scheduler);
    }

    /// The change; none if nothing is different.
    pub fn finish(mut self) -> Option<Change> {
        self.edits.retain(|_, edit| !edit.is_empty());
        self.tell_followers();
        let edits: Vec<Edit> = self.edits.into_values().collect();
        let promises = tallied(self.table, &edits, self.promises);
        let change =
            Change { edits, promises, highest: self.table.highest, at: self.at, ..Change::default() };
        (!change.edits.is_empty() || change.promises.revision > 0).then_some(change)
    }

    fn tell_followers(&mut self) {
        let has_ended = |edit: &&Edit| edit.transitions.last().is_some_and(|last| last.to.is_final());
        let ended = self.edits.values().filter(has_ended).map(|edit| edit.after.number);
        let mut ended: VecDeque<TaskNumber> = ended.collect();
        let mut ended_of: HashMap<TaskNumber, u32> = HashMap::new();
        while let Some(Edit { after, .. }) = ended.pop_front().and_then(|number| self.edits.get(&number)) {
            let (number, array, task) = (after.number, after.array.clone(), after.id.clone());
            let succeeded = after.state() == State::Succeeded;
            let event = Event::Dependency { number, task, succeeded, over: true };
            ended.extend(self.tell(number, &event));
            let Some(array) = array else { continue };
            let closed = ended_of.entry(array.number).or_default();
            *closed += 1;
            let over = self.table.open_of_array(array.number) <= *closed;
            if let Event::Dependency { task, .. } = event
                && (over || !succeeded)
            {
                let task = if succeeded { array.id.clone() } else { task };
                let event = Event::Dependency { number: array.number, task, succeeded, over };
                ended.extend(self.tell(array.number, &event));
            }
        }
    }

    /// Tells the tasks that wait for a task or array; returns those that end thereby.
    fn tell(&mut self, number: TaskNumber, event: &Event) -> Vec<TaskNumber> {
        let mut ended = Vec::new();
        let table = self.table;
        for follower in table.followers(number) {
            let Some(task) = table.get(follower) else { continue };
            let edit = self.edits.entry(follower).or_insert_with(|| edit_of(table, task));
            let changed = edit.apply(self.at, event.clone(), Actor::Scheduler).unwrap_or(false);
            if changed && edit.after.state().is_final() {
                ended.push(follower);
            }
        }
        ended
    }
}

fn edit_of(table: &TaskTable, task: &Task) -> Edit {
    Edit { term: task.term(&table.promises), ..Edit::of(task) }
}

/// The change of promises with the tasks that edits have ended counted in their tallies, so that it is known what they had
/// also when they are deleted.
pub fn tallied(table: &TaskTable, edits: &[Edit], changed: Vec<Promise>) -> PromiseChange {
    let mut promises = changed;
    let has_ended = |edit: &&Edit| edit.transitions.last().is_some_and(|last| last.to.is_final());
    for Edit { after, .. } in edits.iter().filter(has_ended) {
        let Some(id) = &after.document.promise else { continue };
        let at = match promises.iter().position(|promise| promise.id == *id) {
            Some(at) => at,
            None => {
                // A promise that is not kept any more has nobody who would ask.
                let Some(known) = table.promises.find(id) else { continue };
                promises.push(Promise::clone(known));
                promises.len() - 1
            }
        };
        promises[at].tally.add(&after.progress.usage, millis(after.ended_at.unwrap_or_default()));
    }
    if promises.is_empty() {
        return PromiseChange::default();
    }
    let revision = table.promises.revision + 1;
    let promises = promises.into_iter().map(|promise| Arc::new(Promise { revision, ..promise })).collect();
    PromiseChange { promises, revision, ..PromiseChange::default() }
}
