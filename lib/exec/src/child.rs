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

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal};

use super::failure::{Failure, Step};
use super::privileges::PrivilegeDrop;
use super::protocol::{ProgramSource, Start};

/// The largest encoded [`Failure`].
const MAX_REPORT: usize = 8;

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
                self.report(failure);
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

    fn report(&self, failure: Failure) {
        let mut report = [0_u8; MAX_REPORT];
        if let Ok(report) = postcard::to_slice(&failure, &mut report) {
            let _ = rustix::io::write(self.status, report);
        }
    }
}

/// Reads a status pipe: `None` when the child has closed it by executing its program.
pub(super) fn read_report(status: BorrowedFd<'_>) -> Result<Option<Failure>, Errno> {
    let mut report = [0_u8; MAX_REPORT];
    let length = rustix::io::read(status, &mut report)?;
    let unreadable = Failure { step: Step::Request, errno: libc::EPROTO };
    Ok((length > 0).then(|| postcard::from_bytes(&report[..length]).unwrap_or(unreadable)))
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
    fn the_largest_failure_fits_into_a_report() {
        for errno in [i32::MIN, i32::MAX] {
            let failure = Failure { step: Step::Capabilities, errno };
            assert!(postcard::to_stdvec(&failure).unwrap().len() <= MAX_REPORT);
        }
    }
}
