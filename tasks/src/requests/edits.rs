//! The edits of one change, with what follows from them: tasks that come after others are told of their ends in the same
//! change, and so on through chains. So nothing waits for what is over, whatever is deleted later.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::change::Change;
use crate::core::promise::Promise;
use crate::core::queue::TaskNumber;
use crate::core::state::{Actor, Event, State};
use crate::table::TaskTable;
use crate::task::{Edit, Task};

pub struct Edits<'a> {
    pub table: &'a TaskTable,
    at: i64,
    edits: BTreeMap<TaskNumber, Edit>,
}

impl<'a> Edits<'a> {
    pub fn new(table: &'a TaskTable, at: i64) -> Self {
        Edits { table, at, edits: BTreeMap::new() }
    }

    /// The edit of a task that is kept.
    pub fn of(&mut self, task: &Task) -> &mut Edit {
        self.edits.entry(task.number).or_insert_with(|| Edit::of(task))
    }

    /// Ends the tasks of a promise, if that has no capacity any more.
    pub fn end_tasks_of(&mut self, promise: &Promise) {
        let Some(reason) = promise.end() else { return };
        let table = self.table;
        for task in table.of_promise(&promise.id).filter_map(|number| table.get(number)) {
            self.end_for(task, reason.clone());
        }
    }

    /// Ends a task with its promise. One that is to end already stays as it is.
    pub fn end_for(&mut self, task: &Task, reason: String) {
        let at = self.at;
        let _ = self.of(task).apply(at, Event::PromiseEnded { reason }, Actor::Scheduler);
    }

    /// The change; none if nothing is different.
    pub fn finish(mut self) -> Option<Change> {
        self.edits.retain(|_, edit| !edit.is_empty());
        self.tell_followers();
        let edits: Vec<Edit> = self.edits.into_values().collect();
        let change = Change { edits, highest: self.table.highest, at: self.at, ..Change::default() };
        (!change.edits.is_empty()).then_some(change)
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
            let edit = self.edits.entry(follower).or_insert_with(|| Edit::of(task));
            let changed = edit.apply(self.at, event.clone(), Actor::Scheduler).unwrap_or(false);
            if changed && edit.after.state().is_final() {
                ended.push(follower);
            }
        }
        ended
    }
}
