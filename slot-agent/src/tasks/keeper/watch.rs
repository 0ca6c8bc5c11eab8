//! A task under way: its output, and everything that may end it before it ends by itself.

use std::future::pending;
use std::io;
use std::path::Path;
use std::time::Duration;

use estimand_api::task::TaskEnding;
use estimand_exec::{ExceededLimit, Exit, Run, RunOutcome};
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::super::folder::{AttemptFolder, poke};
use super::super::lease::LeaseWatch;
use super::super::log::LogWriter;
use super::output::Outputs;
use super::{Keeper, NEWS_OF_LINES, is_told_to_end};

/// Between the request to end and the end.
const GRACE: Duration = Duration::from_secs(10);
/// How soon the agent is told of lines, so that many are told at once.
const TELL_AFTER: Duration = Duration::from_millis(20);
/// How often lines that wait for room on the disk are tried again.
const SETTLE_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether the folder is still there.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A task under way.
pub struct Watch<'a> {
    pub folder: &'a AttemptFolder,
    pub news: &'a Path,
    log: &'a mut LogWriter,
    lease: Option<&'a LeaseWatch>,
    /// Wakes this process.
    control: Receiver,
    terminated: Signal,
    /// Why it is being ended.
    reason: Option<TaskEnding>,
    /// When it times out; once it is told to end, when it is killed.
    deadline: Option<Instant>,
    killed: bool,
    tell_at: Option<Instant>,
}

/// Something that has happened.
enum Event {
    Ended(RunOutcome),
    LeaseOver,
    Deadline,
    Woken,
    Terminated,
    Output,
    Tell,
    Settle,
    Look,
}

impl<'a> Watch<'a> {
    pub fn new(keeper: &'a mut Keeper, timeout: Option<Duration>) -> io::Result<Self> {
        let control = OpenOptions::new().read_write(true).open_receiver(keeper.folder.file("control"))?;
        let terminated = signal(SignalKind::terminate())?;
        Ok(Watch {
            folder: &keeper.folder,
            news: &keeper.order.news,
            log: &mut keeper.log,
            lease: keeper.lease.as_ref(),
            control,
            terminated,
            reason: None,
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            killed: false,
            tell_at: None,
        })
    }

    /// Returns when nothing of it is left and all of its output is in the log.
    pub async fn see_through(mut self, mut run: Run, mut outputs: Outputs) -> TaskEnding {
        // It may have been told to while it was started.
        self.look(&run);
        let mut look_at = Instant::now() + LOOK_EVERY;
        loop {
            match self.next(&mut run, &outputs, look_at).await {
                Event::Ended(outcome) => {
                    self.log.append(outputs.rest());
                    return self.reason.unwrap_or_else(|| ending(&outcome));
                }
                Event::LeaseOver => self.kill(TaskEnding::NodeLost, &run),
                Event::Deadline if self.reason.is_none() => self.end(TaskEnding::TimedOut, &run),
                Event::Deadline => {
                    let reason = self.reason.clone().unwrap_or(TaskEnding::TimedOut);
                    self.kill(reason, &run);
                }
                Event::Woken => {
                    let _ = self.control.try_read(&mut [0; 64]);
                    self.look(&run);
                }
                // The machine goes down, or somebody ends this process; a task is not ended for what it did.
                Event::Terminated => self.end(TaskEnding::NodeLost, &run),
                Event::Output => {
                    self.log.append(outputs.read());
                    self.tell_soon();
                }
                Event::Tell => {
                    self.tell_at = None;
                    poke(self.news, NEWS_OF_LINES);
                }
                Event::Settle => {
                    self.log.settle(false);
                    self.tell_soon();
                }
                Event::Look => {
                    look_at = Instant::now() + LOOK_EVERY;
                    self.look(&run);
                }
            }
        }
    }

    async fn next(&mut self, run: &mut Run, outputs: &Outputs, look_at: Instant) -> Event {
        let settle_at = self.log.waits().then(|| Instant::now() + SETTLE_EVERY);
        let deadline = self.deadline.filter(|_| !self.killed);
        tokio::select! {
            biased;
            outcome = run.ended() => Event::Ended(outcome),
            () = over(self.lease), if !self.killed => Event::LeaseOver,
            () = at(deadline) => Event::Deadline,
            _ = self.control.readable() => Event::Woken,
            _ = self.terminated.recv() => Event::Terminated,
            () = at(self.tell_at) => Event::Tell,
            () = sleep_until(look_at) => Event::Look,
            () = outputs.readable() => Event::Output,
            () = at(settle_at) => Event::Settle,
        }
    }

    fn tell_soon(&mut self) {
        self.tell_at.get_or_insert_with(|| Instant::now() + TELL_AFTER);
    }

    /// Does what the folder says.
    fn look(&mut self, run: &Run) {
        if !self.folder.has("accepted.json") {
            // Somebody has removed it: the task belongs nowhere any more.
            self.kill(TaskEnding::NodeLost, run);
        } else if is_told_to_end(self.folder) {
            self.end(TaskEnding::Cancelled, run);
        }
    }

    /// Asks it to end, unless it was asked before.
    fn end(&mut self, reason: TaskEnding, run: &Run) {
        if self.reason.is_none() {
            self.reason = Some(reason);
            self.deadline = Some(Instant::now() + GRACE);
            run.terminate();
        }
    }

    fn kill(&mut self, reason: TaskEnding, run: &Run) {
        if !std::mem::replace(&mut self.killed, true) {
            self.reason.get_or_insert(reason);
            run.kill();
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

async fn over(lease: Option<&LeaseWatch>) {
    match lease {
        Some(lease) => lease.over().await,
        None => pending().await,
    }
}

/// How it ended by itself.
fn ending(outcome: &RunOutcome) -> TaskEnding {
    match (outcome.exceeded, outcome.exit) {
        (Some(ExceededLimit::Memory), _) => TaskEnding::OutOfMemory,
        (_, Exit::Code(code)) => TaskEnding::Exit(code),
        (_, Exit::Signal(signal)) => TaskEnding::Signal(signal),
        // Its launcher was killed, and it with it.
        (_, Exit::Lost) => TaskEnding::NodeLost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_what_ended_it() {
        let check = |exit, exceeded, expected: TaskEnding| {
            let (ran_for, cpu) = (Duration::ZERO, Duration::ZERO);
            assert_eq!(ending(&RunOutcome { exit, ran_for, cpu, memory: None, exceeded }), expected);
        };
        check(Exit::Code(3), None, TaskEnding::Exit(3));
        check(Exit::Signal(9), None, TaskEnding::Signal(9));
        check(Exit::Signal(9), Some(ExceededLimit::Memory), TaskEnding::OutOfMemory);
        check(Exit::Signal(9), Some(ExceededLimit::Processes), TaskEnding::Signal(9));
        check(Exit::Lost, None, TaskEnding::NodeLost);
    }
}
