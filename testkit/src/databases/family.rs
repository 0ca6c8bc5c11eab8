//! Kills a server together with the processes that it started.
//!
//! PostgreSQL is many processes under one. They leave on their own when the first is gone, but not at
//! once, and until then they hold the data folder and may still answer: a test that restarts the server
//! would meet them. The first is stopped before its children are listed, so that it starts no more.

use std::fs;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

const GONE_DEADLINE: Duration = Duration::from_secs(30);

/// A process, told apart from a later one with the same id by when it started.
#[derive(PartialEq)]
struct Member {
    pid: i32,
    started: u64,
}

struct Stat {
    member: Member,
    parent: i32,
    /// Already dead; its parent has only not asked for its exit status yet.
    is_zombie: bool,
}

/// SIGKILL to `child` and its children; returns when all of them are gone.
pub(super) fn kill(child: &mut Child) {
    let first = Pid::from_child(child);
    // Each of these may fail because the process has just ended by itself, which is as good.
    let _ = kill_process(first, Signal::STOP);
    wait_until_stopped(first);
    let children = children_of(first);
    let _ = child.kill();
    for member in &children {
        if let Some(pid) = Pid::from_raw(member.pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    child.wait().expect("a child can be waited for");
    wait::until(GONE_DEADLINE, "the processes of a killed server to be gone", || {
        children.iter().all(|member| !is_alive(member)).then_some(())
    });
}

/// A signal is taken some time after it was sent; until then the process may still fork.
fn wait_until_stopped(pid: Pid) {
    wait::until(GONE_DEADLINE, "a server to be stopped by SIGSTOP", || {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return Some(()) };
        let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, None | Some('T' | 't' | 'Z' | 'X')).then_some(())
    });
}

fn children_of(parent: Pid) -> Vec<Member> {
    fs::read_dir("/proc")
        .expect("/proc is mounted")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .filter(|stat| stat.parent == parent.as_raw_nonzero().get())
        .map(|stat| stat.member)
        .collect()
}

fn is_alive(member: &Member) -> bool {
    stat(member.pid).is_some_and(|now| now.member == *member && !now.is_zombie)
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name is in parentheses and may itself hold spaces and parentheses.
    let (_, after_name) = text.rsplit_once(") ")?;
    let fields: Vec<_> = after_name.split_whitespace().collect();
    Some(Stat {
        member: Member { pid, started: fields.get(19)?.parse().ok()? },
        parent: fields.get(1)?.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}
