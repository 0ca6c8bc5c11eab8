//! The facts of this machine, by which the manager and schedulers place work.

use std::collections::BTreeMap;
use std::fs;

use estimand_api::node::{Facts, UsersTasks};
use estimand_api::task::CONTAINERS_LABEL;

use crate::allow::Allow;

pub fn facts(containment: &str, allow: &Allow, users_tasks: UsersTasks) -> Facts {
    let system = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Facts {
        hostname: text(system.nodename()),
        cores: std::thread::available_parallelism()
            .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1)),
        memory: total_memory(&meminfo),
        arch: text(system.machine()),
        kernel: format!("{} {}", text(system.sysname()), text(system.release())),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        containment: containment.to_owned(),
        allow: allow.shown(),
        users_tasks: Some(users_tasks),
    }
}

/// The labels that an agent claims: those that it was given, the numbers of the devices that it was told of, and that it
/// runs containers if it does.
pub fn labels(
    mut given: BTreeMap<String, String>,
    devices: &BTreeMap<String, Vec<String>>,
    runs_containers: bool,
) -> BTreeMap<String, String> {
    for (resource, ids) in devices {
        given.entry(resource.clone()).or_insert_with(|| ids.len().to_string());
    }
    if runs_containers {
        given.entry(CONTAINERS_LABEL.to_owned()).or_insert_with(|| "yes".to_owned());
    }
    given
}

/// The name of this machine, which is its node's name unless another one is given.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn total_memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_table() {
        assert_eq!(total_memory("MemFree: 1 kB\nMemTotal:       24576000 kB\n"), 24_576_000 * 1024);
        assert_eq!(total_memory("nonsense"), 0);
        assert!(facts("subreaper", &Allow::Everything, UsersTasks::Together).memory > 0);
    }
}
