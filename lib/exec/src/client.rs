//! The agent's handle on its launcher: runs, cells, and a new launcher when one dies.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::limits::Limits;
use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::link::{Link, WaitingRun, lock};
use super::lost::{self, Marks};
use super::orphans::TOKEN_VARIABLE;
use super::privileges::Identity;
use super::protocol::{Deadline, File, MAX_STRINGS, Request, Start};
use super::run::{Ends, Run};
use super::{Ended, LaunchError, LauncherOptions, ProgramFile, RunSpec, SpawnError, Stdin, socket};

/// The most that arguments and environment may take together.
const MAX_STRING_BYTES: usize = 128 * 1024;
/// A directory and a program come on top of these.
const MAX_PATH: usize = 4096;
/// How long a launcher may take to be ready; it may have to end what a former one left.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long a launcher may take to end everything when it is asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// How long a run waits for a launcher that is being started anew.
const RUN_PATIENCE: Duration = Duration::from_secs(2);
/// Between attempts to start one.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);
const LAST_BACK_OFF: Duration = Duration::from_secs(5);

/// The agent's handle on the process that runs things. When the last handle is dropped, or [`Launcher::stop`] is
/// called, everything ends.
#[derive(Debug, Clone)]
pub struct Launcher {
    shared: Arc<Shared>,
    supervisor: Arc<Mutex<Option<JoinHandle<()>>>>,
    stopping: Arc<watch::Sender<bool>>,
}

#[derive(Debug)]
struct Shared {
    options: LauncherOptions,
    /// What marks this agent's runs; each adds its number.
    token: String,
    state: watch::Sender<LinkState>,
    last_id: AtomicU64,
    containment: AtomicU8,
}

#[derive(Debug, Clone)]
enum LinkState {
    Up(Arc<Link>),
    /// A launcher died, and what it left is being ended.
    Clearing,
    /// Nothing is left, and there is no launcher.
    Down,
}

/// Where a slot's runs live, one at a time. Dropping it ends what is in it; [`Launcher::close_cell`] also waits.
#[derive(Debug)]
pub struct Cell {
    id: u64,
    name: String,
    limits: Limits,
    shared: Arc<Shared>,
    opened: Mutex<Opened>,
}

/// In which launcher a cell was opened last, and what came of it.
#[derive(Debug, Default)]
struct Opened {
    generation: Option<u64>,
    unenforced: Vec<String>,
}

/// A launcher process and the connection to it.
struct Process {
    child: Child,
    link: Arc<Link>,
}

impl Launcher {
    /// Starts the launcher process. What a former agent of the same id left, processes and cgroups, is ended
    /// before this returns.
    pub async fn start(options: LauncherOptions) -> Result<Self, LaunchError> {
        // What a dead launcher leaves comes to this process and not to the machine's first.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| LaunchError::Socket(error.into()))?;
        // Random enough to tell this agent from the one before it.
        let token = format!("{}.{:016x}", options.id, RandomState::new().hash_one(std::process::id()));
        let shared = Arc::new(Shared {
            options,
            token,
            state: watch::Sender::new(LinkState::Down),
            last_id: AtomicU64::new(0),
            containment: AtomicU8::new(0),
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

    /// How escapees are held here: `cgroup v1`, `cgroup v2` or `subreaper`.
    pub fn containment(&self) -> &'static str {
        match self.shared.containment.load(Ordering::Relaxed) {
            1 => "cgroup v1",
            2 => "cgroup v2",
            _ => "subreaper",
        }
    }

    /// Starts a run and waits until its program is executed.
    pub async fn run(&self, spec: RunSpec<'_>) -> Result<Run, SpawnError> {
        let mut run = self.begin(spec, false).await?;
        run.confirmed().await?;
        Ok(run)
    }

    /// Asks for a run. [`Run::confirmed`] says whether its program could be executed. With `holds_outputs` its
    /// output ends when the run does, and not when it closes it.
    pub(super) async fn begin(&self, spec: RunSpec<'_>, holds_outputs: bool) -> Result<Run, SpawnError> {
        let strings = strings(&spec, &self.shared.token)?;
        let link = self.shared.link().await.ok_or(SpawnError::LauncherGone)?;
        spec.cell.open_in(&link).await;
        let id = self.shared.next_id();
        let token = format!("{TOKEN_VARIABLE}={}.{id}\0", self.shared.token);
        let packet = [strings.as_slice(), token.as_bytes()].concat();

        let owner = self.shared.options.privileges.run_as.as_ref();
        let (ends, outputs, input) = pipes(spec.stdin, owner).map_err(SpawnError::Pipes)?;
        let outputs = Arc::new(outputs);
        let (started_sender, started) = oneshot::channel();
        let (ended_sender, ended) = oneshot::channel();
        let expected = link.expect_run(
            id,
            WaitingRun {
                pid: None,
                began: Instant::now(),
                program: spec.program,
                dir: spec.dir,
                outputs: holds_outputs.then(|| outputs.clone()),
                started: Some(started_sender),
                ended: ended_sender,
            },
        );
        if !expected {
            return Err(SpawnError::LauncherGone);
        }
        // From here on dropping it kills what it may have become.
        let run = Run::new(link.clone(), id, started, ended, ends);
        let start = Start {
            run: id,
            cell: spec.cell.id,
            stdin: spec.stdin == Stdin::Pipe,
            file: match &spec.file {
                None => File::AtPath,
                Some(ProgramFile { script: false, .. }) => File::Open,
                Some(ProgramFile { script: true, .. }) => File::Script,
            },
            until: spec.until.map_or(Deadline::NEVER, Deadline::at),
            arguments: spec.argv.len(),
            variables: spec.env.len() + 1,
            strings: &packet,
        };
        let file = spec.file.as_ref().map(|file| &file.descriptor);
        let descriptors: Vec<BorrowedFd<'_>> =
            outputs.iter().chain(&input).chain(file).map(AsFd::as_fd).collect();
        link.send(&Request::Start(start), &descriptors).await?;
        Ok(run)
    }

    /// Says until when runs that have a deadline may go on. The launcher ends them then, also if this process is
    /// stopped and could not.
    pub fn extend_leases(&self, until: Instant) {
        if let LinkState::Up(link) = &*self.shared.state.borrow() {
            link.post(&Request::Lease { until: Deadline::at(until) });
        }
    }

    /// Opens a cell. It cannot fail: what cannot be enforced here, [`Cell::unenforced`] says.
    pub async fn open_cell(&self, name: &str, limits: &Limits) -> Cell {
        let cell = Cell {
            id: self.shared.next_id(),
            name: name.to_owned(),
            limits: *limits,
            shared: self.shared.clone(),
            opened: Mutex::default(),
        };
        if let Some(link) = self.shared.link().await {
            cell.open_in(&link).await;
        }
        cell
    }

    /// Kills whatever is in a cell, and returns when nothing is left.
    pub async fn close_cell(&self, cell: Cell) {
        let mut state = self.shared.state.subscribe();
        // While what a dead launcher left is being ended, some of it may be of this cell.
        let link = match state.wait_for(|state| !matches!(state, LinkState::Clearing)).await.as_deref() {
            Ok(LinkState::Up(link)) => link.clone(),
            Ok(_) | Err(_) => return,
        };
        if lock(&cell.opened).generation.take() != Some(link.generation) {
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
            // An error means that the launcher was stopped, after everything.
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
    /// Which limits cannot be enforced here, and why.
    pub fn unenforced(&self) -> Vec<String> {
        lock(&self.opened).unenforced.clone()
    }

    /// Opens it in the launcher that is running, unless it is open there.
    async fn open_in(&self, link: &Link) {
        if lock(&self.opened).generation == Some(link.generation) {
            return;
        }
        let answer = link.expect_cell(self.id);
        let request = Request::OpenCell { cell: self.id, name: &self.name, limits: self.limits };
        if link.send(&request, &[]).await.is_ok()
            && let Ok(unenforced) = answer.await
        {
            *lock(&self.opened) = Opened { generation: Some(link.generation), unenforced };
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let generation = lock(&self.opened).generation;
        if let LinkState::Up(link) = &*self.shared.state.borrow()
            && generation == Some(link.generation)
        {
            link.post(&Request::CloseCell { cell: self.id });
        }
    }
}

impl Shared {
    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The connection, if there is one within a short time.
    async fn link(&self) -> Option<Arc<Link>> {
        if let LinkState::Up(link) = &*self.state.borrow() {
            return Some(link.clone());
        }
        let mut state = self.state.subscribe();
        let up = state.wait_for(|state| matches!(state, LinkState::Up(_)));
        match &*tokio::time::timeout(RUN_PATIENCE, up).await.ok()?.ok()? {
            LinkState::Up(link) => Some(link.clone()),
            LinkState::Clearing | LinkState::Down => None,
        }
    }

    /// Starts a launcher process and waits until it is ready. The task returned passes on what it says.
    async fn start_process(&self, generation: u64) -> Result<(Process, JoinHandle<()>), LaunchError> {
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
                // Whoever waits for it to be ready waits in vain.
                link.give_up_ready();
            }
        });
        let process = Process { child, link };
        let configure = Request::Configure {
            id: &self.options.id,
            token: &self.token,
            cells: self.options.cells,
            privileges: self.options.privileges.clone(),
        };
        let sent = process.link.send(&configure, &[]).await;
        let answer = tokio::time::timeout(START_PATIENCE, ready).await;
        match (sent, answer) {
            (Ok(()), Ok(Ok(containment))) => {
                self.containment.store(containment, Ordering::Relaxed);
                Ok((process, serving))
            }
            _ => {
                serving.abort();
                process.reap(true).await;
                Err(LaunchError::NotReady { program: program.clone() })
            }
        }
    }

    /// Ends what a dead launcher left, then tells whoever had a run in it.
    async fn clear_away(&self, link: &Link) {
        let lost = link.give_up();
        let marks = Marks {
            token: format!("{}.", self.token),
            mains: lost.iter().filter_map(|run| run.pid).collect::<HashSet<_>>(),
            id: self.options.id.clone(),
        };
        let cleared = tokio::task::spawn_blocking(move || lost::clear_away(&marks)).await;
        if cleared.is_err() {
            tracing::error!("what a dead launcher left could not be cleared away");
        }
        for run in lost {
            let _ = run.started.map(|sender| sender.send(Err(SpawnError::LauncherGone)));
            let _ = run.ended.send(Ended::lost(run.began.elapsed()));
        }
    }
}

impl Process {
    /// Waits for the process's end, after killing it unless it ends by itself.
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

/// Keeps a launcher running until everything is to stop.
async fn supervise(
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
        tracing::error!("the launcher died; what it ran is ended, and another one is started");
        shared.state.send_replace(LinkState::Clearing);
        process.reap(true).await;
        shared.clear_away(&link).await;
        shared.state.send_replace(LinkState::Down);
        let Some(next) = restart(&shared, link.generation + 1, &mut stop).await else { return };
        (process, serving) = next;
        shared.state.send_replace(LinkState::Up(process.link.clone()));
    }
}

/// Tries to start a launcher until it succeeds or everything is to stop.
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

/// Directory, program, arguments and variables as the launcher takes them, without the token.
fn strings(spec: &RunSpec<'_>, token: &str) -> Result<Vec<u8>, SpawnError> {
    use std::os::unix::ffi::OsStrExt;
    if !spec.program.is_absolute() {
        return Err(SpawnError::NotAbsolute(spec.program.clone()));
    }
    if spec.argv.is_empty() {
        return Err(SpawnError::NoArguments);
    }
    let mut packet = Vec::with_capacity(1024);
    let mut push = |parts: &[&[u8]], what: &dyn Fn() -> String| {
        if parts.iter().any(|part| part.contains(&0)) {
            return Err(SpawnError::Nul(what()));
        }
        parts.iter().for_each(|part| packet.extend_from_slice(part));
        packet.push(0);
        Ok(())
    };
    push(&[spec.dir.as_os_str().as_bytes()], &|| "the directory's path".into())?;
    push(&[spec.program.as_os_str().as_bytes()], &|| "the program's path".into())?;
    for (place, argument) in spec.argv.iter().enumerate() {
        push(&[argument.as_bytes()], &|| format!("argument {place}"))?;
    }
    for (name, value) in &spec.env {
        push(&[name.as_bytes(), b"=", value.as_bytes()], &|| format!("the variable {name:?}"))?;
    }
    let paths = spec.dir.as_os_str().len() + spec.program.as_os_str().len();
    let strings = spec.argv.len() + spec.env.len() + 1;
    // The token and its number come on top.
    let bytes = packet.len().saturating_sub(paths);
    if bytes > MAX_STRING_BYTES || strings > MAX_STRINGS || paths > 2 * MAX_PATH || token.len() > MAX_PATH {
        return Err(SpawnError::TooLarge {
            bytes,
            strings,
            most_bytes: MAX_STRING_BYTES,
            most_strings: MAX_STRINGS,
        });
    }
    Ok(packet)
}

/// The pipes of a run: the agent's ends, which do not block, and the run's, which do: output and error, and input.
fn pipes(stdin: Stdin, owner: Option<&Identity>) -> std::io::Result<(Ends, [OwnedFd; 2], Option<OwnedFd>)> {
    let (stdout, stdout_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, stderr_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (stdin_end, stdin) = match stdin {
        Stdin::Null => (None, None),
        Stdin::Pipe => {
            let (stdin_end, stdin) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            rustix::fs::fcntl_setfl(&stdin, rustix::fs::OFlags::NONBLOCK)?;
            (Some(stdin_end), Some(Sender::from_owned_fd_unchecked(stdin)?))
        }
    };
    if let Some(Identity { uid, gid, .. }) = owner {
        // Or the run could not open `/dev/stderr`, which is how scripts write there.
        let (uid, gid) = (rustix::fs::Uid::from_raw(*uid), rustix::fs::Gid::from_raw(*gid));
        for end in [&stdout_end, &stderr_end].into_iter().chain(&stdin_end) {
            rustix::fs::fchown(end, Some(uid), Some(gid))?;
        }
    }
    for end in [&stdout, &stderr] {
        rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK)?;
    }
    let ends = Ends {
        stdout: Receiver::from_owned_fd_unchecked(stdout)?,
        stderr: Receiver::from_owned_fd_unchecked(stderr)?,
        stdin,
    };
    Ok((ends, [stdout_end, stderr_end], stdin_end))
}
