//! The host of an emulated node: a process in the node's control group that runs the node's agent and generates load.
//!
//! It lives as long as its standard input is open, so it ends with the demo however that ends, `kill -9` included: the
//! agent is asked to end, then killed, and nothing that it runs is left. Lines on standard input such as `load 0.25` set
//! the load, in cores.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::load::LoadGenerator;

/// The hidden first argument with which the one program is such a host.
pub const HOST: &str = "demo-host";

/// The longest time that the agent may take to end by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The arguments of a host: `[--cpu N] [--join FILE]… [--try] -- PROGRAM ARGS…`.
#[derive(Debug, Default, PartialEq)]
struct HostArguments {
    /// The number of the allowed processor that it runs on; all of them by default.
    cpu: Option<usize>,
    /// The files of groups that take a process's number.
    join: Vec<PathBuf>,
    /// Only tries to enter the groups.
    only_try: bool,
    program: Vec<OsString>,
}

impl HostArguments {
    fn read(mut args: impl Iterator<Item = OsString>) -> Option<HostArguments> {
        let mut arguments = HostArguments::default();
        while let Some(word) = args.next() {
            match word.to_str() {
                Some("--join") => arguments.join.push(args.next()?.into()),
                Some("--cpu") => arguments.cpu = Some(args.next()?.to_str()?.parse().ok()?),
                Some("--try") => arguments.only_try = true,
                Some("--") => {
                    arguments.program = args.collect();
                    return (!arguments.program.is_empty() || arguments.only_try).then_some(arguments);
                }
                _ => return None,
            }
        }
        None
    }
}

/// Is a host until standard input ends; the arguments are those behind [`HOST`].
pub fn serve(args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(arguments) = HostArguments::read(args) else {
        eprintln!("{HOST} is started by `estimand-show`, not by hand");
        return ExitCode::from(2);
    };
    match host(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{HOST}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn host(arguments: &HostArguments) -> io::Result<()> {
    for file in &arguments.join {
        let named = |error: io::Error| io::Error::other(format!("{}: {error}", file.display()));
        fs::write(file, std::process::id().to_string()).map_err(named)?;
    }
    if let Some(number) = arguments.cpu {
        stay_on(number)?;
    }
    let Some((program, args)) = arguments.program.split_first() else { return Ok(()) };
    let mut child = Command::new(program).args(args).stdin(Stdio::null()).spawn()?;
    let told = listen();
    let ended = live(&mut child, &told);
    end(&mut child)?;
    ended
}

/// The kernel divides a part of one processor fairly among processes, but a part of several processors not.
fn stay_on(number: usize) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let Some(cpu) = number.checked_rem(allowed.len()).map(|at| allowed[at]) else { return Ok(()) };
    let mut own = CpuSet::new();
    own.set(cpu);
    Ok(sched_setaffinity(None, &own)?)
}

/// Lines of standard input, until its end.
fn listen() -> Receiver<String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}

/// Follows the lines until the end of standard input; the agent must not end before.
fn live(child: &mut Child, told: &Receiver<String>) -> io::Result<()> {
    let mut load = LoadGenerator::default();
    loop {
        match told.recv_timeout(LOOK_EVERY) {
            Ok(line) => match line.strip_prefix("load ").and_then(|cores| cores.trim().parse().ok()) {
                Some(cores) => load.set(cores),
                None => eprintln!("{HOST}: `{line}` is not understood"),
            },
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    return Err(io::Error::other(format!("the agent ended: {status}")));
                }
            }
        }
    }
}

fn end(child: &mut Child) -> io::Result<()> {
    if child.try_wait()?.is_none() {
        // It cannot be another process by now: its number is its own until it is waited for.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<HostArguments> {
        HostArguments::read(line.split(' ').map(OsString::from))
    }

    #[test]
    fn arguments_are_parsed_or_rejected() {
        let arguments = read("--cpu 1 --join /a --join /b -- sleep 9 --try").unwrap();
        assert_eq!(arguments.join, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!((arguments.cpu, arguments.only_try, arguments.program.len()), (Some(1), false, 3));
        assert!(read("--try --").unwrap().program.is_empty());
        for wrong in ["--", "sleep 9", "--join", "--join /a", "--load 1 -- sleep"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
