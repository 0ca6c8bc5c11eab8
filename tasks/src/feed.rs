//! The feed: everything that happened to tasks in one order, each event with a revision that grows by one. The progress of
//! tasks is another feed, of reports instead of events.
//!
//! An event is stored in the transaction of the change that it tells of. The newest are in memory, too, so that those who
//! watch ask the database only for what is long past. Nothing is kept for a reader who is slow: it is told when the feed
//! does not reach back to where it is.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use estimand_api::task_event::{DELETED, TaskEvent};
use estimand_service::rows::instant;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::bells::{Bell, Bells};
use crate::change::Change;
use crate::core::state::{State, Transition};
use crate::task::{Edit, Task};

/// How many events are kept at least.
const KEPT: u64 = 200_000;
/// How many are kept at most while a reader that counts is behind.
const MOST_KEPT: u64 = 1_000_000;
/// As many are removed at once.
const STEP: u64 = 1_000;
/// How many of them are in memory.
const IN_MEMORY: usize = 4_096;
/// The most watchers at the same time.
pub const MAX_WATCHERS: usize = 2_000;

/// The name of the cursor of the one reader that counts: it publishes the feed.
pub const PUBLISHER: &str = "rabbitmq";

/// An entry of a feed.
pub trait Revised {
    fn revision(&self) -> u64;
}

impl Revised for TaskEvent {
    fn revision(&self) -> u64 {
        self.revision
    }
}

/// The feed as readers see it.
pub struct Feed<E = TaskEvent> {
    recent: RwLock<Recent<E>>,
    /// The newest revision, for those who wait for the next one.
    newest: watch::Sender<u64>,
    watchers: Arc<Semaphore>,
}

#[derive(Debug)]
struct Recent<E> {
    events: VecDeque<Arc<E>>,
    /// The revision of the last of them, also when there are none.
    newest: u64,
    /// Events up to this revision are not kept any more.
    base: u64,
    /// How far the reader is for whom events are kept, if there is one.
    counted: Option<u64>,
}

/// The events after a revision.
#[derive(Debug, PartialEq)]
pub enum Since<E = TaskEvent> {
    /// At most as many as asked for; none if there are no later ones yet.
    Events(Vec<Arc<E>>),
    /// They are in the store.
    Stored,
    /// Some are not kept any more: those up to `base`. Or the revision was never reached: `newest` is the last one.
    Gone { base: u64, newest: u64 },
}

impl<E: Revised> Feed<E> {
    pub fn new() -> Self {
        let recent = Recent { events: VecDeque::new(), newest: 0, base: 0, counted: None };
        Feed {
            recent: RwLock::new(recent),
            newest: watch::Sender::new(0),
            watchers: Arc::new(Semaphore::new(MAX_WATCHERS)),
        }
    }

    /// The extent of the feed as it was loaded.
    pub fn begin(&self, base: u64, newest: u64) {
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        if recent.newest != newest {
            recent.events.clear();
        }
        (recent.base, recent.newest) = (base, newest);
        drop(recent);
        self.newest.send_replace(newest);
    }

    pub fn newest(&self) -> u64 {
        self.read(|recent| recent.newest)
    }

    /// The newest revision, if no event up to it is one of the bell's task that its follower has not heard of.
    pub fn newest_if_quiet(&self, bell: &Bell) -> Option<u64> {
        self.read(|recent| bell.is_quiet().then_some(recent.newest))
    }

    pub fn base(&self) -> u64 {
        self.read(|recent| recent.base)
    }

    fn read<T>(&self, look: impl FnOnce(&Recent<E>) -> T) -> T {
        look(&self.recent.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn since(&self, after: u64, most: usize) -> Since<E> {
        self.read(|recent| {
            let in_memory = recent.newest - recent.events.len() as u64;
            match after {
                _ if after < recent.base || after > recent.newest => {
                    Since::Gone { base: recent.base, newest: recent.newest }
                }
                _ if after < in_memory => Since::Stored,
                _ => {
                    let seen = usize::try_from(after - in_memory).unwrap_or(usize::MAX);
                    Since::Events(recent.events.iter().skip(seen).take(most).cloned().collect())
                }
            }
        })
    }

    /// Hears of new events.
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Counts a watcher in, unless there are too many.
    pub fn seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.watchers).try_acquire_owned().ok()
    }

    pub fn watching(&self) -> usize {
        MAX_WATCHERS - self.watchers.available_permits()
    }

    /// Keeps events that a reader has not had yet, which is at this revision.
    pub fn count_on(&self, revision: u64) {
        self.recent.write().unwrap_or_else(PoisonError::into_inner).counted = Some(revision);
    }

    /// How far that reader is; 0 if it never said.
    pub fn counted(&self) -> u64 {
        self.read(|recent| recent.counted.unwrap_or(0))
    }

    /// The revision up to which events are to be removed when there are so many more; none if that is not worth a statement.
    pub fn removal(&self, more: u64) -> Option<u64> {
        self.read(|recent| removal(recent.base, recent.newest + more, recent.counted))
    }

    /// Shows events that are stored, of which those up to `removed_to` are not any more. `ring` is called before anybody
    /// sees them, so that a bell that is quiet has missed none.
    pub fn append(&self, events: Vec<E>, removed_to: Option<u64>, ring: impl FnOnce()) {
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        ring();
        recent.base = removed_to.unwrap_or(recent.base);
        let Some(last) = events.last() else { return };
        let newest = last.revision();
        recent.newest = newest;
        recent.events.extend(events.into_iter().map(Arc::new));
        let over = recent.events.len().saturating_sub(IN_MEMORY);
        recent.events.drain(..over);
        drop(recent);
        self.newest.send_replace(newest);
    }
}

impl Feed {
    /// Shows the events of changes that are stored, and rings the bells of their tasks; false if there are no events.
    pub fn publish(&self, changes: &[Change], bells: &Bells) -> bool {
        let events = events_of(changes, self.newest());
        let count = events.len();
        let removed_to = self.removal(count as u64);
        self.append(events, removed_to, || bells.ring(changes));
        if let Some((_, revision)) = cursor_of(changes) {
            self.count_on(revision);
        }
        count > 0
    }
}

/// How far the reader that counts is after changes, if they say it.
pub fn cursor_of(changes: &[Change]) -> Option<(&'static str, u64)> {
    changes.iter().rev().find_map(|change| change.cursor)
}

fn removal(base: u64, newest: u64, counted: Option<u64>) -> Option<u64> {
    let old = newest.saturating_sub(KEPT);
    let kept_for = counted.unwrap_or(old).max(newest.saturating_sub(MOST_KEPT));
    let to = old.min(kept_for);
    (to >= base + STEP).then_some(to)
}

/// The events of changes, of which the first follows a revision.
pub fn events_of(changes: &[Change], mut revision: u64) -> Vec<TaskEvent> {
    let mut next = || {
        revision += 1;
        revision
    };
    let mut events = Vec::new();
    for change in changes {
        push_events(change, &mut events, &mut next);
    }
    events
}

fn push_events(change: &Change, events: &mut Vec<TaskEvent>, next: &mut impl FnMut() -> u64) {
    for edit in &change.edits {
        if edit.is_new {
            events.push(submitted(edit, next()));
        }
        for transition in &edit.transitions {
            events.push(moved(&edit.after, transition, change.at, next()));
        }
    }
    let by = change.by.as_ref().map_or_else(|| json!("scheduler"), |by| json!({ "user": by }));
    for task in &change.deleted {
        let about = about(task, change.at, next());
        let (from, cause) = (Some(task.state().as_str().to_owned()), json!({ "event": "delete" }));
        events.push(TaskEvent { from, to: DELETED.to_owned(), cause, actor: by.clone(), ..about });
    }
}

fn submitted(edit: &Edit, revision: u64) -> TaskEvent {
    let task = &edit.after;
    let cause = json!({
        "event": "submit", "resources": task.document.resources, "priority": task.document.priority,
    });
    let actor = json!({ "user": task.submitted_by });
    let to = State::Queued.as_str().to_owned();
    // It may have come to its end already.
    let about = about(task, task.submitted_at, revision);
    TaskEvent { to, attempt: 0, node: None, ending: None, cause, actor, ..about }
}

fn moved(task: &Task, transition: &Transition, at: i64, revision: u64) -> TaskEvent {
    let Transition { from, to, cause, actor, .. } = transition;
    TaskEvent {
        from: Some(from.as_str().to_owned()),
        to: to.as_str().to_owned(),
        cause: json!(cause),
        actor: json!(actor),
        ..about(task, at, revision)
    }
}

/// An event about a task as it is.
fn about(task: &Task, at: i64, revision: u64) -> TaskEvent {
    TaskEvent {
        revision,
        at: instant(at),
        id: task.id.clone(),
        number: task.number.0,
        from: None,
        to: task.state().as_str().to_owned(),
        attempt: task.progress.attempt,
        node: task.progress.node.clone(),
        ending: task.progress.ending.clone(),
        cause: json!({}),
        actor: json!(null),
        user: task.document.user.clone(),
        labels: task.document.labels.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64) -> TaskEvent {
        TaskEvent {
            revision,
            at: instant(0),
            id: "t".to_owned(),
            number: 1,
            from: None,
            to: "QUEUED".to_owned(),
            attempt: 0,
            node: None,
            ending: None,
            cause: json!({}),
            actor: json!(null),
            user: None,
            labels: Default::default(),
        }
    }

    fn revisions(since: Since) -> Vec<u64> {
        match since {
            Since::Events(events) => events.iter().map(|event| event.revision).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_are_in_memory_and_the_oldest_are_gone() {
        let feed = Feed::new();
        feed.begin(10, 20);
        assert_eq!(feed.since(20, 9), Since::Events(vec![]));
        assert_eq!(feed.since(10, 9), Since::Stored);
        let gone = Since::Gone { base: 10, newest: 20 };
        assert_eq!((feed.since(9, 9), feed.since(21, 9)), (Since::Gone { base: 10, newest: 20 }, gone));
        feed.append(vec![event(21), event(22)], None, || {});
        assert_eq!(revisions(feed.since(20, 9)), [21, 22]);
        assert_eq!(revisions(feed.since(21, 9)), [22]);
        assert_eq!(revisions(feed.since(20, 1)), [21]);
        feed.append((23..23 + IN_MEMORY as u64).map(event).collect(), Some(15), || {});
        assert_eq!(feed.since(14, 9), Since::Gone { base: 15, newest: 22 + IN_MEMORY as u64 });
        assert_eq!(feed.since(21, 9), Since::Stored);
        assert_eq!(revisions(feed.since(22, 1)), [23]);
        // Loaded anew after a commit whose outcome was unknown: what it stored is not in memory.
        feed.begin(15, 25 + IN_MEMORY as u64);
        assert_eq!(feed.since(22 + IN_MEMORY as u64, 9), Since::Stored);
    }

    #[test]
    fn old_events_go_unless_a_reader_counts_on_them() {
        assert_eq!(removal(0, KEPT + STEP - 1, None), None);
        assert_eq!(removal(0, KEPT + STEP, None), Some(STEP));
        assert_eq!(removal(STEP, KEPT + STEP, None), None);
        assert_eq!(removal(0, KEPT + 5 * STEP, Some(2 * STEP)), Some(2 * STEP));
        assert_eq!(removal(0, KEPT + 5 * STEP, Some(0)), None);
        assert_eq!(removal(0, MOST_KEPT + STEP, Some(0)), Some(STEP), "but not for ever");
        assert_eq!(removal(0, KEPT + STEP, Some(KEPT)), Some(STEP));
    }
}
