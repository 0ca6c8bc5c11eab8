//! The start of a run in the launcher, and whether its program was executed.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Resource, Rlimit};

use super::cell::Cell;
use super::child::{Setup, read_report};
use super::failure::{Failure, Step};
use super::launcher::{Run, State};
use super::orphans;
use super::peak_memory::PeakMemory;
use super::protocol::{Deadline, ProgramSource, Reply, Start};
use super::sweeps::{CONFIRM_AFTER, FIRST_PAUSE};

/// How many processes others may come to have before a run without a cgroup cannot fork.
const SPARE_PROCESSES: u64 = 1024;

impl State {
    pub(super) fn start(&mut self, start: &Start, descriptors: &[OwnedFd]) {
        let (pid, status) = match self.spawn(start, descriptors) {
            Ok(child) => child,
            Err(failure) => return self.reply(&Reply::Failed { run: start.run, failure }),
        };
        let now = Instant::now();
        self.childless = false;
        self.sweeps.something_ran(now);
        self.mains.insert(pid.as_raw_pid(), start.run);
        self.runs.insert(
            start.run,
            Run {
                pid: pid.as_raw_pid(),
                cell: start.cell,
                status: Some(status),
                began: now,
                failure: None,
                memory: PeakMemory::default(),
                outcome: None,
                until: start.until.map(Deadline::instant),
                condemned: false,
                exceeded: None,
                look_again: now + CONFIRM_AFTER,
                pause: FIRST_PAUSE,
            },
        );
    }

    /// Makes the child; returns its process id and its status pipe.
    fn spawn(&mut self, start: &Start, descriptors: &[OwnedFd]) -> Result<(Pid, OwnedFd), Failure> {
        let refused = |errno: Errno| Failure::at(Step::Request)(errno);
        let cell = self.cells.get_mut(&start.cell).filter(|cell| !cell.closing);
        let cell = cell.ok_or_else(|| refused(Errno::NOENT))?;
        if cell.run.is_some() || self.runs.contains_key(&start.run) {
            return Err(refused(Errno::BUSY));
        }
        let from_file = start.source != ProgramSource::Path;
        let (stdout, stderr, rest) = match descriptors {
            [stdout, stderr, rest @ ..] => (stdout, stderr, rest),
            _ => return Err(refused(Errno::INVAL)),
        };
        let (stdin, program) = match (rest, start.stdin, from_file) {
            ([], false, false) => (None, None),
            ([stdin], true, false) => (Some(stdin), None),
            ([program], false, true) => (None, Some(program)),
            ([stdin, program], true, true) => (Some(stdin), Some(program)),
            _ => return Err(refused(Errno::INVAL)),
        };
        cell.thaw().map_err(Failure::at(Step::Cell))?;
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (status, report) = rustix::pipe::pipe_with(flags).map_err(Failure::at(Step::Fork))?;
        let setup = Setup {
            start,
            joins: &cell.joins,
            limits: &limits(cell, &self.open_files),
            privileges: self.privileges.as_ref(),
            launcher: self.pid,
            socket: self.socket.as_fd(),
            status: report.as_fd(),
            stdin: stdin.map(AsFd::as_fd),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            program: program.map(AsFd::as_fd),
        };
        let pid = setup.fork().map_err(Failure::at(Step::Fork))?;
        cell.run = Some(start.run);
        Ok((pid, status))
    }

    /// Reads the status of a child: it has executed its program, or reports a failure. This is looked up when a run
    /// ends or after a moment, whichever is first: being woken for it would cost most runs their processor just
    /// when they have it.
    pub(super) fn confirm(&mut self, id: u64) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Some(status) = &run.status else { return };
        // An error means that it has done neither yet.
        let Ok(report) = read_report(status.as_fd()) else { return };
        run.status = None;
        run.failure = report.failure;
        run.memory.inherits(report.memory);
        if run.failure.is_none() {
            let pid = run.pid;
            run.memory.look(pid, Instant::now());
            self.reply(&Reply::Started { run: id, pid });
        }
    }
}

/// The limits of a single process, beside those of its cell's groups.
fn limits(cell: &Cell, open_files: &Rlimit) -> Vec<(Resource, Rlimit)> {
    let both = |most| Rlimit { current: Some(most), maximum: Some(most) };
    let open_files = match cell.open_files {
        Some(limit) => both(open_files.maximum.map_or(limit, |hard| limit.min(hard))),
        // The limit that the launcher was started with.
        None => *open_files,
    };
    let address_space = cell.address_space.map(|bytes| (Resource::As, both(bytes)));
    let processes = cell.watched_processes.map(|limit| (Resource::Nproc, both(user_processes(limit))));
    [(Resource::Nofile, open_files)].into_iter().chain(address_space).chain(processes).collect()
}

/// A bound that the kernel keeps where no cgroup does. It counts all processes of a user, so it is far above their
/// number now: it holds up a fork bomb until it is seen. (Root is exempt.)
fn user_processes(limit: u64) -> u64 {
    let hard = rustix::process::getrlimit(Resource::Nproc).maximum.unwrap_or(u64::MAX);
    (orphans::machine_threads() + limit + SPARE_PROCESSES).min(hard)
}
