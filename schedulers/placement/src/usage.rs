//! The usage of a promise by a task: how much of the promise's window the task had, and how much it missed.
//!
//! Each transition counts the time since the one before it. Time on a node is had; time in which the task could have begun
//! and did not is missed. The rest is neither: a pause after a failure of its own, or the wait for other tasks.

use std::ops::Range;

use estimand_api::promise::PromiseEnd;
use serde::{Deserialize, Serialize};

use super::Millis;
use super::retries::Ending;
use super::state::{Event, Progress, State};

/// A task that begins less than a second late misses nothing.
const TOLERANCE: u64 = 1_000;

/// The window of a promise, as a task on it finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub window: Range<Millis>,
    /// Some node of the promise can run the task. Time is not missed where none can.
    pub fits: bool,
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
            (State::Lost, Event::PromiseEnded { .. } | Event::Cancel(_) | Event::Yield(_)) => self,
            (State::Lost, Event::LeaseOver { .. } | Event::End { ending: Ending::NodeLost, .. }) => {
                self.with(&Share::Missed(Millis(0)), at, term)
            }
            (_, Event::End { .. }) if before.missed_its_end() => self,
            // It was to begin to the end, however early it is asked to leave.
            (_, Event::PromiseEnded { reason, .. }) if PromiseEnd::is_by_time(reason) => {
                let share = share(before, term);
                let until = if matches!(share, Share::Missed(_)) { term.window.end.max(at) } else { at };
                self.with(&share, until, term)
            }
            _ => {
                let share = share(before, term);
                self.without(&share, at, term).with(&share, at, term)
            }
        }
    }

    /// An end or a beginning may be told late: what was counted beyond it is not of the share that ends with it.
    fn without(mut self, share: &Share, from: Millis, term: &Term) -> Usage {
        if from >= self.until {
            return self;
        }
        let beyond = Usage { until: from, ..Usage::default() }.with(share, self.until, term);
        self.had = self.had.saturating_sub(beyond.had);
        self.missed = self.missed.saturating_sub(beyond.missed);
        self.until = from;
        self
    }

    /// The usage at an instant of a task that is not over. It has nothing of a node that is not heard of.
    #[must_use]
    pub fn so_far(self, progress: &Progress, at: Millis, term: &Term) -> Usage {
        match progress.state {
            State::Lost => self.with(&Share::Missed(Millis(0)), at, term),
            _ => self.with(&share(progress, term), at, term),
        }
    }

    fn with(mut self, share: &Share, at: Millis, term: &Term) -> Usage {
        let within = |at: Millis| at.clamp(term.window.start, term.window.end.max(term.window.start));
        let from = within(self.until);
        let to = within(at);
        match share {
            Share::Had => self.had = self.had + to.saturating_sub(from),
            Share::Missed(begin) => self.missed = self.missed + to.saturating_sub(from.max(*begin)),
            Share::Neither => {}
        }
        self.until = self.until.max(at);
        self
    }
}

/// The share that time in a state belongs to.
fn share(progress: &Progress, term: &Term) -> Share {
    match progress.before_loss.unwrap_or(progress.state) {
        State::Preparing | State::Running => Share::Had,
        State::Stopping if progress.begun => Share::Had,
        // The node may say yet that it has begun.
        State::Stopping => Share::Missed(Millis(0)),
        State::Queued if !term.fits || !progress.awaits.is_empty() => Share::Neither,
        // Its node was lost, which is no failure of its own.
        State::Queued if progress.ending == Some(Ending::NodeLost) => Share::Missed(Millis(0)),
        State::Queued => Share::Missed(progress.not_before.unwrap_or_default()),
        State::Placed | State::Accepted => Share::Missed(Millis(0)),
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
        self.had = self.had + usage.had;
        self.missed = self.missed + Millis(usage.missed.0 - usage.missed.0 % TOLERANCE);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::task_stop::StopOrder;

    use super::super::state::{Actor, Rules};
    use super::*;

    /// A task through events, each told at an instant.
    fn through(events: Vec<(u64, Event)>) -> Progress {
        let term = Term { window: Millis(0)..Millis(100_000), fits: true };
        let mut progress = Progress::default();
        for (at, event) in events {
            let at = Millis(at);
            let before = progress.clone();
            progress.apply(&Rules::default(), at, event.clone(), Actor::Scheduler).unwrap().unwrap();
            progress.usage = before.usage.after(&before, &event, at, &term);
        }
        progress
    }

    fn cut_off(from: u64, to: u64) -> [(u64, Event); 2] {
        [(from, Event::NodeLost { attempt: 1 }), (to, Event::NodeBack { attempt: 1 })]
    }

    #[test]
    fn what_is_told_after_a_cut_counts_from_when_it_was() {
        let mut events = vec![(1_000, Event::Place { attempt: 1, node: "n".to_owned() })];
        events.extend(cut_off(5_000, 20_000));
        assert_eq!(through(events.clone()).since.0, 1_000, "nothing was heard of it since");
        events.push((2_000, Event::Start { attempt: 1 }));
        let begun = through(events.clone());
        assert_eq!((begun.usage.had.0, begun.usage.missed.0, begun.since.0), (0, 2_000, 2_000));
        events.extend(cut_off(30_000, 50_000));
        assert_eq!(through(events.clone()).usage.had.0, 48_000, "as long as nothing else is known");
        events.push((35_000, Event::End { attempt: 1, ending: Ending::Exit(0), program: None, used: None }));
        let over = through(events);
        assert_eq!((over.usage.had.0, over.usage.missed.0), (33_000, 2_000));
    }

    #[test]
    fn what_had_not_begun_at_its_end_missed_all_of_its_time_unless_it_is_told_that_it_had() {
        let leaves = Event::PromiseEnded { reason: PromiseEnd::reason("p"), stop: StopOrder::default() };
        let queued = through(vec![(90_000, leaves.clone())]);
        assert_eq!((queued.state, queued.usage.missed.0), (State::Cancelled, 100_000));
        let placed = (20_000, Event::Place { attempt: 1, node: "n".to_owned() });
        let mut events = vec![placed, (90_000, leaves)];
        assert_eq!(through(events.clone()).usage.missed.0, 100_000);
        let end = |at| (at, Event::End { attempt: 1, ending: Ending::Exit(0), program: None, used: None });
        let unbegun = through([events.clone(), vec![end(91_000)]].concat());
        assert_eq!((unbegun.usage.had.0, unbegun.usage.missed.0), (0, 100_000));
        events.extend([(30_000, Event::Start { attempt: 1 }), end(91_000)]);
        let over = through(events);
        assert_eq!((over.usage.had.0, over.usage.missed.0), (61_000, 30_000));
        let reason = "its promise `p` was released".to_owned();
        let given_back = Event::PromiseEnded { reason, stop: StopOrder::default() };
        assert_eq!(through(vec![(90_000, given_back)]).usage.missed.0, 90_000);
    }

    #[test]
    fn an_end_before_the_loss_of_its_node_counts_from_when_it_was() {
        let over = through(vec![
            (0, Event::Place { attempt: 1, node: "n".to_owned() }),
            (1_000, Event::Start { attempt: 1 }),
            (9_000, Event::NodeLost { attempt: 1 }),
            (4_000, Event::End { attempt: 1, ending: Ending::Exit(0), program: None, used: None }),
        ]);
        assert_eq!((over.usage.had.0, over.usage.missed.0), (3_000, 1_000));
    }
}
