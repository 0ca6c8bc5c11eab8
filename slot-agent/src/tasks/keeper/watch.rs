//! A task under way: its output, and everything that may end it before it ends by itself.

use std::future::pending;
use std::io;
use std::path::Path;
use std::time::Duration;

use estimand_api::task::{CHECKPOINT_GRACE, STOP_GRACE, TaskEnding};
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::super::folder::{AttemptFolder, poke};
use super::super::lease::LeaseWatch;
use super::super::log::LogWriter;
use super::output::Outputs;
use super::step::Step;
use super::work::Work;
use super::{Keeper, NEWS_OF_LINES, NEWS_OF_STAGE, is_told_to_end, now_micros, say};

/// How soon the agent is told of lines, so that many are told at once.
const TELL_AFTER: Duration = Duration::from_millis(20);
/// How often lines that wait for room on the disk are tried again.
const SETTLE_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether the folder is still there.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A task under way.
pub struct Watch<'a> {
    folder: &'a AttemptFolder,
    news: &'a Path,
    log: &'a mut LogWriter,
    lease: Option<&'a LeaseWatch>,
    /// Wakes this process.
    control: Receiver,
    terminated: Signal,
    /// Why it is being ended.
    reason: Option<TaskEnding>,
    /// How long it may run.
    timeout: Option<Duration>,
    is_running: bool,
    /// When it times out; once it is told to end, when it is killed.
    deadline: Option<Instant>,
    killed: bool,
    /// It was asked to write down how far it is, and not yet to end.
    saving: bool,
    tell_at: Option<Instant>,
}

/// Something that has happened.
enum Event {
    Ended(TaskEnding),
    Running,
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
            timeout,
            is_running: false,
            deadline: None,
            killed: false,
            saving: false,
            tell_at: None,
        })
    }

    /// Returns when nothing of it is left and all of its output is in the log.
    pub async fn see_through(mut self, mut work: Work, mut outputs: Outputs) -> TaskEnding {
        // It may have been told to while it was started.
        self.look(&work);
        let mut look_at = Instant::now() + LOOK_EVERY;
        loop {
            match self.next(&mut work, &mut outputs, look_at).await {
                Event::Ended(ending) => {
                    self.log.append(outputs.rest());
                    return self.reason.unwrap_or(ending);
                }
                Event::Running => self.note_running(),
                Event::LeaseOver => self.kill(TaskEnding::NodeLost, &work),
                Event::Deadline if self.reason.is_none() => self.end(TaskEnding::TimedOut, &work),
                Event::Deadline if self.saving => self.terminate(&work),
                Event::Deadline => {
                    let reason = self.reason.clone().unwrap_or(TaskEnding::TimedOut);
                    self.kill(reason, &work);
                }
                Event::Woken => {
                    let _ = self.control.try_read(&mut [0; 64]);
                    self.look(&work);
                }
                // The machine goes down, or somebody ends this process; a task is not ended for what it did.
                Event::Terminated => self.end(TaskEnding::NodeLost, &work),
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
                    self.look(&work);
                }
            }
        }
    }

    async fn next(&mut self, work: &mut Work, outputs: &mut Outputs, look_at: Instant) -> Event {
        let settle_at = self.log.waits().then(|| Instant::now() + SETTLE_EVERY);
        let deadline = self.deadline.filter(|_| !self.killed);
        tokio::select! {
            biased;
            step = work.step(self.is_running) => match step {
                Step::Running => Event::Running,
                Step::Ended(ending) => Event::Ended(ending),
            },
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

    /// It runs now, and its time with it.
    fn note_running(&mut self) {
        self.is_running = true;
        if let Err(error) = self.folder.write_instant("running", now_micros()) {
            say(format_args!("that it runs cannot be written: {error}"));
        }
        poke(self.news, NEWS_OF_STAGE);
        if self.reason.is_none() {
            self.deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        }
    }

    fn tell_soon(&mut self) {
        self.tell_at.get_or_insert_with(|| Instant::now() + TELL_AFTER);
    }

    /// Does what the folder says.
    fn look(&mut self, work: &Work) {
        if !self.folder.has("accepted.json") {
            // Somebody has removed it: the task belongs nowhere any more.
            self.kill(TaskEnding::NodeLost, work);
        } else if is_told_to_end(self.folder) {
            match self.folder.has("checkpoint") {
                true => self.checkpoint(work),
                false => self.end(TaskEnding::Cancelled, work),
            }
        }
    }

    /// Asks it to write down how far it is, and to end after that, unless it was asked to end before.
    fn checkpoint(&mut self, work: &Work) {
        if self.reason.is_none() {
            self.reason = Some(TaskEnding::Cancelled);
            self.saving = true;
            self.deadline = Some(Instant::now() + CHECKPOINT_GRACE);
            work.checkpoint();
        }
    }

    /// Asks it to end, unless it was asked before.
    fn end(&mut self, reason: TaskEnding, work: &Work) {
        if self.reason.is_none() {
            self.reason = Some(reason);
            self.terminate(work);
        }
    }

    fn terminate(&mut self, work: &Work) {
        self.saving = false;
        self.deadline = Some(Instant::now() + STOP_GRACE);
        work.terminate();
    }

    fn kill(&mut self, reason: TaskEnding, work: &Work) {
        if !std::mem::replace(&mut self.killed, true) {
            self.reason.get_or_insert(reason);
            work.kill();
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
