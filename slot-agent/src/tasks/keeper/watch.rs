//! A task under way: its output, and everything that may end it before it ends by itself.

use std::future::pending;
use std::time::Duration;

use estimand_api::task::TaskEnding;
use estimand_api::task_log::OpenLine;
use estimand_api::task_stop::StopOrder;
use estimand_api::task_usage::TaskUsage;
use tokio::time::{Instant, sleep_until};

use super::super::lease::{LeaseWatch, boot_clock};
use super::super::log::{OpenDisplay, write_open};
use super::super::promise_end::WindowEnd;
use super::attempt::Attempt;
use super::output::Outputs;
use super::step::Step;
use super::work::Work;
use super::{Wakes, now_micros, say, told_to_end};

/// How soon it is said that it runs: one that is over by then says so with its end.
const RUNS_AFTER: Duration = Duration::from_millis(1);
/// How soon the agent is told of lines, so that many are told at once.
const TELL_AFTER: Duration = Duration::from_millis(20);
/// How often lines that wait for room on the disk are tried again.
const SETTLE_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether the folder is still there.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A task under way.
pub struct Watch<'a> {
    attempt: &'a mut Attempt,
    wakes: &'a mut Wakes,
    /// Its end, once it is to end.
    stopping: Option<TaskStop>,
    /// How long it may run.
    timeout: Option<Duration>,
    is_running: bool,
    /// When it times out.
    deadline: Option<Instant>,
    killed: bool,
    /// The end of its promise, if it has one.
    promise: Option<PromiseTimes>,
    /// The last order to end of its folder.
    told: Option<StopOrder>,
    tell_at: Option<Instant>,
    open: OpenDisplay,
    /// Since when it runs, in microseconds since 1970, and when that is said.
    unsaid: Option<(i64, Instant)>,
}

/// The end of a promise by this process's clock.
struct PromiseTimes {
    end: WindowEnd,
    /// When its end begins,
    soft: Instant,
    /// and when it is killed.
    hard: Instant,
}

/// The end of a task that is to end.
struct TaskStop {
    reason: TaskEnding,
    /// When it gets SIGTERM, until it has.
    terminate_at: Option<Instant>,
    /// When it gets SIGKILL.
    kill_at: Instant,
}

/// Something that has happened.
enum Event {
    Ended(TaskEnding, Option<TaskUsage>),
    Running,
    LeaseOver,
    PromiseEnds,
    PromiseOver,
    Deadline,
    NextSignal,
    Woken,
    Terminated,
    Output,
    ShowOpen,
    SayRunning,
    Tell,
    Settle,
    Look,
}

impl<'a> Watch<'a> {
    pub fn new(attempt: &'a mut Attempt, wakes: &'a mut Wakes, timeout: Option<Duration>) -> Self {
        let mut watch = Watch {
            attempt,
            wakes,
            stopping: None,
            timeout,
            is_running: false,
            deadline: None,
            killed: false,
            promise: None,
            told: None,
            tell_at: None,
            open: OpenDisplay::default(),
            unsaid: None,
        };
        watch.look_at_promise();
        watch
    }

    /// Returns when nothing of it is left and all of its output is in the log.
    pub async fn see_through(mut self, mut work: Work, mut outputs: Outputs) -> TaskEnding {
        // Its keeper has looked since its name is in the folder, and is woken for what came later.
        let mut look_at = Instant::now() + LOOK_EVERY;
        loop {
            match self.next(&mut work, &mut outputs, look_at).await {
                Event::Ended(ending, used) => {
                    self.attempt.used = used;
                    self.attempt.log.append(outputs.rest());
                    self.write_running();
                    let Some(TaskStop { reason, .. }) = self.stopping else { return ending };
                    self.attempt.program = Some(ending).filter(TaskEnding::is_of_program);
                    return reason;
                }
                Event::Running => self.note_running(),
                Event::LeaseOver => self.kill(TaskEnding::NodeLost, &work),
                Event::PromiseEnds => self.promise_ends(&work),
                Event::PromiseOver => self.promise_over(&work),
                Event::Deadline => self.stop(TaskEnding::TimedOut, StopOrder::default(), &work),
                Event::NextSignal => self.send_signal(&work),
                Event::Woken => {
                    let _ = self.wakes.control.try_read(&mut [0; 64]);
                    if let Some(lease) = &self.attempt.lease {
                        lease.look_again();
                    }
                    self.look(&work);
                }
                // The machine goes down, or somebody ends this process; a task is not ended for what it did.
                Event::Terminated => {
                    self.wakes.is_terminated = true;
                    self.stop(TaskEnding::NodeLost, StopOrder::default(), &work);
                }
                Event::Output => {
                    let lines = outputs.read();
                    self.open.note_output(outputs.is_open(), Instant::now());
                    if !lines.is_empty() {
                        self.attempt.log.append(lines);
                        self.tell_soon();
                    }
                }
                Event::ShowOpen => self.show_open(outputs.open()),
                Event::SayRunning => {
                    self.write_running();
                    self.attempt.news.of_stage();
                }
                Event::Tell => {
                    self.tell_at = None;
                    self.attempt.news.of_lines();
                }
                Event::Settle => {
                    self.attempt.log.settle(false);
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
        let settle_at = self.attempt.log.waits().then(|| Instant::now() + SETTLE_EVERY);
        let deadline = self.deadline.filter(|_| self.stopping.is_none());
        let next_signal = self.stopping.as_ref().map(TaskStop::next_signal).filter(|_| !self.killed);
        let soft = self.promise.as_ref().map(|promise| promise.soft).filter(|_| self.stopping.is_none());
        let hard = self.promise.as_ref().map(|promise| promise.hard).filter(|_| !self.killed);
        tokio::select! {
            biased;
            step = work.step(self.is_running) => match step {
                Step::Running => Event::Running,
                Step::Ended { ending, used } => Event::Ended(ending, used),
            },
            () = over(self.attempt.lease.as_ref()), if !self.killed => Event::LeaseOver,
            () = at(hard) => Event::PromiseOver,
            () = at(soft) => Event::PromiseEnds,
            () = at(deadline) => Event::Deadline,
            () = at(next_signal) => Event::NextSignal,
            _ = self.wakes.control.readable() => Event::Woken,
            _ = self.wakes.terminated.recv() => Event::Terminated,
            () = at(self.unsaid.map(|(_, at)| at)) => Event::SayRunning,
            () = at(self.tell_at) => Event::Tell,
            () = at(self.open.due()) => Event::ShowOpen,
            () = sleep_until(look_at) => Event::Look,
            () = outputs.readable() => Event::Output,
            () = at(settle_at) => Event::Settle,
        }
    }

    /// It runs now, and its time with it.
    fn note_running(&mut self) {
        self.is_running = true;
        self.unsaid = Some((now_micros(), Instant::now() + RUNS_AFTER));
        if self.stopping.is_none() {
            self.deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        }
    }

    fn write_running(&mut self) {
        if let Some((since, _)) = self.unsaid.take()
            && let Err(error) = self.attempt.write_running(since)
        {
            say(format_args!("that it runs cannot be written: {error}"));
        }
    }

    fn tell_soon(&mut self) {
        self.tell_at.get_or_insert_with(|| Instant::now() + TELL_AFTER);
    }

    /// Finds out when its promise ends, which may have been moved. What cannot be read is as it was.
    fn look_at_promise(&mut self) {
        match WindowEnd::read(&self.attempt.folder) {
            Ok(Some(end)) => {
                let left = |nanos: u64| Duration::from_nanos(nanos.saturating_sub(boot_clock()));
                let at = |nanos: u64| Instant::now() + left(nanos);
                self.promise = Some(PromiseTimes { soft: at(end.begins()), hard: at(end.hard), end });
            }
            Ok(None) => {}
            Err(error) => say(format_args!("the end of its promise cannot be read: {error}")),
        }
    }

    /// Its promise is about to be over, unless it was extended: it is asked to end.
    fn promise_ends(&mut self, work: &Work) {
        self.look_at_promise();
        let due = self.promise.as_ref().filter(|promise| promise.soft <= Instant::now());
        if let Some((ending, order)) =
            due.map(|promise| (promise.end.ending(), promise.end.order(boot_clock())))
        {
            self.stop(ending, order, work);
        }
    }

    fn promise_over(&mut self, work: &Work) {
        self.look_at_promise();
        let due = self.promise.as_ref().filter(|promise| promise.hard <= Instant::now());
        if let Some(ending) = due.map(|promise| promise.end.ending()) {
            self.kill(ending, work);
        }
    }

    /// Shows the lines that have not ended. A full disk does not take them, which loses nothing.
    fn show_open(&mut self, open: Vec<OpenLine>) {
        if let Some(open) = self.open.renew(open, now_micros(), Instant::now())
            && write_open(self.attempt.folder.path(), open).is_ok()
        {
            self.attempt.news.of_lines();
        }
    }

    /// Does what the folder says.
    fn look(&mut self, work: &Work) {
        self.look_at_promise();
        if !self.attempt.folder.has("accepted.json") {
            // Somebody has removed it: the task belongs nowhere any more.
            self.kill(TaskEnding::NodeLost, work);
        } else if let Some(order) = told_to_end(&self.attempt.folder)
            && self.told.replace(order) != Some(order)
        {
            self.stop(TaskEnding::Cancelled, order, work);
        }
    }

    /// Has it end in this way. If it is to end already, it does so for the reason that it has, and no later.
    fn stop(&mut self, reason: TaskEnding, order: StopOrder, work: &Work) {
        let now = Instant::now();
        let terminate_at = now + order.terminates_after();
        let kill_at = now + order.kills_after();
        match &mut self.stopping {
            Some(stopping) => {
                stopping.terminate_at = stopping.terminate_at.map(|at| at.min(terminate_at));
                stopping.kill_at = stopping.kill_at.min(kill_at);
            }
            None => {
                self.stopping = Some(TaskStop { reason, terminate_at: Some(terminate_at), kill_at });
                if order.checkpoint {
                    work.checkpoint();
                }
            }
        }
        self.send_signal(work);
    }

    /// Sends it the signal that is due, if one is.
    fn send_signal(&mut self, work: &Work) {
        let now = Instant::now();
        let Some(stopping) = &mut self.stopping else { return };
        if stopping.kill_at <= now {
            let reason = stopping.reason.clone();
            self.kill(reason, work);
        } else if stopping.terminate_at.is_some_and(|at| at <= now) {
            stopping.terminate_at = None;
            work.terminate();
        }
    }

    fn kill(&mut self, reason: TaskEnding, work: &Work) {
        if !std::mem::replace(&mut self.killed, true) {
            let now = Instant::now();
            self.stopping.get_or_insert(TaskStop { reason, terminate_at: None, kill_at: now });
            work.kill();
        }
    }
}

impl TaskStop {
    fn next_signal(&self) -> Instant {
        self.terminate_at.map_or(self.kill_at, |at| at.min(self.kill_at))
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
