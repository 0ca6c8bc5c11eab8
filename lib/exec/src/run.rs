//! The agent's handle on one run, and the run's pipes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{Gid, OFlags, Uid};
use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;

use super::link::{Link, StartAnswer};
use super::protocol::Request;
use super::{Identity, RunOutcome, SpawnError, Stdin};

/// A run under way. Dropping it kills it.
#[derive(Debug)]
pub struct Run {
    link: Arc<Link>,
    id: u64,
    pid: Option<i32>,
    began: Instant,
    started: Option<oneshot::Receiver<StartAnswer>>,
    ended: oneshot::Receiver<RunOutcome>,
    outcome: Option<RunOutcome>,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    stdin: Option<Sender>,
}

/// The news of a run.
#[derive(Debug)]
pub(super) enum RunNews {
    Started,
    Ended(RunOutcome),
}

/// The pipes of a run: the agent's ends, and the run's, which block.
#[derive(Debug)]
pub(super) struct RunPipes {
    /// The reading ends of its output and error. Nothing waits for them yet, and they block.
    pub outputs: [OwnedFd; 2],
    pub stdin: Option<Sender>,
    pub run_outputs: [OwnedFd; 2],
    pub run_stdin: Option<OwnedFd>,
}

impl Run {
    pub(super) fn new(
        link: Arc<Link>,
        id: u64,
        started: oneshot::Receiver<StartAnswer>,
        ended: oneshot::Receiver<RunOutcome>,
        stdin: Option<Sender>,
    ) -> Self {
        Run {
            link,
            id,
            pid: None,
            began: Instant::now(),
            started: Some(started),
            ended,
            outcome: None,
            stdout: None,
            stderr: None,
            stdin,
        }
    }

    /// Has the runtime wait for its output and error.
    pub(super) fn watch(&mut self, [stdout, stderr]: [OwnedFd; 2]) -> std::io::Result<()> {
        (self.stdout, self.stderr) = (Some(watched(stdout)?), Some(watched(stderr)?));
        Ok(())
    }

    /// Waits until the program is executed or could not be. May be dropped and called again.
    pub(super) async fn confirmed(&mut self) -> Result<(), SpawnError> {
        let Some(started) = &mut self.started else { return Ok(()) };
        let answer = started.await.unwrap_or(Err(SpawnError::LauncherGone));
        self.started = None;
        self.pid = Some(answer?);
        Ok(())
    }

    /// Waits until it is known to have started, and then until it has ended; most have ended when it is known. May be
    /// dropped and called again.
    pub(super) async fn news(&mut self) -> Result<RunNews, SpawnError> {
        if self.started.is_some() {
            self.confirmed().await?;
            match self.ended.try_recv() {
                Ok(outcome) => self.outcome = Some(outcome),
                // A launcher that is gone has reported none.
                Err(_) => return Ok(RunNews::Started),
            }
        }
        Ok(RunNews::Ended(self.ended().await))
    }

    /// The main process; its number may be another's once the run has ended.
    pub fn pid(&self) -> i32 {
        self.pid.unwrap_or(0)
    }

    /// The reading end of its standard output, which ends when the run has; `None` when it was taken already.
    pub fn stdout(&mut self) -> Option<Receiver> {
        self.stdout.take()
    }

    /// The reading end of its standard error, which ends when the run has; `None` when it was taken already.
    pub fn stderr(&mut self) -> Option<Receiver> {
        self.stderr.take()
    }

    /// The writing end of its standard input, if a pipe was asked for and was not taken already.
    pub fn stdin(&mut self) -> Option<Sender> {
        self.stdin.take()
    }

    /// SIGUSR1 to its main process: it is to write down how far it is. One that does not know the signal ends by it.
    pub fn checkpoint(&self) {
        self.link.post(&Request::Checkpoint { run: self.id });
    }

    /// SIGTERM to all of its processes.
    pub fn terminate(&self) {
        self.link.post(&Request::Terminate { run: self.id });
    }

    /// SIGKILL to all of its processes.
    pub fn kill(&self) {
        self.link.post(&Request::Kill { run: self.id });
    }

    /// Waits until its main process has ended and nothing else of it is left. May be dropped and called again.
    pub async fn ended(&mut self) -> RunOutcome {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        let outcome = (&mut self.ended).await.unwrap_or_else(|_| RunOutcome::lost(self.began.elapsed()));
        self.outcome.insert(outcome).clone()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The link knows whether it still runs, even if nothing waits for its end.
        if self.link.is_under_way(self.id) {
            self.kill();
        }
    }
}

impl RunPipes {
    /// `owner` is the run's user, if that is not this process's.
    pub fn new(stdin: Stdin, owner: Option<&Identity>) -> std::io::Result<Self> {
        let (stdout, run_stdout) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, run_stderr) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (run_stdin, stdin) = match stdin {
            Stdin::Null => (None, None),
            Stdin::Pipe => {
                let (run_stdin, stdin) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                rustix::fs::fcntl_setfl(&stdin, OFlags::NONBLOCK)?;
                (Some(run_stdin), Some(Sender::from_owned_fd_unchecked(stdin)?))
            }
        };
        if let Some(Identity { uid, gid, .. }) = owner {
            // Or the run could not open `/dev/stderr`, which is how scripts write there.
            for end in [&run_stdout, &run_stderr].into_iter().chain(&run_stdin) {
                rustix::fs::fchown(end, Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)))?;
            }
        }
        Ok(RunPipes { outputs: [stdout, stderr], stdin, run_outputs: [run_stdout, run_stderr], run_stdin })
    }
}

/// The reading end of a pipe, for which the runtime waits.
pub(super) fn watched(end: OwnedFd) -> std::io::Result<Receiver> {
    rustix::fs::fcntl_setfl(&end, OFlags::NONBLOCK)?;
    Receiver::from_owned_fd_unchecked(end)
}
