//! From `fork` to `execve`: the first process of a run.
//!
//! The launcher has one thread and little memory, so a copy of it is cheap and finds no lock held. The child prepares
//! itself step by step with system calls alone, gives up the privileges that it may not keep, and executes its program.
//! The launcher does not wait for that: a program on a network mount that hangs delays only its own child. A step
//! that fails is written to the status pipe, which closes when the program is executed.

use std::convert::Infallible;
use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde::{Deserialize, Serialize};

use super::failure::{Failure, Step};
use super::privileges::PrivilegeDrop;
use super::protocol::{ProgramSource, Start};

/// What a child says of itself on its status pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Remark {
    /// Just before it executes its program: the most memory that it has held, in KiB.
    Memory(u64),
    Failed(Failure),
}

/// What a child said until it executed its program or gave up.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Report {
    /// The memory that it held before it executed its program, in bytes.
    pub memory: Option<u64>,
    /// None: it has executed its program.
    pub failure: Option<Failure>,
}

/// The largest encoded [`Remark`].
const MAX_REMARK: usize = 12;
/// A child makes two remarks at most.
const MAX_REPORT: usize = 2 * MAX_REMARK;

/// Everything that a child needs, made before the fork. Descriptors are the launcher's.
pub(super) struct Setup<'a> {
    pub start: &'a Start,
    /// The files to write to in order to join the cell.
    pub joins: &'a [CString],
    pub limits: &'a [(Resource, Rlimit)],
    /// `None`: it keeps all privileges.
    pub privileges: Option<&'a PrivilegeDrop>,
    pub launcher: Pid,
    /// Closed by the child before anything that may take long, or the agent could not see the launcher's end.
    pub socket: BorrowedFd<'a>,
    /// Where a failure is written; it closes when the program is executed.
    pub status: BorrowedFd<'a>,
    /// `None`: the launcher's own, which is `/dev/null`.
    pub stdin: Option<BorrowedFd<'a>>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
    /// The program's open file, unless the file at its path is executed.
    pub program: Option<BorrowedFd<'a>>,
}

impl Setup<'_> {
    /// Makes the child and returns its process id.
    pub fn fork(&self) -> io::Result<Pid> {
        let (arguments, variables) = (pointers(&self.start.arguments), pointers(&self.start.variables));
        // SAFETY: this process has one thread, so no lock is held and nothing is half done in the copy, which makes
        // system calls alone and ends in this function.
        match unsafe { libc::fork() } {
            0 => {
                let Err(failure) = self.execute(&arguments, &variables);
                self.remark(Remark::Failed(failure));
                // SAFETY: the child ends without running anything of the launcher's.
                unsafe { libc::_exit(127) }
            }
            pid => Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error),
        }
    }

    /// Everything up to the program itself; returns only if a step failed.
    fn execute(
        &self,
        arguments: &[*const c_char],
        variables: &[*const c_char],
    ) -> Result<Infallible, Failure> {
        // SAFETY: this is the child's copy, which nothing uses any more.
        unsafe { libc::close(self.socket.as_raw_fd()) };
        rustix::process::setsid().map_err(Failure::at(Step::Session))?;
        self.die_with_launcher().map_err(Failure::at(Step::Session))?;
        self.join_cell().map_err(Failure::at(Step::Cell))?;
        for (resource, limit) in self.limits {
            rustix::process::setrlimit(*resource, *limit).map_err(Failure::at(Step::Limits))?;
        }
        let change_directory = || rustix::process::chdir(&*self.start.directory);
        let changed = change_directory();
        self.take_descriptors().map_err(Failure::at(Step::Descriptors))?;
        if let Some(privileges) = self.privileges {
            privileges.give_up()?;
            // The kernel forgot it when the user changed.
            self.die_with_launcher().map_err(Failure::at(Step::Session))?;
        }
        if changed.is_err() {
            // The user's own directory may be closed to the agent.
            change_directory().map_err(Failure::at(Step::Directory))?;
        }
        unblock_signals().map_err(Failure::at(Step::Session))?;
        // The lists end in null and their strings in NUL, and all of them outlive the call, if it returns at all.
        let (arguments, variables) = (arguments.as_ptr(), variables.as_ptr());
        self.remark(Remark::Memory(memory_held()));
        match self.program {
            // SAFETY: see above.
            None => unsafe { libc::execve(self.start.program.as_ptr(), arguments, variables) },
            Some(program) => {
                if self.start.source == ProgramSource::Script {
                    // The kernel has the interpreter open `/dev/fd/N`.
                    let _ = rustix::io::fcntl_setfd(program, FdFlags::empty());
                }
                // SAFETY: see above.
                unsafe { libc::fexecve(program.as_raw_fd(), arguments, variables) }
            }
        };
        Err(Failure::at(Step::Execute)(io::Error::last_os_error()))
    }

    /// Has the kernel kill this process when the launcher dies.
    fn die_with_launcher(&self) -> Result<(), Errno> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A launcher that died before this line sends no signal.
        if rustix::process::getppid() == Some(self.launcher) { Ok(()) } else { Err(Errno::SRCH) }
    }

    /// Moves this process into each of the cell's groups.
    fn join_cell(&self) -> Result<(), Errno> {
        for group in self.joins {
            let file = rustix::fs::open(group.as_c_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            // "0" stands for the process that writes it.
            rustix::io::write(&file, b"0")?;
        }
        Ok(())
    }

    /// The launcher's descriptors from 3 on are all close-on-exec; these copies are not.
    fn take_descriptors(&self) -> Result<(), Errno> {
        if let Some(stdin) = self.stdin {
            rustix::stdio::dup2_stdin(stdin)?;
        }
        rustix::stdio::dup2_stdout(self.stdout)?;
        rustix::stdio::dup2_stderr(self.stderr)
    }

    fn remark(&self, remark: Remark) {
        let mut bytes = [0_u8; MAX_REMARK];
        if let Ok(bytes) = postcard::to_slice(&remark, &mut bytes) {
            let _ = rustix::io::write(self.status, bytes);
        }
    }
}

/// The most memory that this process has held, in KiB, as the kernel will count it into that of the program.
fn memory_held() -> u64 {
    // SAFETY: rusage is plain data, valid when zeroed, and the pointer is to this frame.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0)
}

/// Reads a status pipe, once the child has closed it by executing its program or by its end; an error before.
pub(super) fn read_report(status: BorrowedFd<'_>) -> Result<Report, Errno> {
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
            Ok((Remark::Memory(kib), rest)) => {
                report.memory = kib.checked_mul(1024);
                bytes = rest;
            }
            Ok((Remark::Failed(failure), rest)) => {
                report.failure = Some(failure);
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

/// A list as `execve` takes it.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Straight to the kernel: the C library never unblocks the two signals that it keeps to itself.
fn unblock_signals() -> io::Result<()> {
    let none = 0_u64;
    // SAFETY: the kernel's set of signals is 64 bits, and the old one is not asked for.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            ptr::null_mut::<u64>(),
            size_of_val(&none),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
