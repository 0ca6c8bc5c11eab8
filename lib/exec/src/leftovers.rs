//! The processes that a dead launcher leaves. The kernel kills its children, and their descendants become the agent's
//! own children, because the agent is a subreaper too. They are killed and reaped here.
//!
//! The agent's process may have other children (it may be a part of a larger one), so only processes are touched that
//! are known by their token, their session or their cgroup.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions};

use super::{cgroup, orphans};

/// How long to wait for processes that cannot be killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The marks by which the processes of a launcher are known.
#[derive(Debug)]
pub(super) struct Marks {
    /// The beginning of their tokens.
    pub token: String,
    /// The main processes of its runs, which lead their sessions.
    pub mains: HashSet<i32>,
    /// The agent's id.
    pub id: String,
}

/// Kills and reaps; returns when nothing is left. Blocks: the process table is looked through again and again.
pub(super) fn clear_away(marks: &Marks) {
    let deadline = Instant::now() + PATIENCE;
    let mut known: HashSet<i32> = marks.mains.clone();
    loop {
        let killed = orphans::kill_found(|| {
            let pids = find(marks);
            known.extend(&pids);
            pids
        });
        known.retain(|pid| !reaped(*pid));
        if (killed == 0 && known.is_empty()) || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The children of this process that a launcher left. Their own children become this process's when they are
/// killed, and are found the next time.
fn find(marks: &Marks) -> Vec<i32> {
    let own = std::process::id() as i32;
    let children = orphans::scan().into_iter().filter(|process| process.parent == own);
    children
        .filter(|process| {
            if process.zombie {
                return false;
            }
            marks.mains.contains(&process.session)
                || orphans::token(process.pid).is_some_and(|token| token.starts_with(&marks.token))
                || is_in_cell(process.pid, &marks.id)
        })
        .map(|process| process.pid)
        .collect()
}

fn is_in_cell(pid: i32, id: &str) -> bool {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups.contains(&format!("/estimand-{}/", cgroup::safe_name(id)))
}

/// Reaps a child if it has ended; `true` also if it is no child of this process.
fn reaped(pid: i32) -> bool {
    !matches!(rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG), Ok(None))
}
