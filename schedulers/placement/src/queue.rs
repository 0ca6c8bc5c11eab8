//! The tasks that wait for a node, in the order of their priority, which grows with age.
//!
//! A task ages by one step of priority for each [`AGEING`] that it waits, all tasks alike. So their order never changes:
//! it is that of the time of submission, put back by an [`AGEING`] for each step of priority. Tasks with equal requests
//! stand in one line, because if the first of them has no room, none has. A request is its user's, so nobody stands in the line
//! of a user who has too much.
//!
//! A queue by shares has the same lines and ranks, but serves the first tasks of its lines by the shares of their users and
//! frameworks, which change with each loan.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use estimand_capacity::Shares;
use serde::{Deserialize, Serialize};

use super::Millis;
use super::kept::KeptNode;
use super::request::{Request, RequestKey};
use super::user_places::UserPlaces;

mod share_heads;

use share_heads::ShareHeads;

/// A minute of waiting is worth a step of priority.
pub const AGEING: Millis = Millis(60_000);

/// The number under which a service knows a task, in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskNumber(pub u64);

/// The place of a task in the order: the least is first.
pub type Rank = (i128, TaskNumber);

pub fn rank(task: TaskNumber, submitted_at: Millis, priority: i32) -> Rank {
    (i128::from(submitted_at.0) - i128::from(priority) * i128::from(AGEING.0), task)
}

#[derive(Debug, Clone)]
pub(super) struct Line {
    pub request: Arc<Request>,
    waiting: BTreeMap<Rank, Waiting>,
    /// No node had room for it but those that were freed since.
    blocked: bool,
    /// A node had room, which it keeps for users who have less than this one.
    pub kept_out: bool,
    /// No node could be kept for it but those that were freed since.
    pub unsuited: bool,
}

impl Line {
    fn first(&self) -> Option<Rank> {
        self.waiting.first_key_value().map(|(rank, _)| *rank)
    }

    /// Nodes that were not freed since have no room for it. A user who was kept out may have few places by now.
    pub fn is_blocked(&self, places: &UserPlaces) -> bool {
        self.blocked && !(self.kept_out && places.are_few_of(self.request.user.as_ref()))
    }
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
    pub request: Arc<Request>,
    pub key: Arc<RequestKey>,
}

#[derive(Debug, Clone, Default)]
pub struct Queue {
    lines: BTreeMap<Arc<RequestKey>, Line>,
    /// The line of each first task.
    heads: BTreeMap<Rank, Arc<RequestKey>>,
    ranks: BTreeMap<TaskNumber, (Arc<RequestKey>, Rank)>,
    /// The heads in the order of shares, if that is the order of the queue.
    by_share: Option<ShareHeads>,
    /// The node that is kept for a task which has waited too long.
    pub(super) kept: Option<KeptNode>,
}

impl Queue {
    /// A queue that serves the least share first, if the cluster counts shares.
    pub fn by_shares() -> Queue {
        Queue { by_share: Some(ShareHeads::default()), ..Queue::default() }
    }

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
        let known = self.lines.get_key_value(&key).map(|(key, _)| Arc::clone(key));
        let key = known.unwrap_or_else(|| Arc::new(key));
        let line = self.lines.entry(Arc::clone(&key)).or_insert_with(|| Line {
            request: Arc::new(request.clone()),
            waiting: BTreeMap::new(),
            blocked: false,
            kept_out: false,
            unsuited: false,
        });
        let before = line.first();
        line.waiting.insert(rank, Waiting { task, submitted_at, priority });
        if before.is_none_or(|before| rank < before) {
            let request = Arc::clone(&line.request);
            self.change_head(&request, &key, before, Some(rank));
        }
        self.ranks.insert(task, (key, rank));
    }

    /// Takes a task out; false if it does not wait.
    pub fn remove(&mut self, task: TaskNumber) -> bool {
        let Some((key, rank)) = self.ranks.remove(&task) else { return false };
        let Some(line) = self.lines.get_mut(&key) else { return true };
        line.waiting.remove(&rank);
        let next = line.first();
        let request = Arc::clone(&line.request);
        if next.is_none() {
            self.lines.remove(&key);
        }
        if self.heads.contains_key(&rank) {
            self.change_head(&request, &key, Some(rank), next);
        }
        true
    }

    /// A line has another first task.
    fn change_head(
        &mut self,
        request: &Request,
        key: &Arc<RequestKey>,
        gone: Option<Rank>,
        came: Option<Rank>,
    ) {
        if let Some(gone) = gone {
            self.heads.remove(&gone);
        }
        if let Some(came) = came {
            self.heads.insert(came, Arc::clone(key));
        }
        if let Some(by_share) = &mut self.by_share {
            gone.into_iter().for_each(|gone| by_share.remove(request.holder(), gone));
            came.into_iter().for_each(|came| by_share.add(request.holder(), came));
        }
    }

    /// The task waits, and is the first of its line.
    pub(super) fn is_head(&self, task: TaskNumber) -> bool {
        self.ranks.get(&task).is_some_and(|(_, rank)| self.heads.contains_key(rank))
    }

    /// The next of the tasks that are the first of their line: the one that comes behind a place in the order, or, by shares, the
    /// first one that was not refused. A pass sees every line once, and then what was behind those that it took out.
    pub(super) fn next_head(
        &mut self,
        place: Option<Rank>,
        shares: Option<&mut Shares>,
    ) -> Option<(Rank, &Line, Waiting)> {
        let rank = match (&mut self.by_share, shares) {
            (Some(by_share), Some(shares)) => by_share.first(shares)?,
            _ => {
                let behind = place.map_or(Bound::Unbounded, Bound::Excluded);
                *self.heads.range((behind, Bound::Unbounded)).next()?.0
            }
        };
        let line = self.lines.get(self.heads.get(&rank)?)?;
        Some((rank, line, *line.waiting.get(&rank)?))
    }

    /// The first task of each line, in the order of the queue.
    pub fn heads(&self) -> Vec<Head> {
        let head = |(rank, key): (&Rank, &Arc<RequestKey>)| {
            let request = Arc::clone(&self.lines.get(key)?.request);
            Some(Head { rank: *rank, request, key: Arc::clone(key) })
        };
        self.heads.iter().filter_map(head).collect()
    }

    /// How many tasks with an equal request wait.
    pub fn waiting_like(&self, request: &Request) -> usize {
        self.lines.get(&request.key()).map_or(0, |line| line.waiting.len())
    }

    /// The line of a first task has no room now, or only where its user is kept out, and, if a node was looked for that could be kept
    /// for it, whether there is one.
    pub(super) fn block(&mut self, head: Rank, is_kept_out: bool, is_suited: Option<bool>) {
        if let Some(line) = self.heads.get(&head).and_then(|key| self.lines.get_mut(key)) {
            line.blocked = true;
            line.kept_out = is_kept_out;
            // No node is looked for as long as it is kept out.
            line.unsuited = !is_kept_out && is_suited.map_or(line.unsuited, |is_suited| !is_suited);
            if let Some(by_share) = &mut self.by_share {
                by_share.set_aside(line.request.holder(), head);
            }
        }
    }

    /// The pass over the queue is done.
    pub(super) fn end_pass(&mut self) {
        if let Some(by_share) = &mut self.by_share {
            by_share.end_pass();
        }
    }
}
