//! A stream: one process that lives long and says a value a line. It is started again when it ends, after a
//! pause that grows; it is asked for a value by an empty line on its stdin when its interval passes, which a
//! program that does not read stdin never notices.
//!
//! One that speaks faster than is taken is not read for a while: then its pipe is full and it waits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::names::DataName;
use estimand_api::value::MAX_VALUE_BYTES;
use estimand_api::write::Order;
use estimand_dialects::{self as dialects, Answer};
use estimand_runtime::BackOff;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Context;
use super::attempt::{
    GRACE, MAX_STDERR_BYTES, because, exit_text, not_started, over_limit, run_spec, stderr_shown,
};
use super::disk::RunDisk;
use super::exec::{Outcome, RunResult};
use super::lines::{Line, Lines};
use super::plan;
use super::stream_events::{StreamEvent, StreamUpdate};
use super::verdict;
use super::version::Shared;
use super::writes::{self, Origin};
use crate::allow::ProgramError;
use crate::timetable::Key;
use estimand_exec::{Cell, Run, Stdin};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A process that lived this long is started again as soon as the first time.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// Its standard error is told no more often.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// Values a second that are taken of one stream, and how many at once.
const VALUES_PER_SECOND: u32 = 100;
const BURST: u32 = 1_000;
/// Bytes that are read and thrown away for the price of a value.
const BYTES_A_TOKEN: usize = 16 * 1024;

/// Supervises the process until the version is ended.
pub async fn stream(context: Arc<Context>, shared: Arc<Shared>, key: Key, events: mpsc::Sender<StreamEvent>) {
    let slot = StreamReporter { name: shared.registered.registration.data_name.clone(), key, events };
    let limit = shared.registered.registration.limits.disk;
    let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
    while !shared.ends().is_requested() {
        let (began, began_at) = (Instant::now(), context.clock.now_micros());
        // Held as long as the process lives.
        let guard = shared.cell(&context.launcher).await;
        let Some(cell) = &*guard else { return };
        let over = match start(&context, &shared, cell).await {
            Ok(run) => {
                slot.tell(StreamUpdate::Started).await;
                let disk = RunDisk::new(context.home.folder_of(slot.name.as_str()), limit);
                let over = Process::new(&context, &shared, run, &slot).follow(&disk).await;
                match disk.settle().await {
                    Some(reason) => StreamEnd { outcome: Outcome::Failed(reason), ..over },
                    None => over,
                }
            }
            Err(over) => over,
        };
        drop(guard);
        if shared.ends().is_requested() {
            return;
        }
        if began.elapsed() >= HEALTHY_AFTER {
            pauses.reset();
        }
        let (StreamEnd { outcome, stderr, exit }, pause) = (over, pauses.pause());
        slot.tell(StreamUpdate::Ended { began: began_at, outcome, stderr, exit, pause }).await;
        tokio::select! {
            () = shared.ends().requested() => return,
            () = sleep(pause) => {}
        }
    }
}

/// The way to the slot.
struct StreamReporter {
    name: DataName,
    key: Key,
    events: mpsc::Sender<StreamEvent>,
}

impl StreamReporter {
    /// The slots are gone before their streams are only if the agent ends.
    async fn tell(&self, what: StreamUpdate) {
        let _ = self.events.send(StreamEvent { name: self.name.clone(), key: self.key, what }).await;
    }
}

struct StreamEnd {
    outcome: Outcome,
    stderr: String,
    exit: Option<String>,
}

async fn start(context: &Context, shared: &Shared, cell: &Cell) -> Result<Run, StreamEnd> {
    let over = |outcome| StreamEnd { outcome, stderr: String::new(), exit: None };
    let spec = run_spec(context, shared, cell, None, Stdin::Pipe).await.map_err(|error| {
        over(match error {
            ProgramError::Refused(reason) => Outcome::Refused(reason),
            ProgramError::Missing(reason) => Outcome::Missing(reason),
            ProgramError::NotNow(reason) => Outcome::Failed(reason),
        })
    })?;
    context.launcher.run(spec).await.map_err(|error| over(Outcome::Failed(not_started(context, &error))))
}

/// One life of the process.
struct Process<'a> {
    context: &'a Context,
    shared: &'a Shared,
    run: Run,
    slot: &'a StreamReporter,
    /// Until it is closed.
    errors: Option<Receiver>,
    stderr: Vec<u8>,
    /// The remark on what it wrote to standard error.
    note: Option<String>,
    /// When to tell of it, if there is something new; and when it was told last.
    tell_at: Option<Instant>,
    told: Option<Instant>,
    /// Values that may still come at once, and when that was counted.
    tokens: f64,
    counted: Instant,
    lines: u64,
    /// The reader of the lines of this life.
    reader: Box<dyn dialects::Lines>,
}

impl<'a> Process<'a> {
    fn new(context: &'a Context, shared: &'a Shared, run: Run, slot: &'a StreamReporter) -> Self {
        let (tokens, counted) = (f64::from(BURST), Instant::now());
        let reader = dialects::of(shared.registered.registration.format).lines();
        Process {
            context,
            shared,
            run,
            slot,
            errors: None,
            stderr: Vec::new(),
            note: None,
            tell_at: None,
            told: None,
            tokens,
            counted,
            lines: 0,
            reader,
        }
    }

    async fn follow(mut self, disk: &RunDisk) -> StreamEnd {
        let (stdout, mut stdin) = (self.run.stdout(), self.run.stdin());
        self.errors = self.run.stderr();
        let silence = plan::timeout_us(&self.shared.registered.registration).map(Duration::from_micros);
        let Some(stdout) = stdout else { return self.over("its output was taken already".to_owned()).await };
        let mut lines = Lines::new(stdout, MAX_VALUE_BYTES + 4096);
        let mut quiet_since = Instant::now();
        let mut chunk = vec![0; BYTES_A_TOKEN];
        let mut exceeded = pin!(disk.exceeded());
        loop {
            let silent_at = silence.map(|silence| quiet_since + silence);
            tokio::select! {
                () = self.shared.ends().requested() => return self.end("its slot ends").await,
                () = &mut exceeded => return self.end("it took too much disk").await,
                line = lines.next() => match line {
                    Ok(Line::Whole(line)) => {
                        quiet_since = Instant::now();
                        self.line(&line).await;
                    }
                    Ok(Line::Skipped(count)) => self.pay(count),
                    Ok(Line::TooLong) => self.bad(format!("a line has more than {MAX_VALUE_BYTES} bytes")).await,
                    Ok(Line::End) | Err(_) => return self.over("it closed its output".to_owned()).await,
                },
                read = read_some(&mut self.errors, &mut chunk) => match read {
                    0 => self.errors = None,
                    count => {
                        self.pay(count);
                        self.wrote(&chunk[..count]);
                    }
                },
                () = at(self.tell_at) => self.tell_what_it_wrote().await,
                () = self.shared.ask.notified() => {
                    if let Some(pipe) = &stdin
                        && pipe.try_write(b"\n").is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
                    {
                        stdin = None;
                    }
                },
                () = at(silent_at) => {
                    let reason = format!("it said nothing for {:?} and was ended", silence.unwrap_or_default());
                    return self.end(&reason).await;
                }
            }
            self.breathe().await;
        }
    }

    /// It has written to standard error, which is told soon, but not each time.
    fn wrote(&mut self, chunk: &[u8]) {
        keep_tail(&mut self.stderr, chunk);
        let soonest = self.told.map_or_else(Instant::now, |told| told + TELL_EVERY);
        self.tell_at.get_or_insert(soonest);
    }

    async fn tell_what_it_wrote(&mut self) {
        (self.tell_at, self.told) = (None, Some(Instant::now()));
        self.note = self.context.denial_advice(&self.stderr);
        let note = self.note.clone();
        self.slot.tell(StreamUpdate::Wrote { stderr: stderr_shown(&self.stderr), note }).await;
    }

    /// A line is one answer, or one of the lines of an answer.
    async fn line(&mut self, line: &[u8]) {
        let registration = &self.shared.registered.registration;
        self.lines += 1;
        let read = self.reader.line(line).map_err(|reason| dialects::explained(reason, line));
        let (outcome, answer) = Outcome::of(verdict::judge(registration, read), &self.context.node);
        // A part of an answer that is not complete costs too, but less.
        self.pay(line.len());
        match outcome {
            Outcome::Good(nodes, None) if nodes.is_empty() => return,
            _ => self.tokens -= 1.0,
        }
        let now = self.context.clock.now_micros();
        if answer != Answer::Nothing {
            let origin = self.origin(now, outcome.note().or(self.note.as_deref()));
            self.context.outbox.put(writes::values(&origin, answer));
        }
        self.tell_line(now, outcome).await;
    }

    /// A line that is no value.
    async fn bad(&mut self, reason: String) {
        let now = self.context.clock.now_micros();
        self.lines += 1;
        self.tokens -= 1.0;
        self.tell_line(now, Outcome::Failed(reason)).await;
    }

    async fn tell_line(&mut self, now: i64, outcome: Outcome) {
        let line = RunResult { goes_on: true, ..without_process(now, outcome) };
        self.slot.tell(StreamUpdate::Line(line)).await;
    }

    /// Bytes that are read and thrown away cost as well.
    fn pay(&mut self, bytes: usize) {
        self.tokens -= bytes as f64 / BYTES_A_TOKEN as f64;
    }

    fn origin<'o>(&'o self, now: i64, note: Option<&'o str>) -> Origin<'o> {
        Origin {
            registered: &self.shared.registered,
            node: &self.context.node,
            order: Order { epoch: self.shared.epoch(), sequence: self.context.sequencer.next() },
            run: self.lines,
            started_at: now,
            ended_at: now,
            exit: None,
            note,
        }
    }

    /// Waits if it speaks faster than is taken.
    async fn breathe(&mut self) {
        let now = Instant::now();
        let gained = (now - self.counted).as_secs_f64() * f64::from(VALUES_PER_SECOND);
        (self.tokens, self.counted) = ((self.tokens + gained).min(f64::from(BURST)), now);
        if self.tokens < 0.0 {
            let pause = Duration::from_secs_f64(-self.tokens / f64::from(VALUES_PER_SECOND));
            tokio::select! {
                () = self.shared.ends().requested() => {}
                () = sleep(pause.max(Duration::from_millis(10))) => {}
            }
        }
    }

    /// Its output has ended: so does the process, by itself or not.
    async fn over(mut self, reason: String) -> StreamEnd {
        match timeout(GRACE, self.run.ended()).await {
            Ok(ended) => {
                self.hear_out().await;
                let exit = exit_text(ended.exit);
                let reason = match ended.exceeded {
                    Some(over) => over_limit(over).to_owned(),
                    None => format!("it ended with {exit}{}", because(&self.stderr)),
                };
                self.done(reason, Some(exit))
            }
            Err(_) => self.end(&reason).await,
        }
    }

    /// Ends it, gently if there is time.
    async fn end(mut self, reason: &str) -> StreamEnd {
        self.run.terminate();
        let at_once = self.shared.ends_at_once().clone();
        let ended = tokio::select! {
            ended = timeout(GRACE, self.run.ended()) => ended.ok(),
            () = at_once.requested() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                self.run.kill();
                self.run.ended().await
            }
        };
        self.hear_out().await;
        let exit = exit_text(ended.exit);
        self.done(format!("{reason}{}", because(&self.stderr)), Some(exit))
    }

    /// Reads what it wrote to stderr before it ended, which says why. Nobody is left who writes, so this ends.
    async fn hear_out(&mut self) {
        let mut chunk = vec![0; BYTES_A_TOKEN];
        while let Some(pipe) = &mut self.errors
            && let Ok(Ok(count @ 1..)) = timeout(GRACE, pipe.read(&mut chunk)).await
        {
            keep_tail(&mut self.stderr, &chunk[..count]);
        }
    }

    fn done(&mut self, reason: String, exit: Option<String>) -> StreamEnd {
        let stderr = stderr_shown(&self.stderr);
        let advice = self.context.denial_advice(&self.stderr);
        StreamEnd { outcome: Outcome::Failed(reason).advised(advice), stderr, exit }
    }
}

/// An end without a process.
pub fn without_process(now: i64, outcome: Outcome) -> RunResult {
    RunResult {
        started_at: now,
        ended_at: now,
        outcome,
        exit: None,
        cpu_ms: None,
        memory: None,
        stderr: String::new(),
        goes_on: false,
    }
}

async fn read_some(pipe: &mut Option<Receiver>, chunk: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

fn keep_tail(tail: &mut Vec<u8>, more: &[u8]) {
    tail.extend_from_slice(more);
    let excess = tail.len().saturating_sub(MAX_STDERR_BYTES);
    tail.drain(..excess);
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}
