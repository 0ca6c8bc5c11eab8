//! Control groups of one demo: a group for all, and in it one for each node, in which alone there are processes.
//!
//! Version 1 has a hierarchy for each controller: one limits, and one accounts, which may be the same. In version 2 a
//! group with processes in it has no controlled groups below, so the demo's group is put beside the own one or further
//! up, wherever the controller can be had.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::place;

const PREFIX: &str = "estimand-demo-";
/// Short, or a node that may run a tenth of it would stand still for long.
const PERIOD_MICROS: f64 = 20_000.0;
/// The kernel takes no less.
const LEAST_MICROS: f64 = 1_000.0;
/// Of all nodes together, beside the usual 1024 and 100.
const SHARES: u32 = 65_536;
const WEIGHT: u32 = 6_400;
/// The last of a process is gone only a moment after it was waited for.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The groups of emulated nodes. They go with the value.
#[derive(Debug)]
pub struct Groups {
    version: Version,
    /// The demo's group in each hierarchy; limits are in the first.
    tops: Vec<PathBuf>,
}

impl Groups {
    /// Makes them where they work: `enters` tries to put a process into a group by these files.
    pub fn find(nodes: &[&str], enters: impl Fn(&[PathBuf]) -> bool) -> Option<Groups> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        candidates(&own, &mounts).into_iter().find_map(|(version, parents)| {
            for parent in &parents {
                sweep(parent);
            }
            let tops = parents.iter().map(|parent| parent.join(own_name())).collect();
            // Removed again if any step fails.
            let groups = Groups { version, tops };
            groups.make(nodes).ok()?;
            let works = |node: &&str| enters(&groups.entries(node));
            nodes.first().is_some_and(works).then_some(groups)
        })
    }

    fn make(&self, nodes: &[&str]) -> io::Result<()> {
        for top in &self.tops {
            // Of a demo that had this process's number before.
            remove(top);
            fs::create_dir(top)?;
            if self.version == Version::Two {
                let parent = top.parent().unwrap_or(top);
                if !fs::read_to_string(top.join("cgroup.controllers"))?.split(' ').any(is_cpu) {
                    fs::write(parent.join("cgroup.subtree_control"), "+cpu")?;
                }
                fs::write(top.join("cgroup.subtree_control"), "+cpu")?;
            }
            for node in nodes {
                fs::create_dir(top.join(node))?;
            }
        }
        if let Some(top) = self.tops.first() {
            // A node gets its part also beside other processes; limits keep it from more.
            match self.version {
                Version::One => fs::write(top.join("cpu.shares"), SHARES.to_string())?,
                Version::Two => fs::write(top.join("cpu.weight"), WEIGHT.to_string())?,
            }
        }
        nodes.iter().try_for_each(|node| self.limit(node, 1.0))
    }

    /// The version of the kernel's interface, 1 or 2.
    pub fn version(&self) -> u8 {
        match self.version {
            Version::One => 1,
            Version::Two => 2,
        }
    }

    /// The files that a process writes its number into to enter a node's groups.
    pub fn entries(&self, node: &str) -> Vec<PathBuf> {
        self.tops.iter().map(|top| top.join(node).join("cgroup.procs")).collect()
    }

    /// Lets a node have so many cores.
    pub fn limit(&self, node: &str, cores: f64) -> io::Result<()> {
        let Some(top) = self.tops.first() else { return Ok(()) };
        let (folder, quota) = (top.join(node), (cores * PERIOD_MICROS).round().max(LEAST_MICROS));
        match self.version {
            Version::One => {
                fs::write(folder.join("cpu.cfs_period_us"), PERIOD_MICROS.to_string())?;
                fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())
            }
            Version::Two => fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD_MICROS}")),
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let deadline = Instant::now() + REMOVAL_PATIENCE;
        while !self.tops.iter().all(|top| remove(top)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn is_cpu(word: &str) -> bool {
    word.trim() == "cpu"
}

fn own_name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Groups in which the demo's could be, best first: for each hierarchy that is needed, one.
fn candidates(own: &str, mounts: &str) -> Vec<(Version, Vec<PathBuf>)> {
    let mut found = Vec::new();
    if let (Some(cpu), Some(accounting)) =
        (place::first(own, mounts, "cpu"), place::first(own, mounts, "cpuacct"))
    {
        let mut parents = vec![cpu, accounting];
        // Both controllers are mounted together, under whichever name.
        parents.dedup_by(|a, b| a.canonicalize().ok() == b.canonicalize().ok());
        found.push((Version::One, parents));
    }
    if let Some((group, top)) = place::second(own, mounts) {
        let parents =
            group.ancestors().skip(usize::from(group != top)).take_while(|folder| folder.starts_with(&top));
        found.extend(parents.map(|parent| (Version::Two, vec![parent.to_owned()])));
    }
    found
}

/// Removes what demos left there that are no more. A group in which there is still a process stays: the kernel sees to that.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if number.is_some_and(|number| !Path::new("/proc").join(number).exists()) {
            remove(&entry.path());
        }
    }
}

/// Removes a demo's group with those of its nodes; whether it is gone.
fn remove(top: &Path) -> bool {
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let _ = fs::remove_dir(top);
    !top.exists()
}
