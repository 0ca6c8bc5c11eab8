//! The tasks that wait for a node, in the order of their priority, which grows with age.
//!
//! A task ages by one step of priority for each [`AGEING`] that it waits, all tasks alike. So their order never changes:
//! it is that of the time of submission, put back by an [`AGEING`] for each step of priority. Tasks with equal requests
//! stand in one line, because if the first of them has no room, none has.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Millis;
use super::kept::KeptNode;
use super::request::{Request, RequestKey};

/// A minute of waiting is worth a step of priority.
pub const AGEING: Millis = 60_000;

/// The number under which a service knows a task, in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskNumber(pub u64);

/// The place of a task in the order: the least is first.
pub type Rank = (i128, TaskNumber);

pub fn rank(task: TaskNumber, submitted_at: Millis, priority: i32) -> Rank {
    (i128::from(submitted_at) - i128::from(priority) * i128::from(AGEING), task)
}

#[derive(Debug, Clone)]
pub(super) struct Line {
    pub request: Request,
    waiting: BTreeMap<Rank, Waiting>,
    /// No node had room for it but those that were freed since.
    pub blocked: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub task: TaskNumber,
    pub submitted_at: Millis,
    pub priority: i32,
}

/// The first task of a line, with the request of all in it.
#[derive(Debug, Clone)]
pub struct Head {
    pub rank: Rank,
    pub request: Request,
    pub key: RequestKey,
}

#[derive(Debug, Clone, Default)]
pub struct Queue {
    lines: BTreeMap<RequestKey, Line>,
    ranks: BTreeMap<TaskNumber, (RequestKey, Rank)>,
    /// The node that is kept for a task which has waited too long.
    pub(super) kept: Option<KeptNode>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Puts a task at its place; one that waits already stays where it is.
    pub fn push(&mut self, task: TaskNumber, submitted_at: Millis, priority: i32, request: &Request) {
        if self.ranks.contains_key(&task) {
            return;
        }
        let rank = rank(task, submitted_at, priority);
        let key = request.key();
        let line = self.lines.entry(key.clone()).or_insert_with(|| Line {
            request: request.clone(),
            waiting: BTreeMap::new(),
            blocked: false,
        });
        line.waiting.insert(rank, Waiting { task, submitted_at, priority });
        self.ranks.insert(task, (key, rank));
    }

    /// Takes a task out; false if it does not wait.
    pub fn remove(&mut self, task: TaskNumber) -> bool {
        let Some((key, rank)) = self.ranks.remove(&task) else { return false };
        if let Some(line) = self.lines.get_mut(&key) {
            line.waiting.remove(&rank);
            if line.waiting.is_empty() {
                self.lines.remove(&key);
            }
        }
        true
    }

    /// The first task of all lines but those that are passed over.
    pub(super) fn first(&self, passed_over: &BTreeSet<RequestKey>) -> Option<(&RequestKey, &Line, Waiting)> {
        let lines = self.lines.iter().filter(|(key, _)| !passed_over.contains(*key));
        let heads = lines.filter_map(|(key, line)| Some((line.waiting.first_key_value()?, key, line)));
        let ((_, waiting), key, line) = heads.min_by_key(|((rank, _), ..)| **rank)?;
        Some((key, line, *waiting))
    }

    /// The first task of each line, in the order of the queue.
    pub fn heads(&self) -> Vec<Head> {
        let head = |(key, line): (&RequestKey, &Line)| {
            let rank = *line.waiting.first_key_value()?.0;
            Some(Head { rank, request: line.request.clone(), key: key.clone() })
        };
        let mut heads: Vec<Head> = self.lines.iter().filter_map(head).collect();
        heads.sort_by_key(|head| head.rank);
        heads
    }

    /// How many tasks with an equal request wait.
    pub fn waiting_like(&self, request: &Request) -> usize {
        self.lines.get(&request.key()).map_or(0, |line| line.waiting.len())
    }

    pub(super) fn block(&mut self, key: &RequestKey) {
        if let Some(line) = self.lines.get_mut(key) {
            line.blocked = true;
        }
    }
}
