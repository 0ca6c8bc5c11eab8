//! What the launcher does with requests, and with children that end.
//!
//! A run is under way from its request until its main process has ended and nothing that it started is left;
//! only then it is reported. Everything that has to be waited for is waited for in the one loop of
//! [`super::process`]; nothing here blocks. [`super::clearing`] is about what runs leave behind.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

use super::cell::{Cell, Containment};
use super::child::{Around, Nursery, Program, Step, read_report};
use super::privileges::{Privileges, Shed};
use super::process::Poll;
use super::protocol::{Deadline, File, MAX_REPLIES, Reply, Request, Start};
use super::socket::{self, Received};
use super::{cgroup, orphans};

/// How many nurseries are kept for the next runs.
const SPARE_NURSERIES: usize = 8;
/// How many processes others may come to have before a run without a cgroup cannot fork.
const SPARE_PROCESSES: u64 = 1024;
/// How long a launcher that ends waits for what cannot be killed.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How long a launcher that starts waits for what a former one left.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct State {
    socket: OwnedFd,
    poll: Poll,
    /// The limits that this process was started with.
    open_files: Rlimit,
    pub(super) pid: i32,
    token: String,
    pub(super) containment: Containment,
    /// A child that starts reads the groups in it. It changes only while nothing runs.
    privileges: Privileges,
    shed: Option<Shed>,
    pub(super) runs: HashMap<u64, Run>,
    pub(super) mains: HashMap<i32, u64>,
    pub(super) cells: HashMap<u64, Cell>,
    // Boxed, because a child may be reading one while it is moved from here to its run.
    #[allow(clippy::vec_box)]
    nurseries: Vec<Box<Nursery>>,
    arrived: Vec<OwnedFd>,
    replies: VecDeque<Vec<u8>>,
    waits_for_socket: bool,
    ending_since: Option<Instant>,
    /// Nothing is left of any run: this process has no child.
    pub(super) childless: bool,
    pub(super) sweeps: super::clearing::Sweeps,
}

/// A run under way.
#[derive(Debug)]
pub(super) struct Run {
    pub pid: i32,
    pub cell: u64,
    /// Until the program is known to be executed.
    pub status: Option<OwnedFd>,
    nursery: Option<Box<Nursery>>,
    began: Instant,
    failure: Option<(Step, i32)>,
    /// The main process has ended; this is reported when nothing else is left.
    pub ended: Option<Reply>,
    /// When it ends because nobody has said that it may go on.
    pub until: Option<Instant>,
    /// It was told to end, so what it left is looked for before it is reported, however dear that is.
    pub condemned: bool,
    pub over: u8,
    pub look_again: Instant,
    pub pause: Duration,
}

impl State {
    pub fn new(socket: OwnedFd, poll: Poll, open_files: Rlimit) -> Self {
        State {
            socket,
            poll,
            open_files,
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            token: String::new(),
            containment: Containment::Tree,
            privileges: Privileges::default(),
            shed: Privileges::default().shed(),
            runs: HashMap::new(),
            mains: HashMap::new(),
            cells: HashMap::new(),
            nurseries: Vec::new(),
            arrived: Vec::new(),
            replies: VecDeque::new(),
            waits_for_socket: false,
            ending_since: None,
            childless: true,
            sweeps: super::clearing::Sweeps::new(),
        }
    }

    pub fn poll(&self) -> impl AsFd {
        &self.poll
    }

    /// The agent is gone, or wants this to end: so does everything.
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

    /// Whether everything has ended, or what is left cannot be killed by anyone.
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
        for _ in 0..most {
            let mut nursery = match self.nurseries.pop().map_or_else(|| Nursery::new().map(Box::new), Ok) {
                Ok(nursery) => nursery,
                // Out of memory: the request waits in the socket.
                Err(_) => return,
            };
            let mut arrived = std::mem::take(&mut self.arrived);
            match socket::receive(&self.socket, &mut nursery.packet, &mut arrived) {
                Ok(Received::Packet(length)) => self.handle(nursery, length, &mut arrived),
                Ok(Received::TooLarge) => {
                    self.refuse("a request that is too large");
                    self.spare(nursery);
                }
                Ok(Received::End) => {
                    self.end();
                    return;
                }
                Err(Errno::INTR) => self.spare(nursery),
                Err(Errno::AGAIN) => {
                    self.spare(nursery);
                    self.arrived = arrived;
                    return;
                }
                Err(_) => {
                    self.end();
                    return;
                }
            }
            arrived.clear();
            self.arrived = arrived;
        }
    }

    fn handle(&mut self, nursery: Box<Nursery>, length: usize, arrived: &mut Vec<OwnedFd>) {
        match Request::decode(&nursery.packet[..length]) {
            Some(Request::Start(Start { run, cell, stdin, file, until, .. })) => {
                return self.start((run, cell), (stdin, file, until), nursery, length, arrived);
            }
            Some(Request::Lease { until }) => {
                for run in self.runs.values_mut().filter(|run| run.until.is_some()) {
                    run.until = until.instant();
                }
            }
            Some(Request::Configure { id, token, cells, privileges }) => {
                self.configure(id, token, cells, privileges);
            }
            Some(Request::Terminate { run }) => self.terminate(run),
            Some(Request::Kill { run }) => self.kill(run),
            Some(Request::OpenCell { cell, name, limits }) => {
                let name = format!("{}.{cell}.{}", self.pid, cgroup::safe_name(name));
                // Asked again it stays what it is.
                let containment = &self.containment;
                let opened = self.cells.entry(cell).or_insert_with(|| containment.open(&name, &limits));
                let unenforced = opened.unenforced.clone();
                self.reply(&Reply::CellOpen { cell, unenforced });
            }
            Some(Request::CloseCell { cell }) => self.close_cell(cell),
            None => self.refuse("a request that makes no sense"),
        }
        self.spare(nursery);
    }

    fn configure(&mut self, id: &str, token: &str, cells: super::Cells, privileges: Privileges) {
        if !self.runs.is_empty() || !self.cells.is_empty() {
            return self.refuse("a change of what cells are, while there are some");
        }
        token.clone_into(&mut self.token);
        super::privileges::pass_on(&privileges);
        self.privileges = privileges;
        self.shed = self.privileges.shed();
        self.containment = Containment::find(id, cells);
        let deadline = Instant::now() + LEFTOVER_PATIENCE;
        // What cannot be killed in this time is beyond anybody's reach.
        while !self.clear_leftovers(id) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.reply(&Reply::Ready { containment: self.containment.number() });
    }

    /// Kills what a former launcher of this agent left; `true` when nothing is left.
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

    fn start(
        &mut self,
        (run, cell): (u64, u64),
        (stdin, file, until): (bool, File, Deadline),
        mut nursery: Box<Nursery>,
        length: usize,
        arrived: &mut Vec<OwnedFd>,
    ) {
        let made = self.spawn((run, cell), (stdin, file), &mut nursery, length, arrived);
        // The child has its own copies.
        arrived.clear();
        match made {
            Ok((pid, status)) => {
                let now = Instant::now();
                self.childless = false;
                self.sweeps.something_ran(now);
                self.mains.insert(pid, run);
                self.runs.insert(
                    run,
                    Run {
                        pid,
                        cell,
                        status: Some(status),
                        nursery: Some(nursery),
                        began: now,
                        failure: None,
                        ended: None,
                        until: until.instant(),
                        condemned: false,
                        over: 0,
                        look_again: now + super::clearing::CONFIRM_AFTER,
                        pause: super::clearing::FIRST_PAUSE,
                    },
                );
            }
            Err((step, error)) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                self.reply(&Reply::Failed { run, step: step as u8, errno });
                self.spare(nursery);
            }
        }
    }

    fn spawn(
        &mut self,
        (run, cell_id): (u64, u64),
        (stdin, file): (bool, File),
        nursery: &mut Nursery,
        length: usize,
        arrived: &[OwnedFd],
    ) -> Result<(i32, OwnedFd), (Step, io::Error)> {
        let request = |errno| (Step::Request, io::Error::from_raw_os_error(errno));
        let cell =
            self.cells.get_mut(&cell_id).filter(|cell| !cell.closing).ok_or_else(|| request(libc::ENOENT))?;
        if cell.run.is_some() || self.runs.contains_key(&run) {
            return Err(request(libc::EBUSY));
        }
        let (opened, input) = (usize::from(file != File::AtPath), usize::from(stdin));
        if arrived.len() != 2 + input + opened {
            return Err(request(libc::EINVAL));
        }
        cell.thaw().map_err(|error| (Step::Cell, error))?;
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let (status, report) = rustix::pipe::pipe_with(flags).map_err(|error| (Step::Clone, error.into()))?;
        let around = Around {
            socket: self.socket.as_raw_fd(),
            status: report.as_raw_fd(),
            stdin: arrived.get(2).filter(|_| stdin).map(AsRawFd::as_raw_fd),
            stdout: arrived[0].as_raw_fd(),
            stderr: arrived[1].as_raw_fd(),
            program: arrived
                .get(2 + input)
                .map(|program| Program { descriptor: program.as_raw_fd(), script: file == File::Script }),
            launcher: self.pid,
            shed: self.shed,
            open_files: open_files(self.open_files, cell.open_files),
            address_space: cell.address_space,
            user_processes: cell.watched_processes.map(user_processes),
            shares_memory: !cell.limits_memory() && self.privileges.run_as.is_none(),
        };
        let pid = nursery.spawn(length, cell.joins(), around).map_err(|error| (Step::Clone, error))?;
        cell.run = Some(run);
        Ok((pid, status))
    }

    /// Reads what became of a child: it has executed its program, or says why it could not. This is looked up
    /// when a run ends or after a moment, whichever is first: being woken for it would cost most runs their
    /// processor just when they have it.
    pub(super) fn confirm(&mut self, id: u64) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Some(status) = &run.status else { return };
        let mut report = [0_u8; 8];
        match rustix::io::read(status, &mut report) {
            Ok(8) => run.failure = Some(read_report(report)),
            Ok(_) => {}
            // Not yet, after all.
            Err(_) => return,
        }
        run.status = None;
        if run.failure.is_none() {
            let pid = run.pid;
            // It has left the memory: the kernel gives a new program its own before it closes descriptors.
            let nursery = run.nursery.take();
            nursery.into_iter().for_each(|nursery| self.spare(nursery));
            self.reply(&Reply::Started { run: id, pid });
        }
    }

    /// Takes leave of every child that has ended.
    pub fn reap(&mut self) {
        loop {
            let Some(pid) = self.next_dead() else { return };
            if self.mains.contains_key(&pid) {
                // While it is a zombie its number is its own, and its group's.
                // SAFETY: sending a signal touches no memory.
                unsafe { libc::kill(-pid, libc::SIGKILL) };
            }
            let mut status = 0;
            // SAFETY: rusage is plain data, valid when zeroed.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: both pointers are to this frame.
            let reaped = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage) };
            if reaped == pid
                && let Some(run) = self.mains.remove(&pid)
            {
                self.main_ended(run, status, &usage);
            }
        }
    }

    /// A child that has ended and was not taken leave of.
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

    fn main_ended(&mut self, id: u64, status: i32, usage: &libc::rusage) {
        self.confirm(id);
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.status = None;
        if let Some(nursery) = run.nursery.take() {
            self.nurseries.push(nursery);
        }
        let run = self.runs.get_mut(&id).expect("it was there");
        if let Some((step, errno)) = run.failure {
            let cell = run.cell;
            self.runs.remove(&id);
            self.leave_cell(cell);
            return self.reply(&Reply::Failed { run: id, step: step as u8, errno });
        }
        run.look_again = run.began;
        run.pause = super::clearing::FIRST_PAUSE;
        run.ended = Some(Reply::Ended {
            run: id,
            status,
            ran_for: run.began.elapsed(),
            cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
            max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
            over: 0,
        });
    }

    /// Reports a run of which nothing is left.
    pub(super) fn finish(&mut self, id: u64) {
        let Some(run) = self.runs.remove(&id) else { return };
        let starved = self.cells.get_mut(&run.cell).is_some_and(Cell::ran_out_of_memory);
        self.leave_cell(run.cell);
        if let Some(Reply::Ended { run: id, status, ran_for, cpu, max_rss, .. }) = run.ended {
            let over = if starved { super::OVER_MEMORY } else { run.over };
            self.reply(&Reply::Ended { run: id, status, ran_for, cpu, max_rss, over });
        }
    }

    fn leave_cell(&mut self, cell: u64) {
        if let Some(cell) = self.cells.get_mut(&cell) {
            cell.run = None;
        }
    }

    /// Which run under way has this token.
    pub(super) fn run_of(&self, pid: i32) -> Option<u64> {
        let token = orphans::token(pid)?;
        let run = token.strip_prefix(&self.token)?.strip_prefix('.')?.parse().ok()?;
        self.runs.contains_key(&run).then_some(run)
    }

    fn spare(&mut self, nursery: Box<Nursery>) {
        if self.nurseries.len() < SPARE_NURSERIES {
            self.nurseries.push(nursery);
        }
    }

    fn refuse(&mut self, why: &str) {
        self.reply(&Reply::Refused { why: why.to_owned() });
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        let reply = reply.encode();
        match self.replies.back_mut() {
            Some(packet) if packet.len() + reply.len() <= MAX_REPLIES => packet.extend_from_slice(&reply),
            _ => self.replies.push_back(reply),
        }
    }

    /// Sends what there is to say, as far as the agent takes it.
    pub fn flush(&mut self) {
        while let Some(packet) = self.replies.front() {
            match socket::send(&self.socket, packet, &[]) {
                Ok(()) => {
                    self.replies.pop_front();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // Nobody is there to hear it.
                Err(_) => self.replies.clear(),
            }
        }
        let waits = !self.replies.is_empty();
        if waits != self.waits_for_socket && self.ending_since.is_none() {
            self.waits_for_socket = self.poll.watch_writable(&self.socket, waits).is_ok() && waits;
        }
    }
}

/// A bound that the kernel keeps where no cgroup does. It counts all processes of a user, so it is far above what
/// there is now: it holds up a fork bomb until it is seen. (Root is exempt.)
fn user_processes(limit: u64) -> u64 {
    let hard = rustix::process::getrlimit(Resource::Nproc).maximum.unwrap_or(u64::MAX);
    (orphans::machine_threads() + limit + SPARE_PROCESSES).min(hard)
}

/// What a run may open: what its registration says, or what this process was started with.
fn open_files(own: Rlimit, limit: Option<u64>) -> libc::rlimit64 {
    let hard = own.maximum.unwrap_or(libc::RLIM64_INFINITY);
    match limit {
        Some(limit) => libc::rlimit64 { rlim_cur: limit.min(hard), rlim_max: limit.min(hard) },
        None => libc::rlimit64 { rlim_cur: own.current.unwrap_or(hard), rlim_max: hard },
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs() as u32 * 1000)
}
