//! A control group with a limit, and something that works in it.
//!
//! It is made where the machine's groups are mounted, of either version, and goes with what is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::read;

/// A group of its own with a limit of a fifth of a processor, and what works in it.
pub struct Limited {
    folders: Vec<PathBuf>,
    pub name: String,
    child: Option<Child>,
}

impl Limited {
    pub const CORES: f64 = 0.2;

    /// None where this process may make no group that has a limit.
    pub fn new() -> Option<Limited> {
        let name = format!("collectors-test-{}", std::process::id());
        let mut limited = Limited { folders: Vec::new(), name: name.clone(), child: None };
        let top = Path::new("/sys/fs/cgroup");
        let mut make = |folder: PathBuf| {
            fs::create_dir(&folder).ok()?;
            limited.folders.push(folder.clone());
            Some(folder)
        };
        if top.join("cpu/cgroup.procs").exists() {
            let cpu = make(top.join("cpu").join(&name))?;
            let accounting = top.join("cpuacct").join(&name);
            if !accounting.exists() {
                make(accounting)?;
            }
            fs::write(cpu.join("cpu.cfs_period_us"), "20000").ok()?;
            fs::write(cpu.join("cpu.cfs_quota_us"), "4000").ok()?;
        } else {
            let group = make(top.join(&name))?;
            fs::write(group.join("cpu.max"), "4000 20000").ok()?;
        }
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = child.id().to_string();
        limited.child = Some(child);
        limited.folders.iter().for_each(|folder| fs::write(folder.join("cgroup.procs"), &pid).unwrap());
        Some(limited)
    }

    fn field(&self, name: &str) -> Option<f64> {
        let stat = read(self.folders[0].join("cpu.stat"));
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|number| number.parse().unwrap())
    }

    /// Seconds throttled, and used.
    pub fn seconds(&self) -> (f64, f64) {
        let accounted =
            || read(self.folders.last().unwrap().join("cpuacct.usage")).trim().parse::<f64>().unwrap();
        let throttled = self.field("throttled_usec").map(|micros| micros / 1e6);
        let used = self.field("usage_usec").map(|micros| micros / 1e6);
        (
            throttled.unwrap_or_else(|| self.field("throttled_time").unwrap() / 1e9),
            used.unwrap_or_else(|| accounted() / 1e9),
        )
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // The kernel may still be busy with the end of what worked in it.
        let busy =
            |folder| fs::remove_dir(folder).is_err_and(|e| e.kind() == std::io::ErrorKind::ResourceBusy);
        self.folders.iter().for_each(|folder| while busy(folder) {});
    }
}
