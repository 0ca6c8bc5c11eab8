//! The machine of an emulated node, as far as a process can be one: it is in the node's control group, runs the
//! node's agent, and is busy with something else besides.
//!
//! It lives as long as its standard input is open, so it ends with the demo however that ends, `kill -9` included:
//! the agent is asked to end, then killed, and so nothing of what it runs is left. It decides nothing: what to be busy
//! with is told by lines such as `load 0.25`, in cores.

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

use crate::burn::Burner;

/// The hidden first argument with which the one program is such a host.
pub const HOST: &str = "demo-host";

/// How long what runs here may take to end by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a host is told when it is started: `[--cpu N] [--join FILE]… [--try] -- PROGRAM ARGS…`.
#[derive(Debug, Default, PartialEq)]
struct Orders {
    /// On which of the processors that it may use it runs; all of them if nothing is said.
    cpu: Option<usize>,
    /// The files of groups that take a process's number.
    join: Vec<PathBuf>,
    /// Only to see whether the groups let it in.
    only_try: bool,
    program: Vec<OsString>,
}

impl Orders {
    fn read(mut args: impl Iterator<Item = OsString>) -> Option<Orders> {
        let mut orders = Orders::default();
        while let Some(word) = args.next() {
            match word.to_str() {
                Some("--join") => orders.join.push(args.next()?.into()),
                Some("--cpu") => orders.cpu = Some(args.next()?.to_str()?.parse().ok()?),
                Some("--try") => orders.only_try = true,
                Some("--") => {
                    orders.program = args.collect();
                    return (!orders.program.is_empty() || orders.only_try).then_some(orders);
                }
                _ => return None,
            }
        }
        None
    }
}

/// Is a host until standard input ends; the arguments are those behind [`HOST`].
pub fn serve(args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(orders) = Orders::read(args) else {
        eprintln!("{HOST} is started by `estimand-show`, not by hand");
        return ExitCode::from(2);
    };
    match host(&orders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{HOST}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn host(orders: &Orders) -> io::Result<()> {
    for file in &orders.join {
        let named = |error: io::Error| io::Error::other(format!("{}: {error}", file.display()));
        fs::write(file, std::process::id().to_string()).map_err(named)?;
    }
    if let Some(number) = orders.cpu {
        stay_on(number)?;
    }
    let Some((program, args)) = orders.program.split_first() else { return Ok(()) };
    let mut child = Command::new(program).args(args).stdin(Stdio::null()).spawn()?;
    let told = listen();
    let ended = live(&mut child, &told);
    end(&mut child)?;
    ended
}

/// A part of one processor is divided fairly among those who want it; over several, whoever asks first has most of it.
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

/// Does as it is told until nobody tells any more; what it runs must not end before that.
fn live(child: &mut Child, told: &Receiver<String>) -> io::Result<()> {
    let mut burner = Burner::default();
    loop {
        match told.recv_timeout(LOOK_EVERY) {
            Ok(line) => match line.strip_prefix("load ").and_then(|cores| cores.trim().parse().ok()) {
                Some(cores) => burner.set(cores),
                None => eprintln!("{HOST}: `{line}` is not understood"),
            },
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    return Err(io::Error::other(format!("what ran here ended: {status}")));
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

    fn read(line: &str) -> Option<Orders> {
        Orders::read(line.split(' ').map(OsString::from))
    }

    #[test]
    fn orders_are_read_or_refused() {
        let orders = read("--cpu 1 --join /a --join /b -- sleep 9 --try").unwrap();
        assert_eq!(orders.join, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!((orders.cpu, orders.only_try, orders.program.len()), (Some(1), false, 3));
        assert!(read("--try --").unwrap().program.is_empty());
        for wrong in ["--", "sleep 9", "--join", "--join /a", "--load 1 -- sleep"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
