//! A new task or array, or the one that the same submission made before.

use std::sync::Arc;

use estimand_api::resources::PLACES;
use estimand_api::task_document::{TaskDocument, array_member};
use estimand_service::{Decision, Request};

use super::edits::tallied;
use super::room::{NewTasks, room};
use crate::arriving::ArrivingDocument;
use crate::change::{Change, Rejection};
use crate::core::dependency::{After, Awaited, On};
use crate::core::queue::TaskNumber;
use crate::core::request::amounts;
use crate::core::state::{Actor, Event, Progress, State};
use crate::scope::Scope;
use crate::table::{Named, TaskTable};
use crate::task::{Array, Edit, LogEnd, Task};
use crate::writer::TasksState;

pub struct Submission {
    pub document: TaskDocument,
    #[expect(dead_code, reason = "it counts the document until it is decided on it")]
    pub arriving: ArrivingDocument,
    /// By which the same submission is known when it is sent again.
    pub key: Option<String>,
    pub by: String,
    /// An image that is not published is refused.
    pub published_only: bool,
    /// The tasks that it may come after, and the share that it takes from.
    pub scope: Scope,
}

impl Request<TasksState> for Submission {
    /// The task or array, and whether it is new.
    type Reply = (Named, bool);

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let (at, table) = (state.now_us(), state.table());
        let document = on_promise(table, self.document)?;
        let this = Submission { document, ..self };
        if let Some(known) = this.key.as_deref().and_then(|key| table.of_key(key)) {
            return match *known.document() == this.document {
                true => Ok(Decision::Nothing((known, false))),
                false => Err(Rejection::KeyTaken(known.id().to_owned())),
            };
        }
        if let Some(promise) = this.document.promise.as_deref().and_then(|id| table.promises.find(id))
            && !promise.is_live()
        {
            let state = promise.state.as_str();
            return Err(Rejection::PromiseOver { id: promise.id.clone(), state });
        }
        // A user's tasks go before others only as far as an operator lets them.
        let priority = this.scope.check_priority("priority", this.document.priority);
        priority.map_err(|problem| Rejection::Share(Box::new(problem)))?;
        let (scope, new) = (this.scope.clone(), NewTasks::of(&this.document));
        let room = room(table, &scope, &new, at)?;
        let edits = this.edits(table, at)?;
        let new_arrays = edits.first().and_then(|edit| edit.after.array.clone()).into_iter().collect();
        let highest = edits.last().map_or(table.highest, |edit| edit.after.number.0);
        let promises = tallied(table, &edits, Vec::new());
        Ok(Decision::change(
            Change { edits, promises, new_arrays, highest, ..room },
            |_: &TasksState, change| {
                let named = match (change.new_arrays.first(), change.edits.first()) {
                    (Some(array), _) => Named::Array(Arc::clone(array)),
                    (None, Some(edit)) => Named::Task(Arc::new(edit.after.clone())),
                    (None, None) => unreachable!("a submission makes a task"),
                };
                (named, true)
            },
        ))
    }
}

/// The document of a task on a promise has the amounts of a unit, where it does not ask for less.
fn on_promise(table: &TaskTable, document: TaskDocument) -> Result<TaskDocument, Rejection> {
    let Some(id) = &document.promise else { return Ok(document) };
    let promise = table.promises.find(id).ok_or_else(|| Rejection::NoPromise(id.clone()))?;
    let unit = promise.amounts();
    let asked = amounts(&document.resources);
    if asked.iter().any(|(resource, amount)| amount > unit.get(resource)) {
        let (asked, unit) = (asked.to_string(), unit.to_string());
        return Err(Rejection::LargerThanUnit { id: id.clone(), asked, unit });
    }
    let mut document = document;
    for (resource, amount) in unit.iter().filter(|(resource, _)| resource.as_str() != PLACES) {
        document.resources.entry(resource.as_str().to_owned()).or_insert(amount);
    }
    Ok(document)
}

impl Submission {
    /// The new tasks.
    fn edits(self, table: &TaskTable, at: i64) -> Result<Vec<Edit>, Rejection> {
        let (awaits, unmet) = awaits(table, &self.scope, &self.document.after)?;
        let asked = self.document.image.as_deref();
        let image = asked.and_then(|asked| table.images.resolve(asked)).map(Arc::new);
        if let (Some(asked), None, true) = (asked, &image, self.published_only) {
            let advice = table.images.advice(asked);
            return Err(Rejection::NotPublished { image: asked.to_owned(), advice });
        }
        let (number, count) = (table.highest + 1, self.document.count);
        let is_free = |id: &str| {
            table.is_free(id) && (0..count.unwrap_or(0)).all(|index| table.is_free(&array_member(id, index)))
        };
        let id = match &self.document.id {
            Some(id) if !is_free(id) => return Err(Rejection::IdTaken(id.clone())),
            Some(id) => id.clone(),
            None => made_id(is_free, number),
        };
        let document = Arc::new(self.document);
        let task = Task {
            number: TaskNumber(number),
            id,
            key: self.key,
            array: None,
            document: Arc::clone(&document),
            image: image.clone(),
            progress: Progress { awaits, ..Progress::default() },
            why: None,
            log: LogEnd::default(),
            events: 0,
            submitted_at: at,
            submitted_by: self.by,
            ended_at: None,
        };
        let tasks = match count {
            None => vec![task],
            Some(size) => {
                let (number, id, key) = (task.number, task.id.clone(), task.key.clone());
                members(&Arc::new(Array { number, id, key, document, image, size }), &task)
            }
        };
        Ok(tasks.into_iter().map(|task| begun(table, task, unmet.as_ref(), at)).collect())
    }
}

/// The tasks of an array, each like this one.
fn members(array: &Arc<Array>, like: &Task) -> Vec<Task> {
    let first = array.numbers().start.0;
    let member = |index: u32| Task {
        number: TaskNumber(first + u64::from(index)),
        id: array_member(&array.id, index),
        key: None,
        array: Some(Arc::clone(array)),
        ..like.clone()
    };
    (0..array.size).map(member).collect()
}

/// A new task, which ends at once if it can never run.
fn begun(table: &TaskTable, mut task: Task, unmet: Option<&Event>, at: i64) -> Edit {
    // An agent may still have an attempt of a deleted task with this id: another one never has its number.
    task.progress.attempt = table.gone.get(&task.id).map_or(0, |last| last.number);
    let mut edit = Edit::new(task);
    if let Some(event) = unmet {
        // Nothing that is new is refused.
        let _ = edit.apply(at, event.clone(), Actor::Scheduler);
    }
    edit
}

/// The tasks that a task waits for, and the one among them that has come out otherwise than it wants, if there is one.
fn awaits(
    table: &TaskTable,
    scope: &Scope,
    after: &[After],
) -> Result<(Vec<Awaited>, Option<Event>), Rejection> {
    let (mut awaits, mut unmet) = (Vec::new(), None);
    for After { id, on } in after {
        let named = scope.find(table, id).ok_or_else(|| Rejection::NothingToFollow(id.clone()))?;
        let (number, over, failed) = match &named {
            Named::Task(task) => (task.number, task.state().is_final(), failed(task).then(|| id.clone())),
            Named::Array(array) => {
                let failed = table.of_array(array).find(|task| failed(task)).map(|task| task.id.clone());
                (array.number, table.open_of_array(array.number) == 0, failed)
            }
        };
        let is_met = over && (failed.is_none() || *on == On::End);
        if !is_met {
            awaits.push(Awaited { number, id: id.clone(), on: *on });
        }
        if let Some(task) = failed.filter(|_| *on == On::Success) {
            unmet.get_or_insert(Event::Dependency { number, task, succeeded: false, over });
        }
    }
    Ok((awaits, unmet))
}

fn failed(task: &Task) -> bool {
    task.state().is_final() && task.state() != State::Succeeded
}

/// A short id; where somebody has given that to a task, one that nobody gives beforehand.
fn made_id(is_free: impl Fn(&str) -> bool, number: u64) -> String {
    let mut id = format!("t{number}");
    while !is_free(&id) {
        id = format!("t{number}-{:016x}", fastrand::u64(..));
    }
    id
}
