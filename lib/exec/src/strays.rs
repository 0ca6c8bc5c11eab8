//! The processes that have left their cell.
//!
//! A run as the agent's own user may move itself to any group that this user may write to. It stays a descendant of the
//! launcher nonetheless, because orphans become the launcher's children; and the groups of cells are closed to root's runs.
//! So what is a child of the launcher, no main process, and in no cell has left one, and is killed before the next
//! run is reported: nothing of a run is left when its end is.

use std::collections::HashSet;

use super::launcher::State;
use super::orphans;

impl State {
    /// Kills what has left its cell, with all that it started; true if there was something.
    pub(super) fn kill_strays(&self) -> bool {
        // Without groups the sweep finds them.
        if !self.leaves_cells() || self.cells.values().any(|cell| !cell.has_groups()) {
            return false;
        }
        if self.strays().is_empty() {
            return false;
        }
        orphans::kill_found(|| orphans::trees_of(&self.strays(), self.pid.as_raw_pid()));
        true
    }

    /// True if runs have a user who may write to groups: the launcher's own.
    fn leaves_cells(&self) -> bool {
        self.privileges.as_ref().is_none_or(|privileges| privileges.is_own_user())
    }

    /// True if the launcher has no children but the main processes of runs, so that no cell holds anything of a run whose
    /// main process has ended: an orphan would be a child of the launcher. False also if the look costs much.
    pub(super) fn has_only_mains(&self) -> bool {
        let mains = |children: Vec<i32>| children.iter().all(|pid| self.mains.contains_key(pid));
        self.childless || self.children.listed().is_some_and(mains)
    }

    /// Also those that have ended and are not reaped yet: their own children may not be the launcher's yet.
    fn strays(&self) -> HashSet<i32> {
        let mut strays: HashSet<i32> = self.children.pids().into_iter().collect();
        strays.retain(|pid| !self.mains.contains_key(pid) && !self.is_in_cell(*pid));
        strays
    }

    /// True if it is in one of the cells. The names of its groups say which; the list of that cell alone is believed.
    fn is_in_cell(&self, pid: i32) -> bool {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let own = format!("{}.", self.pid);
        let number = |name: &str| name.strip_prefix(&own)?.split('.').next()?.parse::<u64>().ok();
        let mut named = groups.split(['/', '\n']).filter_map(number);
        named.any(|cell| self.cells.get(&cell).is_some_and(|cell| cell.members().contains(&pid)))
    }
}
