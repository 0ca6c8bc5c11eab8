//! One run from start to end, with bounds on its time and output.
//!
//! Pipes are always emptied, so a flood of output costs its author time and the agent no memory. Nothing here
//! waits for a pipe to close: a run has ended when the launcher reports it, and then the rest in the pipes is read
//! and no more. Most runs are over at once and print less than a pipe holds, so nothing waits for the pipes of a run
//! that is not reported as started before it has ended.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;

use super::run::{RunNews, watched};
use super::{Launcher, Run, RunOutcome, RunSpec, SpawnError};

/// A pipe holds no more than this at a time, unless its owner made it larger.
const CHUNK: usize = 64 * 1024;
/// How many chunks are read before others have their turn.
const CHUNKS_A_TURN: usize = 8;
/// How much is read after the end of a run. More than a pipe holds comes from a writer that should not exist.
const MAX_REMAINDER: u64 = 2 * 1024 * 1024;

thread_local! {
    /// Output is read into this before the part to keep is known.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into_boxed_slice());
}

/// The bounds on the time and output of a run.
#[derive(Debug, Clone)]
pub struct CaptureLimits {
    /// After this its processes are told to end (SIGTERM),
    pub timeout: Duration,
    /// and after this they are killed.
    pub grace: Duration,
    /// How much of its output is kept, from the start.
    pub max_stdout: usize,
    /// How much of its standard error is kept, up to the end.
    pub max_stderr: usize,
}

/// A run that has ended, with its output.
#[derive(Debug, Clone)]
pub struct CapturedRun {
    pub outcome: RunOutcome,
    pub reason: EndReason,
    pub stdout: Vec<u8>,
    /// The length of all its output; more than `stdout` holds means that it was cut.
    pub stdout_total: u64,
    /// The last of its standard error.
    pub stderr_tail: Vec<u8>,
    pub started_at: Instant,
}

/// The reason for which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It ended by itself.
    Completed,
    TimedOut,
    /// Its slot is to end.
    Stopped,
}

/// Runs a program and keeps its output. `stop` ends it early, in the same way as its timeout. Dropping the
/// future kills the run.
pub async fn capture(
    launcher: &Launcher,
    spec: RunSpec<'_>,
    bounds: &CaptureLimits,
    stop: impl Future<Output = ()>,
) -> Result<CapturedRun, SpawnError> {
    let started_at = Instant::now();
    let (mut run, [stdout, stderr]) = launcher.begin(spec, true).await?;
    let mut stdout = Output::new(stdout, Retention::Head(bounds.max_stdout));
    let mut stderr = Output::new(stderr, Retention::Tail(bounds.max_stderr));
    let mut ending = RunEnd { reason: EndReason::Completed, killed: false };
    let mut deadline = pin!(tokio::time::sleep_until((started_at + bounds.timeout).into()));
    let mut stop = pin!(stop);
    let outcome = loop {
        tokio::select! {
            biased;
            news = run.news() => match news? {
                RunNews::Started => stdout.watch().and_then(|()| stderr.watch()).map_err(SpawnError::Pipes)?,
                RunNews::Ended(outcome) => break outcome,
            },
            () = &mut stop, if ending.reason == EndReason::Completed => {
                ending.begin(EndReason::Stopped, &run);
                deadline.as_mut().reset((Instant::now() + bounds.grace).into());
            }
            () = &mut deadline, if !ending.killed => {
                if ending.reason == EndReason::Completed {
                    ending.begin(EndReason::TimedOut, &run);
                    deadline.as_mut().reset((Instant::now() + bounds.grace).into());
                } else {
                    ending.killed = true;
                    run.kill();
                }
            }
            () = stdout.readable() => stdout.read(CHUNKS_A_TURN),
            () = stderr.readable() => stderr.read(CHUNKS_A_TURN),
        }
    };
    stdout.rest();
    stderr.rest();
    let stdout_total = stdout.total;
    Ok(CapturedRun {
        outcome,
        reason: ending.reason,
        stdout: stdout.into_kept(),
        stdout_total,
        stderr_tail: stderr.into_kept(),
        started_at,
    })
}

/// The progress of a run towards its end.
struct RunEnd {
    reason: EndReason,
    killed: bool,
}

impl RunEnd {
    fn begin(&mut self, reason: EndReason, run: &Run) {
        self.reason = reason;
        run.terminate();
    }
}

/// The part of an output that is kept.
#[derive(Debug, Clone, Copy)]
enum Retention {
    Head(usize),
    Tail(usize),
}

/// The reading end of a pipe.
#[derive(Debug)]
enum Pipe {
    /// Left alone until its run is known to have started or ended. To read it may block.
    Unwatched(OwnedFd),
    Watched(Receiver),
    Closed,
}

/// A pipe that is read, and the part of its output that is kept.
#[derive(Debug)]
struct Output {
    pipe: Pipe,
    retention: Retention,
    bytes: Vec<u8>,
    total: u64,
}

impl Output {
    fn new(pipe: OwnedFd, retention: Retention) -> Self {
        Output { pipe: Pipe::Unwatched(pipe), retention, bytes: Vec::new(), total: 0 }
    }

    /// Has the runtime wait for it from now on.
    fn watch(&mut self) -> io::Result<()> {
        self.pipe = match std::mem::replace(&mut self.pipe, Pipe::Closed) {
            Pipe::Unwatched(pipe) => Pipe::Watched(watched(pipe)?),
            other => other,
        };
        Ok(())
    }

    /// Waits until there is something to read, for ever if there never will be.
    async fn readable(&self) {
        match &self.pipe {
            // An error shows when it is read.
            Pipe::Watched(pipe) => drop(pipe.readable().await),
            Pipe::Unwatched(_) | Pipe::Closed => std::future::pending().await,
        }
    }

    /// Reads without waiting, up to so many chunks.
    fn read(&mut self, chunks: usize) {
        SCRATCH.with_borrow_mut(|scratch| {
            for _ in 0..chunks {
                let Pipe::Watched(pipe) = &self.pipe else { return };
                match pipe.try_read(scratch) {
                    Ok(0) => self.pipe = Pipe::Closed,
                    Ok(length) => self.keep(&scratch[..length]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => self.pipe = Pipe::Closed,
                }
            }
        });
    }

    /// Reads the rest after the end, without waiting: the pipe itself is asked how much that is. Whatever the run has
    /// handed the pipe to may read and write it still, so even then it may hold less, or more.
    fn rest(&mut self) {
        let Some(end) = self.pipe.end() else { return };
        let mut left = rustix::io::ioctl_fionread(end).unwrap_or(0).min(MAX_REMAINDER) as usize;
        if left == 0 || (self.pipe.blocks() && rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK).is_err()) {
            return;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            while left > 0 {
                let Some(end) = self.pipe.end() else { return };
                match rustix::io::read(end, &mut scratch[..left.min(CHUNK)]) {
                    Ok(0) => return,
                    Ok(length) => {
                        self.keep(&scratch[..length]);
                        left -= length;
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        });
    }

    fn keep(&mut self, read: &[u8]) {
        self.total += read.len() as u64;
        match self.retention {
            Retention::Head(most) => {
                let room = most.saturating_sub(self.bytes.len());
                self.bytes.extend_from_slice(&read[..read.len().min(room)]);
            }
            Retention::Tail(most) => {
                let last = &read[read.len().saturating_sub(most)..];
                // The older part goes when it is as long as the part that is kept, so that little is moved.
                if self.bytes.len() + last.len() > 2 * most {
                    let keep = most - last.len();
                    self.bytes.drain(..self.bytes.len().saturating_sub(keep));
                }
                self.bytes.extend_from_slice(last);
            }
        }
    }

    fn into_kept(mut self) -> Vec<u8> {
        if let Retention::Tail(most) = self.retention {
            self.bytes.drain(..self.bytes.len().saturating_sub(most));
        }
        self.bytes
    }
}

impl Pipe {
    fn blocks(&self) -> bool {
        matches!(self, Pipe::Unwatched(_))
    }

    fn end(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Pipe::Unwatched(pipe) => Some(pipe.as_fd()),
            Pipe::Watched(pipe) => Some(pipe.as_fd()),
            Pipe::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing reads from it.
    fn output(retention: Retention) -> Output {
        Output { pipe: Pipe::Closed, retention, bytes: Vec::new(), total: 0 }
    }

    #[test]
    fn the_head_or_the_tail_is_kept_however_it_comes_in() {
        let all: Vec<u8> = (0..=255).cycle().take(5_000).collect();
        for chunk in [1, 7, 99, 100, 101, 250, 5_000] {
            let mut head = output(Retention::Head(100));
            let mut tail = output(Retention::Tail(100));
            for part in all.chunks(chunk) {
                head.keep(part);
                tail.keep(part);
                assert!(tail.bytes.len() <= 200);
            }
            assert_eq!((head.total, head.into_kept().as_slice()), (5_000, &all[..100]));
            assert_eq!((tail.total, tail.into_kept().as_slice()), (5_000, &all[4_900..]));
        }
    }
}
