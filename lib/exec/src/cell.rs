//! A cell: it holds the processes of one slot together, and to their limits.
//!
//! With cgroups it is a group in each hierarchy that is needed; [`super::strays`] finds what leaves it.
//! Without, it is a name only, and [`super::orphans`] finds the processes of a run. A cell holds one run at a time.

use std::ffi::CString;
use std::io;
use std::path::Path;

use rustix::process::Signal;

use super::cgroup_v1::V1;
use super::cgroup_v2::V2;
use super::groups::{Groups, Version, default_processes};
use super::limits::Limits;
use super::protocol::ContainmentKind;
use super::usage::{GroupCounters, GroupUsage, MemoryLook};
use super::{CgroupMode, Precedence, cgroup, orphans};

/// The means by which processes are held together here.
#[derive(Debug)]
pub(super) enum Containment {
    V1(V1),
    V2(V2),
    /// The launcher is a subreaper and looks through the process table.
    Tree,
}

#[derive(Debug)]
pub(super) struct Cell {
    groups: Option<Groups>,
    /// The files in which a child moves itself into the groups.
    pub joins: Vec<CString>,
    /// The most processes, if no group counts them.
    pub watched_processes: Option<u64>,
    max_processes: u64,
    pub open_files: Option<u64>,
    pub address_space: Option<u64>,
    /// The run that is in it.
    pub run: Option<u64>,
    /// It is to be removed as soon as it is empty.
    pub closing: bool,
    /// Nothing in it can fork: it is being killed.
    frozen: bool,
    memory_kills: u64,
    pub memory_limit: Option<u64>,
    /// The counters of its groups, once a run in it was measured.
    counters: Option<GroupCounters>,
    /// The limits that are not enforced here, with the reason.
    pub unenforced: Vec<String>,
}

impl Containment {
    /// The best means within the mode. The unified hierarchy is first where it has the controllers for all limits;
    /// elsewhere they belong to hierarchies of their own.
    pub fn find(id: &str, mode: CgroupMode, precedence: Precedence) -> Self {
        let parent = format!("{}{}", cgroup::PREFIX, cgroup::safe_name(id));
        let v1 = || V1::find(&parent, precedence).map(Containment::V1);
        let v2 = || V2::find(&parent, precedence).map(Containment::V2);
        let found = match mode {
            CgroupMode::None => None,
            CgroupMode::V2 => v2(),
            CgroupMode::Best if V2::has_controllers() => v2().or_else(v1),
            CgroupMode::Best => v1().or_else(v2),
        };
        found.unwrap_or(Containment::Tree)
    }

    pub fn kind(&self) -> ContainmentKind {
        match self {
            Containment::V1(_) => ContainmentKind::CgroupV1,
            Containment::V2(_) => ContainmentKind::CgroupV2,
            Containment::Tree => ContainmentKind::Subreaper,
        }
    }

    /// Makes a cell; `closed` to runs of root's.
    pub fn open(&self, name: &str, limits: &Limits, closed: bool) -> Cell {
        let mut unenforced = Vec::new();
        let groups = match self {
            Containment::V1(v1) => Some(v1.open(name, limits, &mut unenforced)),
            Containment::V2(v2) => Some(v2.open(name, limits, &mut unenforced)),
            Containment::Tree => None,
        };
        let groups = match groups {
            Some(Ok(groups)) => {
                if closed && let Err(error) = groups.close() {
                    unenforced.push(format!("the groups of its cell cannot be closed to it: {error}"));
                }
                Some(groups)
            }
            Some(Err(error)) => {
                unenforced.clear();
                unenforced.push(format!("a cgroup of its own: {error}"));
                None
            }
            None => None,
        };
        Cell::new(groups, limits, unenforced)
    }

    /// The groups that hold the agent's cells.
    pub fn parents(&self) -> Vec<&Path> {
        match self {
            Containment::V1(v1) => v1.parents(),
            Containment::V2(v2) => vec![v2.parent()],
            Containment::Tree => Vec::new(),
        }
    }
}

impl Cell {
    fn new(groups: Option<Groups>, limits: &Limits, mut unenforced: Vec<String>) -> Self {
        let max_processes = limits.processes.unwrap_or_else(default_processes);
        let counted = groups.as_ref().is_some_and(Groups::counts_processes);
        if !counted && limits.processes.is_some() {
            unenforced.push(
                "processes: they are counted a few times a second, and a run that has more is killed"
                    .to_owned(),
            );
        }
        let in_memory_group = groups.as_ref().is_some_and(|groups| groups.memory.is_some());
        let address_space = limits.memory.filter(|_| !in_memory_group);
        if address_space.is_some() {
            unenforced
                .push("memory: each process is held to it by its address space, not all together".into());
        }
        if groups.is_none() && limits.cpu.is_some() {
            unenforced.push("cpu: there is no cgroup for it here".to_owned());
        }
        let joins = groups.as_ref().map(Groups::joins).unwrap_or_default();
        let mut cell = Cell {
            groups,
            joins,
            watched_processes: (!counted).then_some(max_processes),
            max_processes,
            open_files: limits.open_files,
            address_space,
            run: None,
            closing: false,
            frozen: false,
            memory_kills: 0,
            memory_limit: limits.memory,
            counters: None,
            unenforced,
        };
        cell.memory_kills = cell.count_memory_kills();
        cell
    }

    pub fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// True if the kernel kills for its limit on memory.
    pub fn limits_memory(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.memory.is_some())
    }

    /// Lets a new run fork after the last one was killed.
    pub fn thaw(&mut self) -> io::Result<()> {
        if let Some(groups) = &self.groups
            && self.frozen
        {
            cgroup::write(&groups.main, "pids.max", self.max_processes.to_string())?;
            self.frozen = false;
        }
        Ok(())
    }

    pub fn members(&self) -> Vec<i32> {
        self.groups.as_ref().map(|groups| cgroup::members(&groups.main)).unwrap_or_default()
    }

    /// True if nothing is left in it, not even a zombie. If it cannot be read it is gone.
    pub fn is_empty(&self) -> bool {
        self.groups.as_ref().is_none_or(Groups::is_empty)
    }

    /// One pass of killing. Forking is forbidden first, or a fork bomb would outrun it.
    pub fn kill(&mut self) {
        let Some(groups) = &self.groups else { return };
        if !self.frozen && groups.counts_processes() {
            self.frozen = cgroup::write(&groups.main, "pids.max", "0").is_ok();
        }
        if groups.version == Version::V2 && cgroup::write(&groups.main, "cgroup.kill", "1").is_ok() {
            return;
        }
        for pid in cgroup::members(&groups.main) {
            orphans::signal(pid, Signal::KILL);
        }
    }

    /// True if the kernel killed for this cell's memory limit since the last call.
    pub fn ran_out_of_memory(&mut self) -> bool {
        let now = self.count_memory_kills();
        std::mem::replace(&mut self.memory_kills, now) < now
    }

    fn count_memory_kills(&self) -> u64 {
        let Some(groups) = &self.groups else { return 0 };
        let Some(memory) = &groups.memory else { return 0 };
        let file = match groups.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        cgroup::number(memory, file, Some("oom_kill ")).unwrap_or(0)
    }

    /// Notes its counters before the first run that is measured.
    pub fn begin_counting(&mut self) {
        if let (None, Some(groups)) = (&self.counters, &self.groups) {
            self.counters = Some(GroupCounters::of(groups));
        }
    }

    /// The usage of its groups by the run that has just ended.
    pub fn end_counting(&mut self) -> GroupUsage {
        match (&mut self.counters, &self.groups) {
            (Some(counters), Some(groups)) => counters.advance(groups),
            _ => GroupUsage::default(),
        }
    }

    /// The memory of the run in it, if a group counts that.
    pub fn memory(&self) -> Option<MemoryLook> {
        self.counters.as_ref()?.look(self.groups.as_ref()?)
    }

    /// Removes its groups; `false` while something is left in one.
    pub fn remove(&self) -> bool {
        let Some(groups) = &self.groups else { return true };
        // The main one last: as long as it is there, the processes that are left can be found.
        groups.others.iter().all(|group| cgroup::remove(group)) && cgroup::remove(&groups.main)
    }
}
