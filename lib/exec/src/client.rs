//! The agent's handle on its launcher: runs and cells.

use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::limits::Limits;
use super::link::{Link, WaitingRun, lock};
use super::protocol::{ContainmentKind, Deadline, Request};
use super::run::{Run, RunPipes};
use super::shared::{LinkState, Shared};
use super::supervisor::supervise;
use super::{LaunchError, LauncherOptions, RunSpec, SpawnError};

/// The agent's handle on its launcher process. When the last handle is dropped, or [`Launcher::stop`] is
/// called, everything ends.
#[derive(Debug, Clone)]
pub struct Launcher {
    shared: Arc<Shared>,
    supervisor: Arc<Mutex<Option<JoinHandle<()>>>>,
    stopping: Arc<watch::Sender<bool>>,
}

/// The place of a slot's runs, one at a time. Dropping it ends its run; [`Launcher::close_cell`] also waits.
#[derive(Debug)]
pub struct Cell {
    id: u64,
    name: String,
    limits: Limits,
    shared: Arc<Shared>,
    state: Mutex<CellState>,
}

/// The launcher in which a cell was opened last, and its answer.
#[derive(Debug, Default)]
struct CellState {
    generation: Option<u64>,
    unenforced: Vec<String>,
}

impl Launcher {
    /// Starts the launcher process. Processes and cgroups that a former agent of the same id left are gone when
    /// this returns.
    pub async fn start(options: LauncherOptions) -> Result<Self, LaunchError> {
        // Orphans of a dead launcher become children of this process and not of the machine's first.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| LaunchError::Socket(error.into()))?;
        // Random enough to tell this agent from the one before it.
        let token = format!("{}.{:016x}", options.id, RandomState::new().hash_one(std::process::id()));
        let shared = Arc::new(Shared {
            options,
            token,
            state: watch::Sender::new(LinkState::Down),
            last_id: AtomicU64::new(0),
            containment: Mutex::default(),
        });
        let (process, serving) = shared.start_process(0).await?;
        shared.state.send_replace(LinkState::Up(process.link.clone()));
        let (stopping, stop) = watch::channel(false);
        let supervisor = tokio::spawn(supervise(shared.clone(), process, serving, stop));
        Ok(Launcher {
            shared,
            supervisor: Arc::new(Mutex::new(Some(supervisor))),
            stopping: Arc::new(stopping),
        })
    }

    /// The means by which processes are held together here: `cgroup v1`, `cgroup v2` or `subreaper`.
    pub fn containment(&self) -> &'static str {
        match *lock(&self.shared.containment) {
            ContainmentKind::CgroupV1 => "cgroup v1",
            ContainmentKind::CgroupV2 => "cgroup v2",
            ContainmentKind::Subreaper => "subreaper",
        }
    }

    /// Starts a run and waits until its program is executed.
    pub async fn run(&self, spec: RunSpec<'_>) -> Result<Run, SpawnError> {
        let (mut run, outputs) = self.begin(spec, false).await?;
        run.watch(outputs).map_err(SpawnError::Pipes)?;
        run.confirmed().await?;
        Ok(run)
    }

    /// Requests a run; the pipes of its output and error come with it. [`Run::confirmed`] returns once its program is
    /// executed or could not be. With `holds_outputs` its output ends when the run does, and not when the run closes it.
    pub(super) async fn begin(
        &self,
        spec: RunSpec<'_>,
        holds_outputs: bool,
    ) -> Result<(Run, [OwnedFd; 2]), SpawnError> {
        let id = self.shared.next_id();
        let request = Request::Start(spec.request(id, &self.shared.token)?);
        let link = self.shared.link().await.ok_or(SpawnError::LauncherGone)?;
        spec.cell.open_in(&link).await;
        let owner = self.shared.options.privileges.run_as.as_ref();
        let pipes = RunPipes::new(spec.stdin, owner).map_err(SpawnError::Pipes)?;
        let RunPipes { outputs, stdin, run_outputs, run_stdin } = pipes;
        let run_outputs = Arc::new(run_outputs);
        let (started_sender, started) = oneshot::channel();
        let (ended_sender, ended) = oneshot::channel();
        let expected = link.expect_run(
            id,
            WaitingRun {
                pid: None,
                began: Instant::now(),
                program: spec.program,
                dir: spec.dir,
                outputs: holds_outputs.then(|| run_outputs.clone()),
                started: Some(started_sender),
                ended: ended_sender,
            },
        );
        if !expected {
            return Err(SpawnError::LauncherGone);
        }
        // From here on dropping it kills its processes.
        let run = Run::new(link.clone(), id, started, ended, stdin);
        let file = spec.file.as_ref().map(|file| &file.descriptor);
        let descriptors: Vec<BorrowedFd<'_>> =
            run_outputs.iter().chain(&run_stdin).chain(file).map(AsFd::as_fd).collect();
        link.send(&request, &descriptors).await?;
        Ok((run, outputs))
    }

    /// Gives the runs that have a deadline another one. The launcher ends them then, even if this process is stopped
    /// and could not.
    pub fn extend_leases(&self, until: Instant) {
        if let LinkState::Up(link) = &*self.shared.state.borrow() {
            link.post(&Request::Lease { until: Deadline::at(until) });
        }
    }

    /// Opens a cell. This cannot fail: [`Cell::unenforced`] names the limits that are not enforced here.
    pub async fn open_cell(&self, name: &str, limits: &Limits) -> Cell {
        let cell = Cell {
            id: self.shared.next_id(),
            name: name.to_owned(),
            limits: *limits,
            shared: self.shared.clone(),
            state: Mutex::default(),
        };
        if let Some(link) = self.shared.link().await {
            cell.open_in(&link).await;
        }
        cell
    }

    /// Kills all processes of a cell, and returns when nothing is left.
    pub async fn close_cell(&self, cell: Cell) {
        let mut state = self.shared.state.subscribe();
        // Some of a dead launcher's processes may be of this cell.
        let link = match state.wait_for(|state| !matches!(state, LinkState::Clearing)).await.as_deref() {
            Ok(LinkState::Up(link)) => link.clone(),
            Ok(_) | Err(_) => return,
        };
        if lock(&cell.state).generation.take() != Some(link.generation) {
            return;
        }
        let closed = link.expect_closed(cell.id);
        link.post(&Request::CloseCell { cell: cell.id });
        if closed.await.is_err() {
            let mut state = self.shared.state.subscribe();
            let cleared = state
                .wait_for(|state| match state {
                    LinkState::Up(other) => other.generation != link.generation,
                    LinkState::Clearing => false,
                    LinkState::Down => true,
                })
                .await;
            // An error means that the launcher was stopped, after all its runs.
            let _ = cleared.map(drop);
        }
    }

    /// Ends everything that runs, then the launcher, and waits for it.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        let supervisor = lock(&self.supervisor).take();
        if let Some(supervisor) = supervisor {
            let _ = supervisor.await;
        }
    }
}

impl Cell {
    /// The limits that cannot be enforced here, with the reason.
    pub fn unenforced(&self) -> Vec<String> {
        lock(&self.state).unenforced.clone()
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Opens it in the launcher that is running, unless it is open there.
    async fn open_in(&self, link: &Link) {
        if lock(&self.state).generation == Some(link.generation) {
            return;
        }
        let answer = link.expect_cell(self.id);
        let request = Request::OpenCell { cell: self.id, name: self.name.clone(), limits: self.limits };
        if link.send(&request, &[]).await.is_ok()
            && let Ok(unenforced) = answer.await
        {
            *lock(&self.state) = CellState { generation: Some(link.generation), unenforced };
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let generation = lock(&self.state).generation;
        if let LinkState::Up(link) = &*self.shared.state.borrow()
            && generation == Some(link.generation)
        {
            link.post(&Request::CloseCell { cell: self.id });
        }
    }
}
