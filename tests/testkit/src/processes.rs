//! The process table: which processes there are, whose children they are, and what they use.
//!
//! Read from `/proc` at the moment of asking, nothing is kept. A process is found by a *mark*, a text that
//! no other has among its arguments: process groups, sessions and parents change, arguments stay. What is
//! dead and only not yet waited for has no arguments any more, so it counts as gone.
//! Processes in namespaces of their own are seen too, with their ids as this process has them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::wait;

/// A process that forks may be missed by one look at a table that changes meanwhile; not by all of these.
const LOOKS: usize = 3;
const KILL_DEADLINE: Duration = Duration::from_secs(30);
/// A process that executes a program has no arguments for a moment, which is long if others have the processor.
const EXEC_DEADLINE: Duration = Duration::from_secs(5);
const PAUSE_DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub ppid: u32,
    /// The program as it was called and its arguments; empty for what is dead or belongs to the kernel.
    pub cmdline: Vec<String>,
}

/// The kernel's one line about a process, as far as tests need it.
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) ppid: u32,
    /// Already dead; its parent has only not asked for its exit status yet.
    pub(crate) is_zombie: bool,
    /// In clock ticks since the machine's start: with the id, what no later process has again.
    pub(crate) started: u64,
    /// In user and in kernel mode, without its children.
    cpu_ticks: u64,
    /// It has memory of its own and no place for its arguments yet: it executes another program just now.
    is_executing: bool,
}

impl std::fmt::Display for Process {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} (child of {}): {}", self.pid, self.ppid, self.cmdline.join(" "))
    }
}

/// A mark that no other test has, now or later. `name` is for people who read the process table.
pub fn unique_mark(name: &str) -> String {
    format!("{name}-{:016x}", fastrand::u64(..))
}

/// All living processes with `mark` in one of their arguments.
pub fn with_argument(mark: &str) -> Vec<Process> {
    assert!(!mark.is_empty(), "an empty mark is in every argument");
    ids().filter_map(process).filter(|process| process.cmdline.iter().any(|arg| arg.contains(mark))).collect()
}

/// Waits until no process has `mark` in its arguments. Panics with those that are left at `deadline`.
#[track_caller]
pub fn none_with(mark: &str, deadline: Duration) {
    wait::until_ok(deadline, &format!("no process to have {mark:?} among its arguments"), || {
        for _ in 0..LOOKS {
            let left = with_argument(mark);
            if !left.is_empty() {
                let lines: Vec<_> = left.iter().map(Process::to_string).collect();
                return Err(format!("{} left\n{}", left.len(), lines.join("\n")));
            }
        }
        Ok(())
    });
}

/// SIGKILL to all processes with `mark` in their arguments, until there are none: for the end of a test
/// that leaves some on purpose. They are stopped first, so that what forks can't outrun this.
pub fn kill9_all_with(mark: &str) {
    let mut killed = BTreeSet::new();
    let done = wait::poll(KILL_DEADLINE, || {
        let mut left = with_argument(mark);
        left.retain(|process| process.pid != std::process::id());
        for signal in [Signal::STOP, Signal::KILL] {
            left.iter().for_each(|process| signal_to(process.pid, signal));
        }
        killed
            .extend(left.iter().filter_map(|process| stat(process.pid)).map(|stat| (stat.pid, stat.started)));
        // A process that dies has lost its arguments before it gives up its files and their locks.
        killed.retain(|(pid, started)| {
            stat(*pid).is_some_and(|stat| stat.started == *started && !stat.is_zombie)
        });
        if left.is_empty() && killed.is_empty() { Ok(()) } else { Err(left.len().max(killed.len())) }
    });
    if let Err(left) = done {
        // No panic: this is for cleaning up, often while a test fails already.
        eprintln!("{left} processes with {mark:?} among their arguments could not be killed");
    }
}

/// True if the attempt of this folder has come to this step: a file that is there, or a line of its keeper's record.
pub fn has_reached(attempt: &Path, step: &str) -> bool {
    let record = fs::read_to_string(attempt.join("begun")).unwrap_or_default();
    let is_it = |line: &str| line.split_once(' ').is_some_and(|(word, _)| word == step);
    record.lines().any(is_it) || attempt.join(step).exists()
}

/// The keeper that has the attempt of this folder, from when it has begun it until it has ended.
pub fn keeper_of(attempt: &Path) -> Option<Process> {
    let record = fs::read_to_string(attempt.join("begun")).ok()?;
    let name = record.lines().next().filter(|name| !name.is_empty())?;
    if has_reached(attempt, "end") {
        return None;
    }
    let pipe = attempt.parent()?.canonicalize().ok()?.join(name);
    with_argument(pipe.to_str()?).into_iter().find(is_keeper)
}

/// True for a process that keeps tasks.
pub fn is_keeper(process: &Process) -> bool {
    process.cmdline.iter().any(|arg| arg == "task-keeper")
}

/// The children of `pid`, their children, and so on: whoever has lost its parent is not among them.
pub fn descendants(pid: u32) -> Vec<Process> {
    let all: Vec<Process> = ids().filter_map(process).collect();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|process| process.ppid == parent);
        found.extend(children.clone().cloned());
        parents.extend(children.map(|process| process.pid));
    }
    found
}

/// SIGKILL to one process. Nothing happens if there is none of that id.
pub fn kill9(pid: u32) {
    signal_to(pid, Signal::KILL);
}

/// SIGTERM to one process. Nothing happens if there is none of that id.
pub fn terminate(pid: u32) {
    signal_to(pid, Signal::TERM);
}

/// True if `pid` runs: not if it is dead and only not yet waited for.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !stat.is_zombie)
}

/// The resident memory of `pid`. Panics if there is no such process.
#[track_caller]
pub fn rss_bytes(pid: u32) -> u64 {
    memory(pid, "VmRSS:")
}

/// The most that its resident memory has been. Panics if there is no such process.
#[track_caller]
pub fn peak_rss_bytes(pid: u32) -> u64 {
    memory(pid, "VmHWM:")
}

#[track_caller]
fn memory(pid: u32, which: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is running");
    let line = status.lines().find_map(|line| line.strip_prefix(which));
    let kibibytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.expect("in kB") * 1024
}

/// The processor time that `pid` has used so far, in user and kernel mode, without its children. Panics
/// if there is no such process.
#[track_caller]
pub fn cpu_time(pid: u32) -> Duration {
    let ticks = stat(pid).expect("it is running").cpu_ticks;
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// How many file descriptors `pid` has open. Panics if there is no such process.
#[track_caller]
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("it is running").count()
}

/// Lets this process, and what it starts from now on, have as many descriptors open as the machine allows.
pub fn allow_many_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum is allowed");
}

/// Lets this thread, and those that it starts, leave the processor to all others.
pub fn give_way() {
    // On Linux this is about one thread, not about its process.
    let thread = Some(rustix::thread::gettid());
    rustix::process::setpriority_process(thread, 19).expect("a thread may become less important");
}

/// How many threads `pid` has. Panics if there is no such process.
#[track_caller]
pub fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).expect("it is running").count()
}

/// All processes; those that end while this is read may be missing.
pub(crate) fn table() -> impl Iterator<Item = Stat> {
    ids().filter_map(stat)
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name is in parentheses and may itself hold spaces and parentheses.
    let (_, after_name) = text.rsplit_once(") ")?;
    let fields: Vec<_> = after_name.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        ppid: fields.get(1)?.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        started: number(19)?,
        cpu_ticks: number(11)? + number(12)?,
        is_executing: number(20)? > 0 && number(45)? == 0,
    })
}

fn ids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn process(pid: u32) -> Option<Process> {
    let mut arguments = Vec::new();
    let _ = wait::poll(EXEC_DEADLINE, || {
        arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_executing = arguments.is_empty() && stat(pid).is_some_and(|stat| stat.is_executing);
        if is_executing { Err(()) } else { Ok(()) }
    });
    let ppid = stat(pid)?.ppid;
    let arguments = arguments.strip_suffix(b"\0").unwrap_or(&arguments);
    let cmdline = match arguments {
        [] => Vec::new(),
        _ => {
            arguments.split(|&byte| byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
        }
    };
    Some(Process { pid, ppid, cmdline })
}

/// SIGSTOP. When this returns, none of its threads goes on: each takes the signal some time after it was sent. Nothing
/// happens if the process is gone.
#[track_caller]
pub fn pause(pid: u32) {
    signal_to(pid, Signal::STOP);
    wait::until(PAUSE_DEADLINE, "a process to be stopped by SIGSTOP", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.map(|thread| thread.path().join("stat")).all(|stat| !goes_on(&stat)).then_some(())
    });
}

/// SIGCONT after [`pause`].
pub fn resume(pid: u32) {
    signal_to(pid, Signal::CONT);
}

/// True if the thread of this line of the kernel's is neither stopped nor dead.
fn goes_on(stat: &Path) -> bool {
    let text = fs::read_to_string(stat).unwrap_or_default();
    let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('T' | 't' | 'Z' | 'X'))
}

fn signal_to(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself, which is as good.
        let _ = kill_process(pid, signal);
    }
}
