//! An attempt as its agent knows it, beside what is on disk.
//!
//! Marks are set by agents alone, one after the other, and no end is taken back: the disk is asked once for either.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use estimand_api::task::TaskWork;
use estimand_api::task_stop::StopOrder;
use estimand_exec::Identity;

use super::folder::{Accepted, AttemptFolder};
use super::lock;
use super::promise_end::WindowEnd;
use super::record::End;
use super::stop_order;
use crate::runners::Runner;

/// An attempt that is on this node.
#[derive(Debug)]
pub struct Attempt {
    pub folder: AttemptFolder,
    pub accepted: Accepted,
    /// The user of this machine as whom it runs, if not as the agent, or why it does not run here.
    pub runner: Result<Option<Runner>, String>,
    /// It has ended and is assigned no more: nothing of it is told any more.
    pub is_over: AtomicBool,
    is_stopped: AtomicBool,
    is_gone: AtomicBool,
    ended: OnceLock<Progress>,
    /// The end of its promise, if it has one.
    end: Mutex<Option<WindowEnd>>,
    /// The last order to end, if there was one.
    stop_order: Mutex<Option<StopOrder>>,
}

/// A mark that an attempt keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is to end.
    Stop,
    /// It belongs here no more.
    Gone,
}

/// How far an attempt has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    pub begun: bool,
    /// When its program was executed, in microseconds since 1970.
    pub running: Option<i64>,
    pub end: Option<End>,
}

impl Attempt {
    /// An attempt that is accepted now, with the end of its promise if it has one.
    pub fn new(folder: AttemptFolder, accepted: Accepted, end: Option<WindowEnd>) -> Self {
        let (is_over, is_stopped, is_gone) = Default::default();
        let ended = OnceLock::new();
        let end = Mutex::new(end);
        let runner = Ok(None);
        let stop_order = Mutex::default();
        Attempt { folder, accepted, runner, is_over, is_stopped, is_gone, ended, end, stop_order }
    }

    #[must_use]
    pub fn run_by(self, runner: Result<Option<Runner>, String>) -> Self {
        Attempt { runner, ..self }
    }

    /// The user of this machine as whom it runs, if not as the agent.
    pub fn identity(&self) -> Option<&Identity> {
        self.runner.as_ref().ok()?.as_ref().map(|runner| &runner.identity)
    }

    /// One that a former agent had.
    pub fn found(folder: AttemptFolder, accepted: Accepted) -> Self {
        let end = WindowEnd::read(&folder).unwrap_or_else(|error| {
            let folder = folder.path().display();
            tracing::warn!(%folder, %error, "the end of a task's promise cannot be read before it is said again");
            None
        });
        let attempt = Attempt::new(folder, accepted, end);
        for mark in [Mark::Stop, Mark::Gone] {
            attempt.flag(mark).store(attempt.folder.has(mark.name()), Ordering::Relaxed);
        }
        // An order that cannot be read is told again.
        *lock(&attempt.stop_order) = stop_order::read(&attempt.folder).ok().flatten();
        attempt
    }

    /// Its work, if this version can read that.
    pub fn work(&self) -> Option<&TaskWork> {
        self.accepted.assignment.work.supported().ok()
    }

    pub fn is_marked(&self, mark: Mark) -> bool {
        self.flag(mark).load(Ordering::Relaxed)
    }

    /// Tells it to end in this way, unless it was told that last; true if it was not. A keeper of the version before knows the
    /// marks alone.
    pub fn tell_to_stop(&self, order: StopOrder) -> io::Result<bool> {
        let mut known = lock(&self.stop_order);
        if *known == Some(order) {
            return Ok(false);
        }
        // Before the mark, so that the keeper does not end it in another way.
        stop_order::write(&self.folder, &order, known.is_none())?;
        self.mark(Mark::Stop)?;
        *known = Some(order);
        Ok(true)
    }

    /// Tells it to end, since it belongs here no more; true the first time.
    pub fn tell_gone(&self) -> io::Result<bool> {
        if self.is_marked(Mark::Gone) {
            return Ok(false);
        }
        self.mark(Mark::Gone)?;
        Ok(true)
    }

    fn mark(&self, mark: Mark) -> io::Result<()> {
        self.folder.mark(mark.name())?;
        self.flag(mark).store(true, Ordering::Relaxed);
        self.folder.wake();
        Ok(())
    }

    /// Takes the word of the task service about the end of its promise: for its keeper, which is woken if it is another one.
    pub fn end_at(&self, new: WindowEnd) -> io::Result<()> {
        let mut end = lock(&self.end);
        let new = WindowEnd::after(end.clone(), new);
        if end.as_ref() != Some(&new) {
            new.write(&self.folder)?;
            *end = Some(new);
            self.folder.wake();
        }
        Ok(())
    }

    /// The end of its promise, if that has come: it is not to begin any more.
    pub fn promise_over(&self) -> Option<WindowEnd> {
        lock(&self.end).clone().filter(WindowEnd::has_come)
    }

    pub fn progress(&self) -> io::Result<Progress> {
        if let Some(ended) = self.ended.get() {
            return Ok(ended.clone());
        }
        let steps = self.folder.steps()?;
        let end = self.folder.end_after(steps.as_ref())?;
        let (begun, running) = (steps.is_some(), steps.and_then(|steps| steps.running));
        let progress = Progress { begun, running, end };
        Ok(match progress.end {
            Some(_) => self.ended.get_or_init(|| progress).clone(),
            None => progress,
        })
    }

    fn flag(&self, mark: Mark) -> &AtomicBool {
        match mark {
            Mark::Stop => &self.is_stopped,
            Mark::Gone => &self.is_gone,
        }
    }
}

impl Mark {
    /// The name of its file.
    fn name(self) -> &'static str {
        match self {
            Mark::Stop => stop_order::STOP,
            Mark::Gone => "gone",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use estimand_api::task::{TaskAssignment, TaskEnding};

    use super::super::record::Beginning;
    use super::*;

    #[test]
    fn marks_outlive_the_agent_and_an_end_is_asked_for_once() {
        let place = tempfile::tempdir().unwrap();
        let folder = AttemptFolder::new(place.path(), "a", 1);
        let assignment = TaskAssignment { id: "a".into(), attempt: 1, ..TaskAssignment::default() };
        let accepted = Accepted { assignment, at: 7, boot: String::new() };
        folder.accept(&accepted, None, None).unwrap();
        let attempt = Attempt::new(folder.clone(), accepted.clone(), None);
        assert_eq!(attempt.progress().unwrap(), Progress::default());
        assert_eq!(stop_order::read(&folder).unwrap(), None);
        let order = StopOrder { grace_ms: Some(30_000), checkpoint: true };
        assert!(attempt.tell_to_stop(order).unwrap());
        assert!(!attempt.tell_to_stop(order).unwrap(), "only the first time");
        assert!(folder.has("stop") && folder.has("checkpoint"));
        assert_eq!(stop_order::read(&folder).unwrap(), Some(order));
        let next = Attempt::found(folder.clone(), accepted);
        assert!(next.is_marked(Mark::Stop) && !next.is_marked(Mark::Gone));
        assert!(!next.tell_to_stop(order).unwrap(), "the agent before it did");
        assert!(next.tell_to_stop(StopOrder::default()).unwrap(), "another order");
        assert_eq!(stop_order::read(&folder).unwrap(), Some(StopOrder::default()));
        assert!(next.tell_gone().unwrap() && !next.tell_gone().unwrap());

        let Beginning::Now(mut record) = folder.begin("k").unwrap() else { panic!() };
        record.add_running(8).unwrap();
        let running = Progress { begun: true, running: Some(8), end: None };
        assert_eq!(next.progress().unwrap(), running);
        let program = Some(TaskEnding::Exit(0));
        let end = End { at: 9, ending: TaskEnding::Cancelled, program, used: None };
        record.add_end(&end).unwrap();
        let ended = Progress { end: Some(end), ..running };
        assert_eq!(next.progress().unwrap(), ended);
        fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(next.progress().unwrap(), ended);
    }
}
