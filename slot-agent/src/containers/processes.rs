//! The processes of a container, as this machine's process table shows them: how one is ended while its engine is away.
//!
//! The engine puts them into a cgroup whose name has the container's id, which is a number of 256 bits. So nobody
//! else's processes are taken for them, and where the engine is on another machine there are none.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The length of an id that is all of it.
const ID_LENGTH: usize = 64;

/// Kills all of them that this process may kill; true if there were any. Blocking, though not for long.
pub fn kill_all(container: &str) -> bool {
    if container.len() < ID_LENGTH {
        return false;
    }
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| kill(*pid, container)).count() > 0
}

fn kill(pid: i32, container: &str) -> bool {
    if !is_in(pid, container) {
        return false;
    }
    let Some(Ok(process)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    // Another process may have got the number meanwhile; from now on nobody does.
    is_in(pid, container) && pidfd_send_signal(&process, Signal::KILL).is_ok()
}

fn is_in(pid: i32, container: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|cgroups| cgroups.contains(container))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_elses_processes_are_killed() {
        assert!(!kill_all(""), "each cgroup has an empty text in it");
        assert!(!kill_all("/"));
        assert!(!kill_all(&"0a".repeat(32)));
    }
}
