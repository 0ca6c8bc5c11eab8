//! The launcher process as the agent sees it: started, waited for, and started anew when it dies.

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::leftovers::{self, Marks};
use super::link::{Link, lock};
use super::protocol::Request;
use super::shared::{LinkState, Shared};
use super::{LaunchError, RunOutcome, SpawnError, socket};

/// How long a launcher may take to be ready; it may have to end processes that a former one left.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long a launcher may take to end everything when it is asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// Between attempts to start one.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);
const LAST_BACK_OFF: Duration = Duration::from_secs(5);

/// A launcher process and the connection to it.
pub(super) struct Process {
    child: Child,
    pub link: Arc<Link>,
}

impl Shared {
    /// Starts a launcher process and waits until it is ready. The task returned passes on its replies.
    pub async fn start_process(&self, generation: u64) -> Result<(Process, JoinHandle<()>), LaunchError> {
        let program = &self.options.program;
        let (ours, theirs) = socket::pair().map_err(|error| LaunchError::Socket(error.into()))?;
        let link = Arc::new(Link::new(ours, generation).map_err(LaunchError::Socket)?);
        let child = Command::new(program)
            .args(&self.options.args)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| LaunchError::Start { program: program.clone(), source })?;
        let ready = link.expect_ready();
        let serving = tokio::spawn({
            let link = link.clone();
            async move {
                link.serve().await;
                // It will never be ready now.
                link.give_up_ready();
            }
        });
        let process = Process { child, link };
        let configure = Request::Configure {
            id: self.options.id.clone(),
            token: self.token.clone(),
            // The one that this one replaces left something.
            first: self.options.first && generation == 0,
            cgroups: self.options.cgroups,
            precedence: self.options.precedence,
            privileges: self.options.privileges.clone(),
            measures: self.options.measures,
        };
        let sent = process.link.send(&configure, &[]).await;
        let answer = tokio::time::timeout(START_PATIENCE, ready).await;
        match (sent, answer) {
            (Ok(()), Ok(Ok(containment))) => {
                *lock(&self.containment) = containment;
                Ok((process, serving))
            }
            _ => {
                serving.abort();
                process.reap(true).await;
                Err(LaunchError::NotReady { program: program.clone() })
            }
        }
    }

    /// Ends the processes of a dead launcher, then reports its runs as lost.
    async fn clear_away(&self, link: &Link) {
        let lost_runs = link.give_up();
        let marks = Marks {
            token: format!("{}.", self.token),
            mains: lost_runs.iter().filter_map(|run| run.pid).collect::<HashSet<_>>(),
            id: self.options.id.clone(),
        };
        let cleared = tokio::task::spawn_blocking(move || leftovers::clear_away(&marks)).await;
        if cleared.is_err() {
            tracing::error!("the processes of a dead launcher could not be cleared away");
        }
        for run in lost_runs {
            let _ = run.started.map(|sender| sender.send(Err(SpawnError::LauncherGone)));
            let _ = run.ended.send(RunOutcome::lost(run.began.elapsed()));
        }
    }
}

impl Process {
    /// Waits for the process's end, if wanted after killing it.
    async fn reap(mut self, kill: bool) {
        if kill {
            let _ = self.child.kill();
        }
        let waited = tokio::task::spawn_blocking(move || self.child.wait()).await;
        if let Ok(Err(error)) = waited {
            tracing::warn!("the launcher's end cannot be waited for: {error}");
        }
    }
}

/// Keeps a launcher running until it is stopped.
pub(super) async fn supervise(
    shared: Arc<Shared>,
    mut process: Process,
    mut serving: JoinHandle<()>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let stopped = tokio::select! {
            // The sender is gone when the last handle is.
            _ = stop.wait_for(|stop| *stop) => true,
            _ = &mut serving => false,
        };
        let link = process.link.clone();
        if stopped {
            link.hang_up();
            let in_time = tokio::time::timeout(STOP_PATIENCE, &mut serving).await.is_ok();
            shared.state.send_replace(LinkState::Clearing);
            process.reap(!in_time).await;
            serving.abort();
            shared.clear_away(&link).await;
            shared.state.send_replace(LinkState::Down);
            return;
        }
        tracing::error!("the launcher died; its runs are ended, and another launcher is started");
        shared.state.send_replace(LinkState::Clearing);
        process.reap(true).await;
        shared.clear_away(&link).await;
        shared.state.send_replace(LinkState::Down);
        let Some(next) = restart(&shared, link.generation + 1, &mut stop).await else { return };
        (process, serving) = next;
        shared.state.send_replace(LinkState::Up(process.link.clone()));
    }
}

/// Tries to start a launcher until it succeeds or is stopped.
async fn restart(
    shared: &Shared,
    generation: u64,
    stop: &mut watch::Receiver<bool>,
) -> Option<(Process, JoinHandle<()>)> {
    let mut back_off = FIRST_BACK_OFF;
    loop {
        match shared.start_process(generation).await {
            Ok(started) => return Some(started),
            Err(error) => tracing::error!("{error}; tried again in {back_off:?}"),
        }
        let stopped = tokio::time::timeout(back_off, stop.wait_for(|stop| *stop)).await;
        if stopped.is_ok() {
            return None;
        }
        back_off = (back_off * 2).min(LAST_BACK_OFF);
    }
}
