//! The start of a run in the launcher, and whether its program was executed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit};

use super::cell::Cell;
use super::child::{Child, Memory, Notes, Setup, pointers};
use super::failure::{Failure, Step};
use super::gauge::Gauge;
use super::launcher::{Run, State};
use super::orphans;
use super::peak_memory::PeakMemory;
use super::privileges::PrivilegeDrop;
use super::protocol::{Deadline, ProgramSource, Reply, Start};
use super::stack::Stack;
use super::sweeps::{CONFIRM_AFTER, FIRST_PAUSE};
use super::usage::RunUsage;

/// How many processes others may come to have before a run without a cgroup cannot fork.
const SPARE_PROCESSES: u64 = 1024;
/// How many stacks are kept for further children.
const SPARE_STACKS: usize = 16;

impl State {
    pub(super) fn start(&mut self, start: Start, descriptors: &[OwnedFd]) {
        let (id, cell, until) = (start.run, start.cell, start.until);
        let (pid, child) = match self.spawn(start, descriptors) {
            Ok(made) => made,
            Err(failure) => return self.reply(&Reply::Failed { run: id, failure }),
        };
        let now = Instant::now();
        self.childless = false;
        self.sweeps.something_ran(now);
        self.mains.insert(pid.as_raw_pid(), id);
        self.runs.insert(
            id,
            Run {
                pid: pid.as_raw_pid(),
                cell,
                child: Some(child),
                began: now,
                failure: None,
                memory: PeakMemory::default(),
                spent: RunUsage::default(),
                gauge: self.measures.then(|| Gauge::new(now)),
                outcome: None,
                until: until.map(Deadline::instant),
                condemned: false,
                exceeded: None,
                look_again: now + CONFIRM_AFTER,
                pause: FIRST_PAUSE,
            },
        );
    }

    /// Makes the child; returns its process id with it.
    fn spawn(&mut self, start: Start, descriptors: &[OwnedFd]) -> Result<(Pid, Child), Failure> {
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
        if self.measures {
            cell.begin_counting();
        }
        let changes_user = self.privileges.as_ref().is_some_and(PrivilegeDrop::changes_user);
        let memory = if changes_user || cell.limits_memory() { Memory::Copied } else { Memory::Shared };
        let stack = self.stacks.pop().map_or_else(Stack::new, Ok).map_err(Failure::at(Step::Fork))?;
        let run = start.run;
        let setup = Setup {
            joins: cell.joins.clone(),
            limits: limits(cell, &self.open_files),
            precedence: self.precedence,
            privileges: self.privileges.clone(),
            launcher: self.pid,
            socket: self.socket.as_raw_fd(),
            notes: Notes::new(),
            report: None,
            stdin: stdin.map(AsRawFd::as_raw_fd),
            stdout: stdout.as_raw_fd(),
            stderr: stderr.as_raw_fd(),
            program: program.map(AsRawFd::as_raw_fd),
            arguments: pointers(&start.arguments),
            variables: pointers(&start.variables),
            start,
        };
        let made = Child::spawn(setup, memory, stack).map_err(Failure::at(Step::Fork))?;
        cell.run = Some(run);
        Ok(made)
    }

    /// Reads the report of a child: it has executed its program, or failed. This is looked up when a run
    /// ends or after a moment, whichever is first: being woken for it would cost most runs their processor just
    /// when they have it.
    pub(super) fn confirm(&mut self, id: u64, is_dead: bool) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Some(child) = &run.child else { return };
        // An error means that it has done neither yet.
        let Ok(report) = child.report(is_dead) else { return };
        self.stacks.extend(run.child.take().map(Child::into_stack));
        self.stacks.truncate(SPARE_STACKS);
        run.failure = report.failure;
        run.memory.inherits(report.memory);
        if run.failure.is_none() {
            let pid = run.pid;
            // One that has ended shows nothing any more.
            if self.mains.contains_key(&pid) {
                run.memory.look(pid, Instant::now());
            }
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
