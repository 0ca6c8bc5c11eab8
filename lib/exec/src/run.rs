//! One run, as the agent holds it.

use std::sync::Arc;
use std::time::Instant;

use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;

use super::link::{Link, StartAnswer};
use super::protocol::Request;
use super::{Ended, SpawnError};

/// A run under way. Dropping it kills it.
#[derive(Debug)]
pub struct Run {
    link: Arc<Link>,
    id: u64,
    pid: Option<i32>,
    began: Instant,
    started: Option<oneshot::Receiver<StartAnswer>>,
    ended: oneshot::Receiver<Ended>,
    outcome: Option<Ended>,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    stdin: Option<Sender>,
}

/// The agent's ends of a run's pipes.
#[derive(Debug)]
pub(super) struct Ends {
    pub stdout: Receiver,
    pub stderr: Receiver,
    pub stdin: Option<Sender>,
}

impl Run {
    pub(super) fn new(
        link: Arc<Link>,
        id: u64,
        started: oneshot::Receiver<StartAnswer>,
        ended: oneshot::Receiver<Ended>,
        ends: Ends,
    ) -> Self {
        let Ends { stdout, stderr, stdin } = ends;
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

    /// Waits until the program is executed, or could not be. May be dropped and called again.
    pub(super) async fn confirmed(&mut self) -> Result<(), SpawnError> {
        let Some(started) = &mut self.started else { return Ok(()) };
        let answer = started.await.unwrap_or(Err(SpawnError::LauncherGone));
        self.started = None;
        self.pid = Some(answer?);
        Ok(())
    }

    /// Waits for the end of a run whose start was not waited for. May be dropped and called again.
    pub(super) async fn outcome(&mut self) -> Result<Ended, SpawnError> {
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

    /// SIGTERM to all of its processes.
    pub fn terminate(&self) {
        self.link.post(&Request::Terminate { run: self.id });
    }

    /// SIGKILL to all of its processes.
    pub fn kill(&self) {
        self.link.post(&Request::Kill { run: self.id });
    }

    /// Waits until its main process has ended and nothing else of it is left. May be dropped and called again.
    pub async fn ended(&mut self) -> Ended {
        if let Some(ended) = &self.outcome {
            return ended.clone();
        }
        let ended = (&mut self.ended).await.unwrap_or_else(|_| Ended::lost(self.began.elapsed()));
        self.outcome.insert(ended).clone()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Whether its end was waited for or not, the link knows whether it is there.
        if self.link.is_under_way(self.id) {
            self.kill();
        }
    }
}
