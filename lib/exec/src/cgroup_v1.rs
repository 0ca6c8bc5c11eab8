//! Cells where each controller has a hierarchy of its own.
//!
//! Every cell has a group in the `pids` hierarchy: it bounds processes, shows at once whether a process is left, and
//! can forbid forking while it is being killed. `memory` and `cpu` get a group only for a limit or a precedence, because
//! joining each costs a run some 50 µs.

use std::io;
use std::path::{Path, PathBuf};

use super::Precedence;
use super::cgroup;
use super::groups::{Groups, Version, default_processes};
use super::limits::Limits;

/// The agent's group in each hierarchy in which it may have one.
#[derive(Debug)]
pub(super) struct V1 {
    pids: PathBuf,
    memory: Option<PathBuf>,
    cpu: Option<PathBuf>,
    precedence: Precedence,
}

impl V1 {
    pub fn find(parent: &str, precedence: Precedence) -> Option<Self> {
        let own = |controller| {
            let group = cgroup::own_group(Some(controller))?.join(parent);
            cgroup::make(&group).ok()?;
            cgroup::may_join(&group).then_some(group)
        };
        let (pids, memory, cpu) = (own("pids")?, own("memory"), own("cpu"));
        if let (Some(cpu), Precedence::Background) = (&cpu, precedence) {
            // Without it runs are in the background by their niceness alone.
            let _ = cgroup::write(cpu, "cpu.shares", cgroup::BACKGROUND_SHARES_V1);
        }
        Some(V1 { pids, memory, cpu, precedence })
    }

    pub fn parents(&self) -> Vec<&Path> {
        [Some(&self.pids), self.memory.as_ref(), self.cpu.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect()
    }

    /// Makes the groups of a cell; limits that cannot be set are noted.
    pub fn open(&self, name: &str, limits: &Limits, unenforced: &mut Vec<String>) -> io::Result<Groups> {
        let main = self.pids.join(name);
        cgroup::make(&main)?;
        let processes = limits.processes.unwrap_or_else(default_processes);
        cgroup::write(&main, "pids.max", processes.to_string())?;
        let mut groups = Groups {
            main,
            others: Vec::new(),
            memory: None,
            memory_counts: None,
            processor_counts: None,
            version: Version::V1,
        };
        if let Some(bytes) = limits.memory
            && let Ok(group) = self.limit(self.memory.as_deref(), name, |group| limit_memory(group, bytes))
        {
            groups.others.push(group.clone());
            groups.memory_counts = Some(group.clone());
            groups.memory = Some(group);
        }
        if limits.cpu.is_some() || self.precedence == Precedence::Background {
            let limit = |group: &Path| limits.cpu.map_or(Ok(()), |cores| limit_cpu(group, cores));
            match self.limit(self.cpu.as_deref(), name, limit) {
                Ok(group) => {
                    // The controller that counts is nearly everywhere mounted with this one: to join another group for that
                    // alone would cost each run its time.
                    let counts = group.join("cpuacct.usage_user").exists();
                    groups.processor_counts = counts.then(|| group.clone());
                    groups.others.push(group);
                }
                Err(error) if limits.cpu.is_some() => {
                    unenforced.push(format!("cpu: no cgroup for it can be made here ({error})"));
                }
                Err(_) => {}
            }
        }
        Ok(groups)
    }

    fn limit(
        &self,
        parent: Option<&Path>,
        name: &str,
        set: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<PathBuf> {
        let group = parent.ok_or_else(|| io::Error::from(io::ErrorKind::PermissionDenied))?.join(name);
        cgroup::make(&group)?;
        set(&group).inspect_err(|_| {
            cgroup::remove(&group);
        })?;
        Ok(group)
    }
}

fn limit_memory(group: &Path, bytes: u64) -> io::Result<()> {
    cgroup::write(group, "memory.limit_in_bytes", bytes.to_string())?;
    // Swap would let a run have more than its limit; not every kernel accounts for it.
    let _ = cgroup::write(group, "memory.memsw.limit_in_bytes", bytes.to_string());
    Ok(())
}

fn limit_cpu(group: &Path, cores: f64) -> io::Result<()> {
    cgroup::write(group, "cpu.cfs_period_us", cgroup::CPU_PERIOD_US.to_string())?;
    cgroup::write(group, "cpu.cfs_quota_us", cgroup::cpu_quota_us(cores).to_string())
}
