//! Running a program as bare as it gets: `posix_spawn`, read its output if that is asked for, `waitpid`.
//! A number of threads do that in a loop, and nothing else.
//!
//! The calls are those of the C library, because that is what an agent's runs are measured against.

use std::ffi::{CStr, c_char};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::contest::Sample;
use crate::histogram::Histogram;

/// The program of a run.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    pub path: &'a CStr,
    /// Its output; none: it has no pipes, and its output is not looked at.
    pub prints: Option<&'a [u8]>,
}

/// Runs it for `time`, on the core of the calling thread, `at_once` at a time. The figure counts runs that have
/// ended, and the processor time is that of this process and of its runs.
pub fn run(program: Program<'_>, at_once: usize, time: Duration) -> anyhow::Result<Sample> {
    let (began, cpu_before) = (Instant::now(), used());
    let end = began + time;
    let latencies = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(move || run_until(program, end))).collect();
        let mut latencies = Histogram::default();
        for worker in workers {
            latencies.add(&worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        anyhow::Ok(latencies)
    })?;
    let (elapsed, cpu) = (began.elapsed(), used().saturating_sub(cpu_before));
    let cpu = cpu.div_f64(latencies.count().max(1) as f64);
    Ok(Sample { cpu: Some(cpu), ..Sample::new(latencies, elapsed) })
}

fn run_until(program: Program<'_>, end: Instant) -> anyhow::Result<Histogram> {
    let mut latencies = Histogram::default();
    loop {
        let began = Instant::now();
        if began >= end {
            return Ok(latencies);
        }
        run_once(program).with_context(|| format!("running {:?}", program.path))?;
        latencies.record(began.elapsed());
    }
}

fn run_once(program: Program<'_>) -> anyhow::Result<()> {
    let Some(expected) = program.prints else {
        return wait(Actions::new()?.spawn(program.path)?);
    };
    let ((mut stdout, to_stdout), (mut stderr, to_stderr)) = (io::pipe()?, io::pipe()?);
    let mut actions = Actions::new()?;
    actions.redirect(&to_stdout, libc::STDOUT_FILENO)?;
    actions.redirect(&to_stderr, libc::STDERR_FILENO)?;
    let pid = actions.spawn(program.path)?;
    drop((to_stdout, to_stderr));
    let mut bytes = [0; 4096];
    let length = read_all(&mut stdout, &mut bytes)?;
    ensure!(&bytes[..length] == expected, "it printed {:?}", String::from_utf8_lossy(&bytes[..length]));
    read_all(&mut stderr, &mut bytes)?;
    wait(pid)
}

/// Reads to the end; what does not fit is an error.
fn read_all(pipe: &mut PipeReader, bytes: &mut [u8]) -> anyhow::Result<usize> {
    let mut length = 0;
    loop {
        ensure!(length < bytes.len(), "it printed more than was expected");
        match pipe.read(&mut bytes[length..])? {
            0 => return Ok(length),
            count => length += count,
        }
    }
}

/// The steps in the child before the program takes over.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the call fills the memory that it is given, which is read only if the call succeeded.
        unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(Actions(actions.assume_init()))
        }
    }

    fn redirect(&mut self, pipe: &PipeWriter, to: libc::c_int) -> io::Result<()> {
        // SAFETY: the actions are initialized, and the numbers are only noted.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.0, pipe.as_raw_fd(), to) })
    }

    fn spawn(self, program: &CStr) -> io::Result<libc::pid_t> {
        let mut pid = 0;
        let arguments: [*mut c_char; 2] = [program.as_ptr().cast_mut(), ptr::null_mut()];
        let variables: [*mut c_char; 2] = [c"PATH=/usr/bin:/bin".as_ptr().cast_mut(), ptr::null_mut()];
        // SAFETY: both lists end in null and live until the call returns, by when the program has taken over;
        // nothing writes to the strings.
        check(unsafe {
            libc::posix_spawn(
                &mut pid,
                program.as_ptr(),
                &self.0,
                ptr::null(),
                arguments.as_ptr(),
                variables.as_ptr(),
            )
        })?;
        Ok(pid)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: they were initialized, and nothing uses them any more.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

/// Waits for its end, which must be a good one.
fn wait(pid: libc::pid_t) -> anyhow::Result<()> {
    let mut status = 0;
    // SAFETY: the status is written to this frame.
    while unsafe { libc::waitpid(pid, &mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("waiting for it");
        }
    }
    ensure!(status == 0, "it ended with status {status}");
    Ok(())
}

/// The processor time of this process and of all that it has waited for.
fn used() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().map(used_by).sum()
}

fn used_by(who: libc::c_int) -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: plain data, valid when zeroed; the call fills it.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_good_runs_count() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\necho 1\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::ffi::CString::new(script.to_str().unwrap()).unwrap();
        let run = |path, prints| super::run(Program { path, prints }, 2, Duration::from_millis(50));
        let sample = run(&path, Some(b"1\n")).unwrap();
        assert!(sample.latencies.count() >= 2 && sample.cpu.unwrap() > Duration::ZERO);
        let wrong = run(&path, Some(b"2\n")).unwrap_err();
        assert!(format!("{wrong:#}").contains(r#"it printed "1\n""#), "{wrong:#}");
        assert!(format!("{:#}", run(c"/bin/false", None).unwrap_err()).contains("status 256"));
    }
}
