//! From `clone` to `execve`: the first process of a run.
//!
//! The child shares the launcher's memory, so nothing is copied for it. The launcher does not wait for it, as it would
//! after `vfork`: a program on a network mount that hangs delays only its own child. The child's stack and its
//! [`Setup`] stay as they are until it has executed its program or is dead: the kernel notes that in its [`Notes`].
//!
//! It prepares itself step by step with system calls alone, gives up the privileges that it may not keep, and executes
//! its program. It allocates nothing and writes only to its own stack and notes. Its calls go straight to the kernel: the
//! C library's would leave their errors in the `errno` that it shares with the launcher. A step that fails is noted.
//!
//! Some children get a copy of the launcher's memory instead, see [`Memory`]. Their notes go through a status pipe, which
//! closes when the program is executed.

use std::cell::UnsafeCell;
use std::convert::Infallible;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde::{Deserialize, Serialize};
use syscalls::{Sysno, syscall};

use super::failure::{Failure, Step};
use super::privileges::PrivilegeDrop;
use super::protocol::{ProgramSource, Start};
use super::stack::Stack;
use super::{DirRights, Precedence};

/// A message of a child on its status pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Remark {
    /// Just before it executes its program: the most memory that it has held, in KiB.
    Memory(u64),
    Failed(Failure),
}

/// The remarks of a child until it has executed its program or given up.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Report {
    /// The memory that it held before it executed its program, in bytes.
    pub memory: Option<u64>,
    /// None: it has executed its program.
    pub failure: Option<Failure>,
}

/// By the kernel's table this is about a tenth of the weight of an ordinary process.
const BACKGROUND_NICENESS: i32 = 10;
const BACKGROUND_SESSION: &[u8] = b"10";
/// For how long a program that is open for writing is tried again.
const BUSY_TRIES: u32 = 40;
const BUSY_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// The largest encoded [`Remark`].
const MAX_REMARK: usize = 12;
/// A child makes two remarks at most.
const MAX_REPORT: usize = 2 * MAX_REMARK;

/// The memory of a child until it executes its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// The launcher's own.
    Shared,
    /// A copy of the launcher's: for a child that the kernel may kill for a limit on memory before it has executed
    /// anything, because it kills all processes that share that memory; and for one that becomes another user, because
    /// the kernel may open its memory to that user.
    Copied,
}

/// A child that has not executed its program yet, as far as is known.
#[derive(Debug)]
pub(super) struct Child {
    /// The remarks of one with a copy of the memory. It hangs up when the program is executed.
    status: Option<OwnedFd>,
    stack: Stack,
    setup: Box<Setup>,
}

/// The report of a child that shares the launcher's memory, in that memory.
#[derive(Debug)]
pub(super) struct Notes {
    /// Not nought as long as the child uses the memory. The kernel clears it when the child executes its program or ends.
    within: AtomicI32,
    report: UnsafeCell<Report>,
}

/// Everything that a child needs, made before it is. The descriptors are the launcher's, of which it has copies.
#[derive(Debug)]
pub(super) struct Setup {
    pub start: Start,
    /// The files to write to in order to join the cell.
    pub joins: Vec<CString>,
    pub limits: Vec<(Resource, Rlimit)>,
    pub precedence: Precedence,
    /// `None`: it keeps all privileges.
    pub privileges: Option<PrivilegeDrop>,
    pub launcher: Pid,
    /// Closed by the child before anything that may take long, or the agent could not see the launcher's end.
    pub socket: RawFd,
    pub notes: Notes,
    /// Where the notes go instead, if the memory is a copy; it closes when the program is executed.
    pub report: Option<RawFd>,
    /// `None`: the launcher's own, which is `/dev/null`.
    pub stdin: Option<RawFd>,
    pub stdout: RawFd,
    pub stderr: RawFd,
    /// The program's open file, unless the file at its path is executed.
    pub program: Option<RawFd>,
    /// Lists as `execve` takes them, made of the strings of `start`.
    pub arguments: Vec<*const c_char>,
    pub variables: Vec<*const c_char>,
}

impl Child {
    /// Makes the child and returns its process id with it.
    pub fn spawn(mut setup: Setup, memory: Memory, stack: Stack) -> io::Result<(Pid, Child)> {
        let is_shared = memory == Memory::Shared && SYSTEM_CALLS_ARE_DIRECT;
        // The launcher's copy of the writing end is closed here.
        let (status, report) = match is_shared {
            true => (None, None),
            false => {
                let (status, report) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                (Some(status), Some(report))
            }
        };
        setup.report = report.as_ref().map(AsRawFd::as_raw_fd);
        let setup = Box::new(setup);
        let shared = if is_shared { libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID } else { 0 };
        let given = ptr::from_ref(&*setup).cast_mut().cast();
        let within = setup.notes.within.as_ptr();
        let (nowhere, nothing) = (ptr::null_mut::<libc::pid_t>(), ptr::null_mut::<c_void>());
        // SAFETY: stack and setup are this child's alone, and stay where and as they are until it has executed its
        // program or is dead, when `Child` is taken apart. `run_child` only reads the setup, but for its notes, which
        // the launcher reads only then.
        let pid = unsafe {
            libc::clone(run_child, stack.top(), shared | libc::SIGCHLD, given, nowhere, nothing, within)
        };
        let pid = Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error)?;
        Ok((pid, Child { status, stack, setup }))
    }

    /// Its report, once it has executed its program or is dead; an error before.
    pub fn report(&self, is_dead: bool) -> Result<Report, Errno> {
        match &self.status {
            Some(status) => read_report(status.as_fd()),
            None if is_dead || self.setup.notes.within.load(Ordering::Acquire) == 0 => {
                // SAFETY: the child writes to it no more.
                Ok(unsafe { *self.setup.notes.report.get() })
            }
            None => Err(Errno::AGAIN),
        }
    }

    /// The stack, for another child. Only for a child that has executed its program or is dead.
    pub fn into_stack(self) -> Stack {
        self.stack
    }
}

impl Notes {
    pub fn new() -> Self {
        Notes { within: AtomicI32::new(1), report: UnsafeCell::default() }
    }
}

/// True where `rustix` calls the kernel itself, and does not leave errors in the C library's `errno`.
const SYSTEM_CALLS_ARE_DIRECT: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// The child. It has copies of the launcher's descriptors, its signal dispositions, which are all default, and its
/// mask, which blocks all, so nothing runs in between.
extern "C" fn run_child(setup: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes a setup that stays as it is while this child can read it.
    let setup = unsafe { &*setup.cast::<Setup>() };
    let Err(failure) = setup.execute();
    setup.remark(Remark::Failed(failure));
    // The process ends with it; nothing of the launcher's is run.
    127
}

impl Setup {
    /// Everything up to the program itself; returns only if a step failed.
    fn execute(&self) -> Result<Infallible, Failure> {
        // SAFETY: this is the child's copy of the descriptor, which nothing uses any more.
        unsafe { rustix::io::close(self.socket) };
        rustix::process::setsid().map_err(Failure::at(Step::Session))?;
        self.die_with_launcher().map_err(Failure::at(Step::Session))?;
        self.join_cell().map_err(Failure::at(Step::Cell))?;
        self.take_precedence();
        for (resource, limit) in &self.limits {
            rustix::process::setrlimit(*resource, *limit).map_err(Failure::at(Step::Limits))?;
        }
        let enter = || rustix::process::chdir(&*self.start.directory);
        // The agent's own folder may lie where the run cannot go.
        let has_entered = self.start.dir_rights == DirRights::Agent && enter().is_ok();
        self.take_descriptors().map_err(Failure::at(Step::Descriptors))?;
        if let Some(privileges) = &self.privileges {
            privileges.give_up()?;
            if privileges.changes_user() {
                // The kernel forgot it.
                self.die_with_launcher().map_err(Failure::at(Step::Session))?;
            }
        }
        if !has_entered {
            enter().map_err(Failure::at(Step::Directory))?;
        }
        unblock_signals().map_err(failure_at(Step::Session))?;
        self.remark(Remark::Memory(memory_held()));
        Err(failure_at(Step::Execute)(self.execute_program()))
    }

    /// Returns only if it failed. A program that was written a moment ago may be open for writing still: a process
    /// that its writer started meanwhile has that open file too, until it executes a program of its own.
    fn execute_program(&self) -> syscalls::Errno {
        let mut tries = BUSY_TRIES;
        loop {
            let error = self.try_program();
            if error != syscalls::Errno::ETXTBSY || tries == 0 {
                return error;
            }
            tries -= 1;
            let _ = rustix::thread::nanosleep(&BUSY_PAUSE);
        }
    }

    fn try_program(&self) -> syscalls::Errno {
        let (arguments, variables) = (self.arguments.as_ptr(), self.variables.as_ptr());
        let result = match self.program {
            // SAFETY: the lists end in null and their strings in NUL, and all of them outlive the call, if it returns.
            None => unsafe { syscall!(Sysno::execve, self.start.program.as_ptr(), arguments, variables) },
            Some(program) => {
                if self.start.source == ProgramSource::Script {
                    // The kernel has the interpreter open `/dev/fd/N`.
                    let _ = rustix::io::fcntl_setfd(own(program), FdFlags::empty());
                }
                let (nothing, itself) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
                // SAFETY: as above, and the descriptor is this child's copy.
                unsafe { syscall!(Sysno::execveat, program, nothing, arguments, variables, itself) }
            }
        };
        result.err().unwrap_or(syscalls::Errno::EIO)
    }

    /// Has the kernel kill this process when the launcher dies.
    fn die_with_launcher(&self) -> Result<(), Errno> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A launcher that died before this line sends no signal.
        if rustix::process::getppid() == Some(self.launcher) { Ok(()) } else { Err(Errno::SRCH) }
    }

    /// Moves this process into each of the cell's groups.
    fn join_cell(&self) -> Result<(), Errno> {
        for group in &self.joins {
            let file = rustix::fs::open(group.as_c_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            // "0" stands for the process that writes it.
            rustix::io::write(&file, b"0")?;
        }
        Ok(())
    }

    /// Outside of a group that has a share of its own, niceness counts: that of the process, and that of its session where
    /// each session has a share. A kernel that refuses either leaves it as it is.
    fn take_precedence(&self) {
        if self.precedence == Precedence::Background {
            let _ = rustix::process::setpriority_process(None, BACKGROUND_NICENESS);
            if let Ok(file) =
                rustix::fs::open(c"/proc/self/autogroup", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            {
                let _ = rustix::io::write(&file, BACKGROUND_SESSION);
            }
        }
    }

    /// The launcher's descriptors from 3 on are all close-on-exec; these copies are not.
    fn take_descriptors(&self) -> Result<(), Errno> {
        if let Some(stdin) = self.stdin {
            rustix::stdio::dup2_stdin(own(stdin))?;
        }
        rustix::stdio::dup2_stdout(own(self.stdout))?;
        rustix::stdio::dup2_stderr(own(self.stderr))
    }

    fn remark(&self, remark: Remark) {
        let Some(report) = self.report else {
            // SAFETY: the launcher reads it only when this child has left the memory.
            return unsafe { &mut *self.notes.report.get() }.take(remark);
        };
        let mut bytes = [0_u8; MAX_REMARK];
        if let Ok(bytes) = postcard::to_slice(&remark, &mut bytes) {
            let _ = rustix::io::write(own(report), bytes);
        }
    }
}

impl Report {
    fn take(&mut self, remark: Remark) {
        match remark {
            Remark::Memory(kib) => self.memory = kib.checked_mul(1024),
            Remark::Failed(failure) => self.failure = Some(failure),
        }
    }
}

/// The child's copy of a descriptor, which it keeps open until it executes its program.
fn own(descriptor: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the launcher had it open when it made the child, and the child closes none but its socket.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}

fn failure_at(step: Step) -> impl FnOnce(syscalls::Errno) -> Failure {
    move |error| Failure { step, errno: error.into_raw() }
}

/// The most memory that this process has held, in KiB, as the kernel will count it into that of the program.
fn memory_held() -> u64 {
    // SAFETY: rusage is plain data, valid when zeroed, and the pointer is to this frame. The call cannot fail.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0)
}

/// Reads a status pipe, once the child has closed it by executing its program or by its end; an error before.
fn read_report(status: BorrowedFd<'_>) -> Result<Report, Errno> {
    let mut looked_at = [PollFd::from_borrowed_fd(status, PollFlags::empty())];
    rustix::event::poll(&mut looked_at, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if !looked_at[0].revents().contains(PollFlags::HUP) {
        return Err(Errno::AGAIN);
    }
    let mut bytes = [0_u8; MAX_REPORT];
    let length = rustix::io::read(status, &mut bytes)?;
    Ok(report_of(&bytes[..length]))
}

fn report_of(mut bytes: &[u8]) -> Report {
    let mut report = Report::default();
    while !bytes.is_empty() {
        match postcard::take_from_bytes(bytes) {
            Ok((remark, rest)) => {
                report.take(remark);
                bytes = rest;
            }
            Err(_) => {
                report.failure = Some(Failure { step: Step::Request, errno: libc::EPROTO });
                return report;
            }
        }
    }
    report
}

/// A list as `execve` takes it. The strings are to outlive it.
pub(super) fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// The C library would never unblock the two signals that it keeps to itself.
fn unblock_signals() -> Result<(), syscalls::Errno> {
    let (none, old) = (0_u64, ptr::null_mut::<u64>());
    // SAFETY: the kernel's set of signals is 64 bits, and the old one is not asked for.
    unsafe { syscall!(Sysno::rt_sigprocmask, libc::SIG_SETMASK, &raw const none, old, size_of_val(&none)) }
        .map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_remarks_fit() {
        for errno in [i32::MIN, i32::MAX] {
            let failed = Remark::Failed(Failure { step: Step::Capabilities, errno });
            assert!(postcard::to_stdvec(&failed).unwrap().len() <= MAX_REMARK);
        }
        assert!(postcard::to_stdvec(&Remark::Memory(u64::MAX)).unwrap().len() <= MAX_REMARK);
    }

    #[test]
    fn a_report_is_what_a_child_said_in_order() {
        let failure = Failure { step: Step::Execute, errno: libc::ENOENT };
        let said = |remarks: &[Remark]| {
            let bytes: Vec<u8> = remarks.iter().flat_map(|one| postcard::to_stdvec(one).unwrap()).collect();
            report_of(&bytes)
        };
        let (memory, failed) = (Remark::Memory(8), Remark::Failed(failure));
        assert_eq!(said(&[]), Report::default());
        assert_eq!(said(&[memory]), Report { memory: Some(8192), failure: None });
        assert_eq!(said(&[memory, failed]), Report { memory: Some(8192), failure: Some(failure) });
        assert_eq!(said(&[failed]), Report { memory: None, failure: Some(failure) });
        assert_eq!(report_of(&[9]).failure.unwrap().errno, libc::EPROTO);
    }
}
