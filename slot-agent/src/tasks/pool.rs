//! The keepers of this agent that have nothing to keep just now, and new ones.
//!
//! A keeper that has seen an attempt through gets the next one. What there is no keeper for waits while some are being
//! started, since a task that is over in a moment leaves its own. Those that nobody needs end.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use estimand_exec::{Detached, Identity, LauncherOptions, Precedence, Privileges};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tokio::time::Instant;

use super::TaskOptions;
use super::order::{KeeperOptions, KeeperOrder};
use super::pipe::make_pipe;

/// For how long a keeper waits for something to keep.
const IDLE_FOR: Duration = Duration::from_secs(10);
/// While one came back so lately, others are not started for what waits, but for
const COMES_BACK_WITHIN: Duration = Duration::from_millis(20);
/// one now and then: it may be that what runs only waits for something.
const ANOTHER_EVERY: Duration = Duration::from_millis(100);
/// How many of them do.
const MAX_IDLE: usize = 32;
/// One that is stuck holds up no others for longer.
const STARTS_WITHIN: Duration = Duration::from_secs(5);
/// Keepers' names begin with it.
const PREFIX: &str = "keeper-";
/// The file for messages of keepers and their launchers while they keep nothing.
const LOG: &str = "keepers.log";
const MAX_LOG: u64 = 1 << 20;

/// A keeper that this agent started.
pub struct KeeperProcess {
    process: Detached,
    pipe: PathBuf,
    /// The user as whom it has tasks run, if not as the agent. It keeps no others.
    identity: Option<Identity>,
    /// It has begun an attempt.
    pub is_proven: bool,
    idle_since: Instant,
}

#[derive(Default)]
pub struct Pool {
    idle: Vec<KeeperProcess>,
    /// They end as soon as they can.
    leaving: Vec<KeeperProcess>,
    came_back: Option<Instant>,
    started: Option<Instant>,
}

impl KeeperProcess {
    /// Starts one for tasks of this user of the machine.
    pub fn start(options: &TaskOptions, identity: Option<&Identity>) -> io::Result<Self> {
        let pipe = options.folder.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
        make_pipe(&pipe)?;
        let started = Self::start_with(options, identity, &pipe);
        if started.is_err() {
            let _ = fs::remove_file(&pipe);
        }
        started
    }

    fn start_with(options: &TaskOptions, identity: Option<&Identity>, pipe: &Path) -> io::Result<Self> {
        let args: Vec<OsString> =
            options.keeper.1.iter().cloned().chain([pipe.as_os_str().to_owned()]).collect();
        let errors = log_file(&options.folder.join(LOG))?;
        let mut process = Detached::start(&options.keeper.0, &args, errors).map_err(io::Error::other)?;
        let surroundings = KeeperOptions {
            launcher: LauncherOptions {
                program: options.launcher.0.clone(),
                args: options.launcher.1.clone(),
                id: options.agent.clone(),
                first: false,
                cgroups: options.cgroups,
                // Collectors keep their cadence while tasks take all that is left.
                precedence: Precedence::Background,
                privileges: Privileges { run_as: identity.cloned(), keep: options.keep },
                measures: true,
            },
            open_files: options.open_files,
        };
        let mut line = serde_json::to_vec(&surroundings)?;
        line.push(b'\n');
        process.tell(&line)?;
        let identity = identity.cloned();
        let idle_since = Instant::now();
        Ok(KeeperProcess { process, pipe: pipe.to_owned(), identity, is_proven: false, idle_since })
    }

    /// Gives it an attempt.
    pub fn give(&mut self, order: &KeeperOrder) -> io::Result<()> {
        self.process.tell(&order.to_line()?)
    }

    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// True for a new one, for as long as a start should take.
    pub fn is_starting(&self) -> bool {
        !self.is_proven && self.idle_since.elapsed() < STARTS_WITHIN
    }
}

impl Pool {
    /// A keeper that has nothing to keep, for a task of this user of the machine.
    pub fn take(&mut self, identity: Option<&Identity>) -> Option<KeeperProcess> {
        let is_fit = |keeper: &KeeperProcess| keeper.identity.as_ref() == identity;
        while let Some(place) = self.idle.iter().rposition(is_fit) {
            let mut keeper = self.idle.remove(place);
            if !keeper.has_ended() {
                return Some(keeper);
            }
            self.leave(keeper);
        }
        None
    }

    /// Takes one back that has seen its attempt through.
    pub fn put(&mut self, mut keeper: KeeperProcess) {
        keeper.idle_since = Instant::now();
        self.came_back = Some(keeper.idle_since);
        match self.idle.len() < MAX_IDLE {
            true => self.idle.push(keeper),
            false => self.leave(keeper),
        }
    }

    /// A new one for an attempt that waits, beside so many that keep something. None while those come back soon: then a start
    /// costs more than it saves.
    pub fn start(
        &mut self,
        options: &TaskOptions,
        identity: Option<&Identity>,
        busy: usize,
    ) -> io::Result<Option<KeeperProcess>> {
        let is_past = |at: Option<Instant>, span| at.is_none_or(|at: Instant| at.elapsed() >= span);
        let has_use = busy < at_once()
            || is_past(self.came_back, COMES_BACK_WITHIN)
            || is_past(self.started, ANOTHER_EVERY);
        if !has_use {
            return Ok(None);
        }
        self.started = Some(Instant::now());
        KeeperProcess::start(options, identity).map(Some)
    }

    /// When it should be asked again for one that it did not start.
    pub fn look_again_at() -> Instant {
        Instant::now() + COMES_BACK_WITHIN
    }

    /// It gets no other attempt.
    pub fn leave(&mut self, mut keeper: KeeperProcess) {
        keeper.process.dismiss();
        self.leaving.push(keeper);
    }

    /// Ends those that nobody needs, and forgets those that have ended.
    pub fn look(&mut self) {
        let (stay, go) = self.idle.drain(..).partition(|keeper| keeper.idle_since.elapsed() < IDLE_FOR);
        self.idle = stay;
        let go: Vec<KeeperProcess> = go;
        go.into_iter().for_each(|keeper| self.leave(keeper));
        self.leaving.retain_mut(|keeper| {
            let ended = keeper.has_ended();
            if ended {
                // One that was killed leaves it.
                let _ = fs::remove_file(&keeper.pipe);
            }
            !ended
        });
    }

    pub fn is_empty(&self) -> bool {
        self.idle.is_empty() && self.leaving.is_empty()
    }
}

/// How many keepers are started at once.
pub fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) + 1
}

/// Removes the pipes of keepers that were killed while there was no agent.
pub fn clear_pipes(tasks: &Path) -> io::Result<()> {
    for entry in fs::read_dir(tasks)? {
        let entry = entry?;
        let is_pipe = entry.file_type()?.is_fifo() && entry.file_name().to_string_lossy().starts_with(PREFIX);
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if is_pipe && matches!(rustix::fs::open(entry.path(), flags, Mode::empty()), Err(Errno::NXIO)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn log_file(path: &Path) -> io::Result<File> {
    if path.metadata().is_ok_and(|meta| meta.len() > MAX_LOG) {
        fs::remove_file(path)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
