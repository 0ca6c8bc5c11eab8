//! The launcher process: its preparation before the first request, and its wait for events.
//!
//! It is a session of its own, so a Ctrl-C in the agent's terminal does not reach it; it blocks every signal, so
//! nothing interrupts it; and it is the subreaper of all that it starts, so every orphan becomes its
//! child. It ends when its socket does, after everything that it started.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::Instant;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::process::{Resource, Rlimit};

use super::launcher::State;
use super::poll::{Poll, SOCKET};

/// The out-of-memory killer adds this to each run, in thousandths of the memory: a collector goes before the
/// machine's own work does.
const OOM_SCORE: &str = "500";
/// The launcher's own precedence, as `nice` counts it.
const NICE: i32 = -10;
/// How many requests are taken before the ends of runs have their turn.
const REQUESTS_A_TURN: usize = 32;

/// The launcher process: call this first in `main`, when the hidden argument says so, with the socket as
/// standard input, as [`super::Launcher::start`] has it.
pub fn serve() -> ExitCode {
    match prepare().and_then(|process| process.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be a file on a full disk.
            let _ = writeln!(io::stderr(), "the launcher ends: {error}");
            ExitCode::from(2)
        }
    }
}

struct Process {
    state: State,
    signals: OwnedFd,
}

fn prepare() -> io::Result<Process> {
    let socket = take_socket()?;
    // Each fails only if it is so already.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"launcher");
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let signals = take_signals()?;
    // Raised for the launcher's own sake: each run that starts takes some. Runs get the former limit.
    let open_files = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit { current: open_files.maximum, maximum: open_files.maximum },
    );
    // One byte and not none: only this value also keeps a dump from the program that the kernel may pipe it to.
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    take_precedence();
    // Last, because it closes the files in `/proc` that were written above.
    super::privileges::seal()?;

    let poll = Poll::new()?;
    poll.watch(&socket, &signals)?;
    Ok(Process { state: State::new(socket, poll, open_files), signals })
}

/// Gives the launcher precedence over runs that overwhelm the machine: it must not wait for its turn behind the
/// processes that it is to end. Runs do not inherit this. It takes a privilege; without it the launcher waits like
/// any process.
///
/// Only the real-time classes help against thousands of processes: by weight, one of many still gets little.
/// The launcher is short of work and waits for events, and the kernel keeps a share for all others in any case.
fn take_precedence() {
    let real_time = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    let lowest = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the calls take numbers and a structure that outlives them, and concern this process alone.
    unsafe {
        if libc::sched_setscheduler(0, real_time, &lowest) != 0
            && libc::sched_getscheduler(0) == libc::SCHED_OTHER
            && libc::sched_setscheduler(0, policy, &priority) == 0
        {
            let _ = rustix::process::setpriority_process(None, NICE);
        }
    }
    // Where each session has its share of the processor, this counts; runs are sessions of their own.
    let _ = fs::write("/proc/self/autogroup", NICE.to_string());
}

/// Takes the socket from standard input, puts `/dev/null` there and on standard output, and closes all other
/// descriptors. Standard error stays the agent's, for a last message.
fn take_socket() -> io::Result<OwnedFd> {
    close_from(3);
    let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    if rustix::net::sockopt::socket_type(&socket).ok() != Some(rustix::net::SocketType::SEQPACKET) {
        return Err(io::Error::other("standard input is not an agent's socket"));
    }
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(socket)
}

pub(super) fn close_from(first: RawFd) {
    // SAFETY: nothing in this process owns a descriptor yet: this is the first that it does.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_int::MAX, 0) };
    if closed == 0 {
        return;
    }
    // A kernel that does not know the call.
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .map(|entries| {
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        })
        .unwrap_or_default();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor >= first) {
        // SAFETY: as above; the one that listed the directory is closed already, which is an error without effect.
        unsafe { libc::close(descriptor) };
    }
}

/// Gives every signal its default disposition, which runs inherit, and blocks it, which they undo.
fn take_signals() -> io::Result<OwnedFd> {
    // Straight to the kernel: the C library keeps two signals to itself, which an ancestor may have changed.
    const SIGNALS: usize = 64;
    const MASK: usize = size_of::<u64>();
    const NONE: *mut u64 = std::ptr::null_mut();
    let default = [0_usize; 16];
    let all = u64::MAX;
    // SAFETY: an action of the kernel's that is all zero means the default, and none is larger than this array;
    // no handler is installed. The kernel's set of signals is 64 bits.
    unsafe {
        for signal in 1..=SIGNALS {
            // The two that cannot be changed refuse.
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), NONE, MASK);
        }
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, NONE, MASK);
    }
    // SAFETY: the set is plain data, valid when zeroed and filled by the calls that take it, and the descriptor
    // that `signalfd` returns is new.
    unsafe {
        let mut children: libc::sigset_t = MaybeUninit::zeroed().assume_init();
        libc::sigemptyset(&mut children);
        libc::sigaddset(&mut children, libc::SIGCHLD);
        match libc::signalfd(-1, &children, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

impl Process {
    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        while !self.state.is_done(Instant::now()) {
            self.wait(&mut events)?;
            let mut children_ended = false;
            let mut socket = EventFlags::empty();
            for event in &events {
                let (flags, data) = (event.flags, event.data.u64());
                match data {
                    SOCKET => socket = flags,
                    _ => children_ended = true,
                }
            }
            if socket.intersects(EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR) {
                // Pending requests are dropped with the agent.
                self.state.end();
            } else if socket.contains(EventFlags::IN) {
                self.state.take_requests(REQUESTS_A_TURN);
            }
            if children_ended {
                let mut seen = [0_u8; 128];
                let _ = rustix::io::read(&self.signals, &mut seen);
                self.state.reap();
            }
            self.state.go_on(Instant::now());
            self.state.flush();
        }
        Ok(())
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let timeout = self.state.goes_on_at().map(|at| {
            // Rounded up to the kernel's milliseconds, or it would wake too early and again.
            let millis = at.saturating_duration_since(Instant::now()).as_nanos().div_ceil(1_000_000);
            Timespec { tv_sec: (millis / 1000) as i64, tv_nsec: (millis % 1000) as i64 * 1_000_000 }
        });
        events.clear();
        match epoll::wait(self.state.poll(), rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Err(error) if error != rustix::io::Errno::INTR => Err(error.into()),
            _ => Ok(()),
        }
    }
}
