//! The process table: the descendants of the launcher, and their runs.
//!
//! Where there is no cgroup this is how escapees are found. It is a scan of `/proc`, so it is done a few times a
//! second at most. A process belongs to a run if the run's main process is among its ancestors, or if it is of
//! the run's session, or if the orphan it descends from carries the run's token in its environment. An
//! orphan without any of these has hidden on purpose, and belongs to no run.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal};

/// The variable that marks the processes of a run.
pub(crate) const TOKEN_VARIABLE: &str = "ESTIMAND_RUN";

/// How often a fork bomb may be stopped and looked for again before it is killed as far as it was found.
const STOP_PASSES: usize = 12;
/// Environments are read up to this; the kernel gives out no more of a run's than it was started with.
const MAX_ENVIRONMENT: u64 = 512 * 1024;

/// A process in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub pid: i32,
    pub parent: i32,
    pub session: i32,
    pub zombie: bool,
}

/// The owner of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Run(u64),
    Stray,
}

/// Sends a signal. Pids below 2 would mean groups or every process.
pub(super) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 1) {
        // A process that is gone needs no signal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Reads the start of a small file into a buffer, allocating nothing but the path.
pub(super) fn read_small<'a>(path: &Path, buffer: &'a mut [u8]) -> Option<&'a str> {
    let length = File::open(path).ok()?.read(buffer).ok()?;
    // A process may have put anything into its name, which `stat` shows; the fields that matter follow it.
    Some(match std::str::from_utf8(&buffer[..length]) {
        Ok(text) => text,
        Err(_) => {
            let last = buffer[..length].iter().rposition(|byte| *byte == b')')?;
            std::str::from_utf8(&buffer[last..length]).ok()?
        }
    })
}

fn parse_stat(pid: i32, text: &str) -> Option<Process> {
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, session, zombie })
}

/// All processes.
pub(super) fn scan() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut buffer = [0_u8; 1024];
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            parse_stat(pid, read_small(&entry.path().join("stat"), &mut buffer)?)
        })
        .collect()
}

/// The list of this process's children, those included that have ended and are not reaped. It is open all the time: to
/// open it takes ten times what it takes to read it. The process has one thread, and nothing else reaps its children,
/// so none leaves the list while it is read.
#[derive(Debug)]
pub(super) struct Children {
    /// None on a kernel without this file.
    list: Option<File>,
    pid: i32,
}

impl Children {
    pub fn of_this_process() -> Self {
        let pid = rustix::process::getpid().as_raw_pid();
        Children { list: File::open(format!("/proc/{pid}/task/{pid}/children")).ok(), pid }
    }

    pub fn pids(&self) -> Vec<i32> {
        self.listed().unwrap_or_else(|| {
            let children = scan().into_iter().filter(|process| process.parent == self.pid);
            children.map(|process| process.pid).collect()
        })
    }

    /// The same, if it costs little.
    pub fn listed(&self) -> Option<Vec<i32>> {
        let list = self.list.as_ref()?;
        let (mut text, mut part) = (Vec::new(), [0; 1024]);
        loop {
            match list.read_at(&mut part, text.len() as u64) {
                Ok(0) => break,
                Ok(length) => text.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        let text = String::from_utf8(text).ok()?;
        Some(text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
    }
}

/// These children of the launcher, and all that descends from them.
pub(super) fn trees_of(roots: &HashSet<i32>, launcher: i32) -> Vec<i32> {
    let table = scan();
    let by_pid: HashMap<i32, &Process> = table.iter().map(|process| (process.pid, process)).collect();
    let below = table.iter().filter(|process| !process.zombie);
    let below = below.filter(|process| {
        root_below(launcher, process, &by_pid).is_some_and(|root| roots.contains(&root.pid))
    });
    below.map(|process| process.pid).collect()
}

/// The number of threads of the machine; 0 if it is unknown.
pub(super) fn machine_threads() -> u64 {
    let mut buffer = [0_u8; 128];
    let load = read_small(Path::new("/proc/loadavg"), &mut buffer);
    load.and_then(|text| text.split_once('/')?.1.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// The token in a process's environment, if it can be read and has one.
pub(super) fn token(pid: i32) -> Option<String> {
    let mut environment = Vec::new();
    File::open(format!("/proc/{pid}/environ"))
        .ok()?
        .take(MAX_ENVIRONMENT)
        .read_to_end(&mut environment)
        .ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(TOKEN_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// The owners of all living processes. `mains` are the runs by their main process, `sessions` the same and
/// those of runs whose main process has ended; `run_of` finds the run of a token.
pub(super) fn owners(
    table: &[Process],
    launcher: i32,
    mains: &HashMap<i32, u64>,
    sessions: &HashMap<i32, u64>,
    mut run_of: impl FnMut(i32) -> Option<u64>,
) -> Vec<(i32, Owner)> {
    let by_pid: HashMap<i32, &Process> = table.iter().map(|process| (process.pid, process)).collect();
    let mut orphans: HashMap<i32, Owner> = HashMap::new();
    let mut owned = Vec::new();
    for process in table.iter().filter(|process| !process.zombie && process.pid != launcher) {
        let Some(root) = root_below(launcher, process, &by_pid) else { continue };
        let owner = match (mains.get(&root.pid), sessions.get(&process.session)) {
            (Some(run), _) | (None, Some(run)) => Owner::Run(*run),
            (None, None) => *orphans.entry(root.pid).or_insert_with(|| {
                sessions
                    .get(&root.session)
                    .copied()
                    .or_else(|| run_of(root.pid))
                    .map_or(Owner::Stray, Owner::Run)
            }),
        };
        owned.push((process.pid, owner));
    }
    owned
}

/// The child of the launcher from which a process descends, if it does.
fn root_below<'a>(
    launcher: i32,
    process: &'a Process,
    by_pid: &HashMap<i32, &'a Process>,
) -> Option<&'a Process> {
    let mut current = process;
    // The table is no snapshot, so it could show a circle.
    for _ in 0..by_pid.len() {
        if current.parent == launcher {
            return Some(current);
        }
        current = by_pid.get(&current.parent)?;
    }
    None
}

/// Kills the processes that `find` finds. They are stopped first, again and again until no new one appears, so that
/// none escapes by forking. Returns their number.
pub(super) fn kill_found(mut find: impl FnMut() -> Vec<i32>) -> usize {
    let mut stopped: HashSet<i32> = HashSet::new();
    for _ in 0..STOP_PASSES {
        let new: Vec<i32> = find().into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in &new {
            signal(*pid, Signal::STOP);
        }
        stopped.extend(new);
    }
    for pid in &stopped {
        signal(*pid, Signal::KILL);
    }
    stopped.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        Process { pid, parent, session, zombie: false }
    }

    #[test]
    fn stat_is_read_with_any_name() {
        let read = |text: &str| parse_stat(7, text).map(|process| (process.parent, process.session));
        assert_eq!(read("7 (a) b (c) S 3 7 9 0"), Some((3, 9)));
        assert_eq!(read("7 (a"), None);
    }

    #[test]
    fn every_descendant_has_an_owner() {
        let table = [
            process(10, 1, 10),  // the launcher
            process(20, 10, 20), // a run's main process
            process(21, 20, 21), // its child, in a session of its own
            process(30, 10, 99), // an orphan with a token
            process(31, 30, 99), // its child
            process(40, 10, 40), // an orphan without one
            process(50, 10, 55), // an orphan of a run that has ended, by its session
            process(60, 1, 20),  // not ours
        ];
        let mains = HashMap::from([(20, 1)]);
        let sessions = HashMap::from([(20, 1), (55, 5)]);
        let owned = owners(&table, 10, &mains, &sessions, |pid| (pid == 30).then_some(3));
        let expected = [(20, 1), (21, 1), (30, 3), (31, 3), (40, 0), (50, 5)]
            .map(|(pid, run)| (pid, if run == 0 { Owner::Stray } else { Owner::Run(run) }));
        assert_eq!(owned, expected);
    }
}
