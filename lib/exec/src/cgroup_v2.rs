//! Cells in the unified hierarchy.
//!
//! Membership and `cgroup.kill` are always to be had where a group can be made. Limits need controllers, which a
//! group hands down only if it holds no process itself. So the agent moves into a leaf beside its cells, if
//! nobody else is in its group; where it cannot, cells hold processes together without limiting them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::limits::Limits;

use super::cell::{Groups, Version, default_processes};
use super::cgroup;

/// What the agent itself moves into.
const LEAF_SUFFIX: &str = ".agent";

#[derive(Debug)]
pub(super) struct V2 {
    parent: PathBuf,
}

impl V2 {
    pub fn find(parent: &str) -> Option<Self> {
        let own = cgroup::own_group(None)?;
        let leaf = format!("{parent}{LEAF_SUFFIX}");
        // A launcher that was started anew finds the agent in its leaf already.
        let base = if own.ends_with(&leaf) { own.parent()?.to_owned() } else { own };
        let parent = base.join(parent);
        make(&parent).ok()?;
        // A process is moved by who may write to the group that both ends have in common.
        if !cgroup::may_join(&parent) || !cgroup::may_join(&base) {
            return None;
        }
        if !delegate(&base) && move_away(&base, &base.join(leaf)) {
            delegate(&base);
        }
        delegate(&parent);
        Some(V2 { parent })
    }

    pub fn parent(&self) -> &Path {
        &self.parent
    }

    /// Makes the group of a cell; what stands in the way of a limit is noted.
    pub fn open(&self, name: &str, limits: &Limits, unenforced: &mut Vec<String>) -> io::Result<Groups> {
        let main = self.parent.join(name);
        make(&main)?;
        let processes = limits.processes.unwrap_or_else(default_processes);
        if main.join("pids.max").exists() {
            cgroup::write(&main, "pids.max", processes.to_string())?;
        }
        let mut groups = Groups { main, others: Vec::new(), memory: None, version: Version::V2 };
        if let Some(bytes) = limits.memory
            && cgroup::write(&groups.main, "memory.max", bytes.to_string()).is_ok()
        {
            // Swap would let a run have more than its limit; not every kernel has the file.
            let _ = cgroup::write(&groups.main, "memory.swap.max", "0");
            groups.memory = Some(groups.main.clone());
        }
        if let Some(cores) = limits.cpu {
            let quota = format!("{} {}", cgroup::cpu_quota_us(cores), cgroup::CPU_PERIOD_US);
            if let Err(error) = cgroup::write(&groups.main, "cpu.max", quota) {
                unenforced.push(format!("cpu: its controller is not handed down to here ({error})"));
            }
        }
        Ok(groups)
    }
}

/// Hands the controllers down that there are; `false` if one that is there was refused.
fn delegate(group: &Path) -> bool {
    let there = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    let mut wanted = there.split_whitespace().filter(|name| ["cpu", "memory", "pids"].contains(name));
    wanted.all(|name| cgroup::write(group, "cgroup.subtree_control", format!("+{name}")).is_ok())
}

/// Moves the agent and this launcher out of their group, if nobody else is in it.
fn move_away(base: &Path, leaf: &Path) -> bool {
    let ours = [std::os::unix::process::parent_id() as i32, std::process::id() as i32];
    let all_ours = |group: &Path| {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        text.lines().all(|line| line.parse().is_ok_and(|pid| ours.contains(&pid)))
    };
    if !all_ours(base) || make(leaf).is_err() {
        return false;
    }
    ours.iter().all(|pid| cgroup::write(leaf, "cgroup.procs", pid.to_string()).is_ok())
}

fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir_all(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
