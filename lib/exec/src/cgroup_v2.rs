//! Cells in the unified hierarchy.
//!
//! Membership and `cgroup.kill` are always there where a group can be made. Limits need controllers, which a
//! group hands down only if it holds no process itself. So the agent moves into a leaf beside its cells, if
//! it is alone in its group; where it cannot, cells hold processes together without limiting them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Precedence;
use super::cgroup;
use super::groups::{Groups, Version, default_processes};
use super::limits::Limits;

/// The group that the agent itself moves into.
const LEAF_SUFFIX: &str = ".agent";

/// The controllers that limits need.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

#[derive(Debug)]
pub(super) struct V2 {
    parent: PathBuf,
}

impl V2 {
    /// True if this process's group has all controllers that limits need.
    pub fn has_controllers() -> bool {
        cgroup::own_group(None).is_some_and(|group| controllers(&group).len() == CONTROLLERS.len())
    }

    pub fn find(parent: &str, precedence: Precedence) -> Option<Self> {
        let own = cgroup::own_group(None)?;
        let leaf = format!("{parent}{LEAF_SUFFIX}");
        // A launcher that was started anew finds the agent in its leaf already, and so does one of a process that the
        // agent started.
        let base = if is_leaf(&own) { own.parent()?.to_owned() } else { own };
        let parent = base.join(parent);
        cgroup::make(&parent).ok()?;
        // Moving a process takes the right to write to the group that both ends have in common.
        if !cgroup::may_join(&parent) || !cgroup::may_join(&base) {
            return None;
        }
        if !delegate(&base) && move_away(&base, &base.join(leaf)) {
            delegate(&base);
        }
        delegate(&parent);
        if precedence == Precedence::Background {
            // Without the controller runs are in the background by their niceness alone.
            let _ = cgroup::write(&parent, "cpu.weight", cgroup::BACKGROUND_WEIGHT_V2);
        }
        Some(V2 { parent })
    }

    pub fn parent(&self) -> &Path {
        &self.parent
    }

    /// Makes the group of a cell; limits that cannot be set are noted.
    pub fn open(&self, name: &str, limits: &Limits, unenforced: &mut Vec<String>) -> io::Result<Groups> {
        let main = self.parent.join(name);
        cgroup::make(&main)?;
        let processes = limits.processes.unwrap_or_else(default_processes);
        if main.join("pids.max").exists() {
            cgroup::write(&main, "pids.max", processes.to_string())?;
        }
        let counts_memory = main.join("memory.current").exists();
        let mut groups = Groups {
            memory_counts: counts_memory.then(|| main.clone()),
            processor_counts: Some(main.clone()),
            main,
            others: Vec::new(),
            memory: None,
            version: Version::V2,
        };
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

/// True if an agent has moved itself into this group.
fn is_leaf(group: &Path) -> bool {
    let name = group.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(cgroup::PREFIX) && name.ends_with(LEAF_SUFFIX)
}

/// The controllers that this group has, of those that limits need.
fn controllers(group: &Path) -> Vec<&'static str> {
    let text = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    CONTROLLERS.into_iter().filter(|name| text.split_whitespace().any(|word| word == *name)).collect()
}

/// Hands down the controllers of a group; `false` if one was refused.
fn delegate(group: &Path) -> bool {
    controllers(group)
        .iter()
        .all(|name| cgroup::write(group, "cgroup.subtree_control", format!("+{name}")).is_ok())
}

/// Moves the agent and this launcher out of their group, if they are alone in it.
fn move_away(base: &Path, leaf: &Path) -> bool {
    let ours = [std::os::unix::process::parent_id() as i32, std::process::id() as i32];
    let all_ours = |group: &Path| {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        text.lines().all(|line| line.parse().is_ok_and(|pid| ours.contains(&pid)))
    };
    if !all_ours(base) || cgroup::make(leaf).is_err() {
        return false;
    }
    ours.iter().all(|pid| cgroup::write(leaf, "cgroup.procs", pid.to_string()).is_ok())
}
