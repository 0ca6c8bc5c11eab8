//! Kills a server together with the processes that it started.
//!
//! PostgreSQL is many processes under one. They leave on their own when the first is gone, but not at
//! once, and until then they hold the data folder and may still answer: a test that restarts the server
//! would meet them. The first is stopped before its children are listed, so that it starts no more.

use std::process::Child;
use std::time::Duration;

use crate::{processes, wait};

const GONE_DEADLINE: Duration = Duration::from_secs(30);

/// A process, told apart from a later one with the same id by when it started.
struct Member {
    pid: u32,
    started: u64,
}

/// SIGKILL to `child` and its children; returns when all of them are gone.
pub(crate) fn kill(child: &mut Child) {
    // It may have ended by itself, which is as good; until it is stopped it may still fork.
    processes::pause(child.id());
    let children = children_of(child.id());
    let _ = child.kill();
    children.iter().for_each(|member| processes::kill9(member.pid));
    child.wait().expect("a child can be waited for");
    wait::until(GONE_DEADLINE, "the processes of a killed server to be gone", || {
        children.iter().all(|member| !is_alive(member)).then_some(())
    });
}

fn children_of(parent: u32) -> Vec<Member> {
    let children = processes::table().filter(|stat| stat.ppid == parent);
    children.map(|stat| Member { pid: stat.pid, started: stat.started }).collect()
}

fn is_alive(member: &Member) -> bool {
    processes::stat(member.pid).is_some_and(|now| now.started == member.started && !now.is_zombie)
}
