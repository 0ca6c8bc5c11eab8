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

/// The agent's ends of a run's pipes.
#[derive(Debug)]
pub(super) struct RunPipes {
    pub stdout: Receiver,
    pub stderr: Receiver,
    pub stdin: Option<Sender>,
}

impl Run {
    pub(super) fn new(
        link: Arc<Link>,
        id: u64,
        started: oneshot::Receiver<StartAnswer>,
        ended: oneshot::Receiver<RunOutcome>,
        pipes: RunPipes,
    ) -> Self {
        let RunPipes { stdout, stderr, stdin } = pipes;
        Run {
            link,
            id,
            pid: None,
            began: Instant::now(),
            started: Some(started),
            ended,
            outcome: None,
            stdout: Some(stdout),
            stderr: Some(stderr),
            stdin,
        }
    }

    /// Waits until the program is executed or could not be. May be dropped and called again.
    pub(super) async fn confirmed(&mut self) -> Result<(), SpawnError> {
        let Some(started) = &mut self.started else { return Ok(()) };
        let answer = started.await.unwrap_or(Err(SpawnError::LauncherGone));
        self.started = None;
        self.pid = Some(answer?);
        Ok(())
    }

    /// Waits for the end of a run that may not have started yet. May be dropped and called again.
    pub(super) async fn outcome(&mut self) -> Result<RunOutcome, SpawnError> {
        self.confirmed().await?;
        Ok(self.ended().await)
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
    /// Makes the pipes of a run: the agent's ends, which do not block, and the run's, which do (output and error, and
    /// input).
    pub fn new(
        stdin: Stdin,
        owner: Option<&Identity>,
    ) -> std::io::Result<(Self, [OwnedFd; 2], Option<OwnedFd>)> {
        let (stdout, stdout_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (stdin_end, stdin) = match stdin {
            Stdin::Null => (None, None),
            Stdin::Pipe => {
                let (stdin_end, stdin) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                rustix::fs::fcntl_setfl(&stdin, OFlags::NONBLOCK)?;
                (Some(stdin_end), Some(Sender::from_owned_fd_unchecked(stdin)?))
            }
        };
        if let Some(Identity { uid, gid, .. }) = owner {
            // Or the run could not open `/dev/stderr`, which is how scripts write there.
            for end in [&stdout_end, &stderr_end].into_iter().chain(&stdin_end) {
                rustix::fs::fchown(end, Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)))?;
            }
        }
        for end in [&stdout, &stderr] {
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK)?;
        }
        let stdout = Receiver::from_owned_fd_unchecked(stdout)?;
        let stderr = Receiver::from_owned_fd_unchecked(stderr)?;
        Ok((RunPipes { stdout, stderr, stdin }, [stdout_end, stderr_end], stdin_end))
    }
}
