//! The state of the launcher: its answers to requests, and its children that end.
//!
//! A run is under way from its request until its main process has ended and nothing that it started is left;
//! only then it is reported. All waiting is done in the one loop of [`super::process`]; nothing here blocks.
//! [`super::starting`] starts runs, [`super::clearing`] ends the processes that they leave behind.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Rlimit, Signal};

use super::capabilities::Capabilities;
use super::cell::{Cell, Containment};
use super::cgroup;
use super::child::Child;
use super::failure::Failure;
use super::gauge::Gauge;
use super::orphans::{self, Children};
use super::peak_memory::PeakMemory;
use super::poll::Poll;
use super::privileges::{self, PrivilegeDrop, Privileges};
use super::protocol::{MAX_REPLIES, MAX_REQUEST, Reply, Request};
use super::socket::{self, ReceivedPacket};
use super::stack::Stack;
use super::sweeps::{FIRST_PAUSE, Sweeps};
use super::usage;
use super::{CgroupMode, ExceededLimit, Exit, Precedence, RunOutcome, RunUsage};

/// How long a launcher that ends waits for processes that cannot be killed.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How long a launcher that starts waits for the processes of a former one.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct State {
    pub(super) socket: OwnedFd,
    poll: Poll,
    /// The limit that this process was started with.
    pub(super) open_files: Rlimit,
    pub(super) pid: Pid,
    token: String,
    pub(super) containment: Containment,
    pub(super) precedence: Precedence,
    pub(super) measures: bool,
    /// The privileges that each child gives up.
    pub(super) privileges: Option<PrivilegeDrop>,
    pub(super) runs: HashMap<u64, Run>,
    pub(super) mains: HashMap<i32, u64>,
    pub(super) cells: HashMap<u64, Cell>,
    /// For further children.
    pub(super) stacks: Vec<Stack>,
    /// Requests are received into it.
    buffer: Vec<u8>,
    replies: VecDeque<Vec<u8>>,
    waits_for_socket: bool,
    ending_since: Option<Instant>,
    /// Nothing is left of any run: this process has no child.
    pub(super) childless: bool,
    pub(super) children: Children,
    pub(super) sweeps: Sweeps,
}

/// A run under way.
#[derive(Debug)]
pub(super) struct Run {
    pub pid: i32,
    pub cell: u64,
    /// Until its program is known to be executed.
    pub child: Option<Child>,
    pub began: Instant,
    pub failure: Option<Failure>,
    pub memory: PeakMemory,
    /// Its processes that have ended, and the looks at those that live, if it is measured.
    pub spent: RunUsage,
    pub gauge: Option<Gauge>,
    /// The main process has ended; this is reported when nothing else is left.
    pub outcome: Option<RunOutcome>,
    /// The end of its lease.
    pub until: Option<Instant>,
    /// It is being ended, so its processes are looked for before it is reported, even if that is expensive.
    pub condemned: bool,
    pub exceeded: Option<ExceededLimit>,
    pub look_again: Instant,
    pub pause: Duration,
}

impl State {
    pub fn new(socket: OwnedFd, poll: Poll, open_files: Rlimit) -> Self {
        State {
            socket,
            poll,
            open_files,
            pid: rustix::process::getpid(),
            token: String::new(),
            containment: Containment::Tree,
            precedence: Precedence::Ordinary,
            measures: false,
            privileges: Privileges::default().privilege_drop(),
            runs: HashMap::new(),
            mains: HashMap::new(),
            cells: HashMap::new(),
            stacks: Vec::new(),
            buffer: vec![0; MAX_REQUEST],
            replies: VecDeque::new(),
            waits_for_socket: false,
            ending_since: None,
            childless: true,
            children: Children::of_this_process(),
            sweeps: Sweeps::new(),
        }
    }

    pub fn poll(&self) -> impl AsFd {
        &self.poll
    }

    /// The agent is gone or has hung up: everything ends.
    pub fn end(&mut self) {
        if self.ending_since.is_some() {
            return;
        }
        self.ending_since = Some(Instant::now());
        self.poll.forget(&self.socket);
        for cell in self.cells.keys().copied().collect::<Vec<_>>() {
            self.close_cell(cell);
        }
    }

    /// True if everything has ended, or only processes are left that cannot be killed.
    pub fn is_done(&self, now: Instant) -> bool {
        self.ending_since.is_some_and(|since| {
            let nothing_left = self.runs.is_empty() && self.cells.is_empty() && self.childless;
            if nothing_left {
                for parent in self.containment.parents() {
                    // Fails while another launcher of this agent has cells in it.
                    let _ = std::fs::remove_dir(parent);
                }
            }
            nothing_left || now - since > END_PATIENCE
        })
    }

    pub fn is_ending(&self) -> bool {
        self.ending_since.is_some()
    }

    pub fn take_requests(&mut self, most: usize) {
        let mut descriptors = Vec::new();
        for _ in 0..most {
            match socket::receive(&self.socket, &mut self.buffer, &mut descriptors) {
                Ok(ReceivedPacket::Packet(length)) => match Request::decode(&self.buffer[..length]) {
                    Some(request) => self.handle(request, &descriptors),
                    None => self.refuse("a request that makes no sense"),
                },
                Ok(ReceivedPacket::TooLarge) => self.refuse("a request that is too large"),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(ReceivedPacket::End) | Err(_) => return self.end(),
            }
            // A child has its own copies.
            descriptors.clear();
        }
    }

    fn handle(&mut self, request: Request, descriptors: &[OwnedFd]) {
        match request {
            Request::Start(start) => self.start(start, descriptors),
            Request::Lease { until } => {
                for run in self.runs.values_mut().filter(|run| run.until.is_some()) {
                    run.until = Some(until.instant());
                }
            }
            Request::Configure { id, token, first, cgroups, precedence, privileges, measures } => {
                (self.precedence, self.measures) = (precedence, measures);
                self.configure(&id, token, first, cgroups, &privileges);
            }
            Request::Checkpoint { run } => self.checkpoint(run),
            Request::Terminate { run } => self.terminate(run),
            Request::Kill { run } => self.kill(run),
            Request::OpenCell { cell, name, limits } => {
                let name = format!("{}.{cell}.{}", self.pid, cgroup::safe_name(&name));
                // A cell that is open already stays as it is.
                let (containment, closed) = (&self.containment, self.closes_cells());
                let opened =
                    self.cells.entry(cell).or_insert_with(|| containment.open(&name, &limits, closed));
                let unenforced = opened.unenforced.clone();
                self.reply(&Reply::CellOpen { cell, unenforced });
            }
            Request::CloseCell { cell } => self.close_cell(cell),
        }
    }

    fn configure(
        &mut self,
        id: &str,
        token: String,
        first: bool,
        cgroups: CgroupMode,
        privileges: &Privileges,
    ) {
        if !self.runs.is_empty() || !self.cells.is_empty() {
            return self.refuse("a new configuration while there are cells");
        }
        self.token = token;
        privileges::reduce_inheritance(privileges);
        self.privileges = privileges.privilege_drop();
        self.containment = Containment::find(id, cgroups, self.precedence);
        let deadline = Instant::now() + LEFTOVER_PATIENCE;
        while !first && !self.clear_leftovers(id) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.reply(&Reply::Ready { containment: self.containment.kind() });
    }

    /// Kills the processes of a former launcher of this agent; `true` when nothing is left.
    fn clear_leftovers(&self, id: &str) -> bool {
        let mine = format!("{}.", self.pid);
        let mut clear = true;
        for parent in self.containment.parents() {
            clear &= cgroup::clear_leftovers(parent, &mine);
        }
        let former = format!("{id}.");
        let found = orphans::kill_found(|| {
            let processes = orphans::scan().into_iter().filter(|process| !process.zombie);
            processes
                .map(|process| process.pid)
                .filter(|pid| orphans::token(*pid).is_some_and(|token| token.starts_with(&former)))
                .collect()
        });
        clear && found == 0
    }

    /// Reaps every child that has ended.
    pub fn reap(&mut self) {
        loop {
            let Some(pid) = self.next_dead() else { return };
            if self.mains.contains_key(&pid) {
                // While it is a zombie its number is its own, and its group's.
                if let Some(pid) = Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                }
            }
            let mut status = 0;
            // SAFETY: rusage is plain data, valid when zeroed.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: both pointers are to this frame.
            let reaped = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage) };
            if reaped == pid {
                match self.mains.remove(&pid) {
                    Some(run) => self.main_ended(run, status, &usage),
                    None => self.orphan_ended(&usage),
                }
            }
        }
    }

    /// A child that has ended and is not reaped yet.
    fn next_dead(&mut self) -> Option<i32> {
        // SAFETY: siginfo is plain data, valid when zeroed; waitid fills it.
        let (result, pid) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            (libc::waitid(libc::P_ALL, 0, &mut info, flags), info.si_pid())
        };
        if result != 0 {
            self.childless = io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD);
        }
        (result == 0 && pid > 0).then_some(pid)
    }

    /// An orphan that has ended is of the run under way; of which one, if there are several, its process does not tell any more.
    fn orphan_ended(&mut self, ended: &libc::rusage) {
        let mut runs = self.runs.values_mut();
        if let (Some(run), None) = (runs.next(), runs.next()) {
            run.spent.add(usage::of_ended(ended));
        }
    }

    fn main_ended(&mut self, id: u64, status: i32, usage: &libc::rusage) {
        self.confirm(id, true);
        let Some(run) = self.runs.get_mut(&id) else { return };
        // It is dead, whatever its status pipe says.
        run.child = None;
        if let Some(failure) = run.failure {
            let cell = run.cell;
            self.runs.remove(&id);
            self.leave_cell(cell);
            return self.reply(&Reply::Failed { run: id, failure });
        }
        run.look_again = run.began;
        run.pause = FIRST_PAUSE;
        let ended = usage::of_ended(usage);
        run.spent.add(ended);
        run.outcome = Some(RunOutcome {
            exit: Exit::from_status(status),
            ran_for: run.began.elapsed(),
            cpu: ended.0.user + ended.0.system,
            memory: run.memory.of_run(u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024),
            exceeded: None,
            usage: None,
        });
    }

    /// Reports a run of which nothing is left.
    pub(super) fn finish(&mut self, id: u64) {
        let Some(run) = self.runs.remove(&id) else { return };
        let starved = self.cells.get_mut(&run.cell).is_some_and(Cell::ran_out_of_memory);
        let usage = self.usage_of(&run, starved);
        self.leave_cell(run.cell);
        if let Some(outcome) = run.outcome {
            let exceeded = if starved { Some(ExceededLimit::Memory) } else { run.exceeded };
            self.reply(&Reply::Ended { run: id, outcome: RunOutcome { exceeded, usage, ..outcome } });
        }
    }

    /// The usage of a run of which nothing is left, if it is measured.
    fn usage_of(&mut self, run: &Run, starved: bool) -> Option<RunUsage> {
        let (gauge, outcome) = (run.gauge.as_ref()?, run.outcome.as_ref()?);
        let cell = self.cells.get_mut(&run.cell)?;
        let counted = cell.end_counting();
        let mark = counted.mark.or(outcome.memory.filter(|_| counted.left.is_none()));
        Some(RunUsage {
            processor: run.spent.processor.or_more(counted.processor),
            memory: gauge.memory(run.began + outcome.ran_for, mark, counted.left, starved),
            memory_limit: cell.memory_limit,
            ..run.spent
        })
    }

    fn leave_cell(&mut self, cell: u64) {
        if let Some(cell) = self.cells.get_mut(&cell) {
            cell.run = None;
        }
    }

    /// The run under way that a process belongs to by its token.
    pub(super) fn run_of(&self, pid: i32) -> Option<u64> {
        let token = orphans::token(pid)?;
        let run = token.strip_prefix(&self.token)?.strip_prefix('.')?.parse().ok()?;
        self.runs.contains_key(&run).then_some(run)
    }

    /// True if runs are root without capabilities, and this process has those that take it over a group's owner.
    fn closes_cells(&self) -> bool {
        let over = Capabilities::of(&["cap_chown", "cap_dac_override"]);
        rustix::process::geteuid().is_root()
            && over.without(Capabilities::own()).is_empty()
            && self.privileges.as_ref().is_some_and(PrivilegeDrop::is_own_user)
    }

    fn refuse(&mut self, request: &str) {
        self.reply(&Reply::Refused { reason: request.to_owned() });
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        let reply = reply.encode();
        match self.replies.back_mut() {
            Some(packet) if packet.len() + reply.len() <= MAX_REPLIES => packet.extend_from_slice(&reply),
            _ => self.replies.push_back(reply),
        }
    }

    /// Sends the replies, as far as the agent takes them.
    pub fn flush(&mut self) {
        while let Some(packet) = self.replies.front() {
            match socket::send(&self.socket, packet, &[]) {
                Ok(()) => {
                    self.replies.pop_front();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The agent is gone.
                Err(_) => self.replies.clear(),
            }
        }
        let waits = !self.replies.is_empty();
        if waits != self.waits_for_socket && self.ending_since.is_none() {
            self.waits_for_socket = self.poll.watch_writable(&self.socket, waits).is_ok() && waits;
        }
    }
}
