//! The usage of a promise by a task: how much of the promise's window the task had, and how much it missed.
//!
//! Each transition counts the time since the one before it. Time on a node is had; time in which the task could have begun
//! and did not is missed. The rest is neither: a pause after a failure of its own, or the wait for other tasks.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Millis;
use super::promise::{Offer, Promise};
use super::retries::Ending;
use super::state::{Event, Progress, State};

/// A task that begins less than a second late misses nothing.
const TOLERANCE: Millis = 1_000;

/// The window of a promise, as a task on it finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub window: Range<Millis>,
    /// Some node of the promise can run the task. Time is not missed where none can.
    pub fits: bool,
}

impl Term {
    /// The term of a task with or without an image and a user. Nodes that are not known count as fitting.
    pub fn new(promise: &Promise, nodes: &[Offer], has_image: bool, has_user: bool) -> Term {
        let runs =
            |node: &Offer| if has_image { node.runs_containers } else { !has_user || !node.refuses_users };
        let is_run = |unit: &String| nodes.iter().find(|node| node.name == *unit).is_none_or(runs);
        let fits = !(has_image || has_user) || promise.units.iter().any(is_run);
        Term { window: promise.from.saturating_mul(1_000)..promise.until.saturating_mul(1_000), fits }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Everything before this instant is counted.
    until: Millis,
    pub had: Millis,
    pub missed: Millis,
}

enum Share {
    Had,
    /// From this instant on.
    Missed(Millis),
    Neither,
}

impl Usage {
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
    }

    /// The usage after a transition from a state, which an event ended at an instant.
    #[must_use]
    pub fn after(self, before: &Progress, event: &Event, at: Millis, term: &Term) -> Usage {
        match (before.state, event) {
            // Its node may run it still: that shows when the node is back, or nothing can run there any more.
            (State::Lost, Event::PromiseEnded { .. } | Event::Cancel) => self,
            (State::Lost, Event::LeaseOver { .. } | Event::End { ending: Ending::NodeLost, .. }) => {
                self.with(&Share::Missed(0), at, term)
            }
            _ => self.with(&share(before, term), at, term),
        }
    }

    /// The usage at an instant of a task that is not over. It has nothing of a node that is not heard of.
    #[must_use]
    pub fn so_far(self, progress: &Progress, at: Millis, term: &Term) -> Usage {
        match progress.state {
            State::Lost => self.with(&Share::Missed(0), at, term),
            _ => self.with(&share(progress, term), at, term),
        }
    }

    fn with(mut self, share: &Share, at: Millis, term: &Term) -> Usage {
        let within = |at: Millis| at.clamp(term.window.start, term.window.end.max(term.window.start));
        let from = within(self.until);
        let to = within(at);
        match share {
            Share::Had => self.had += to.saturating_sub(from),
            Share::Missed(begin) => self.missed += to.saturating_sub(from.max(*begin)),
            Share::Neither => {}
        }
        self.until = self.until.max(at);
        self
    }
}

/// The share that time in a state belongs to.
fn share(progress: &Progress, term: &Term) -> Share {
    match progress.before_loss.unwrap_or(progress.state) {
        State::Preparing | State::Running | State::Stopping => Share::Had,
        State::Queued if !term.fits || !progress.awaits.is_empty() => Share::Neither,
        // Its node was lost, which is no failure of its own.
        State::Queued if progress.ending == Some(Ending::NodeLost) => Share::Missed(0),
        State::Queued => Share::Missed(progress.not_before.unwrap_or(0)),
        State::Placed | State::Accepted => Share::Missed(0),
        State::Lost | State::Succeeded | State::Failed | State::Cancelled => Share::Neither,
    }
}

/// The usage of a promise by its tasks that are over. It stays when they are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// How many tasks are over.
    pub over: u32,
    pub had: Millis,
    pub missed: Millis,
    /// The end of the last one.
    pub ended: Millis,
}

impl Tally {
    /// Counts a task that ended at an instant.
    pub fn add(&mut self, usage: &Usage, at: Millis) {
        self.over = self.over.saturating_add(1);
        self.ended = self.ended.max(at);
        self.count(usage);
    }

    /// Counts the usage of a task that is not over.
    pub fn count(&mut self, usage: &Usage) {
        self.had = self.had.saturating_add(usage.had);
        self.missed = self.missed.saturating_add(usage.missed - usage.missed % TOLERANCE);
    }
}
