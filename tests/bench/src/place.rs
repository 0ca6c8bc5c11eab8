//! The place of the data. Durable writes are only worth measuring on a disk.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context;
use tempfile::TempDir;

/// A folder for this run, and its file system.
pub struct Place {
    folder: TempDir,
    pub file_system: String,
}

impl Place {
    /// In the temporary directory, or beside this program if that is in memory.
    pub fn choose() -> anyhow::Result<Self> {
        let usual = env::temp_dir();
        let program = env::current_exe().context("where this program is")?;
        let beside = program.parent().unwrap_or(Path::new(".")).to_owned();
        let base = if is_in_memory(&usual) { beside } else { usual };
        let folder = tempfile::Builder::new()
            .prefix("estimand-bench-")
            .tempdir_in(&base)
            .with_context(|| format!("a folder in {}", base.display()))?;
        Ok(Place { folder, file_system: describe(&base) })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The file system of the throw-away database servers' data, also if it is in memory.
pub fn of_servers() -> String {
    describe(&env::temp_dir())
}

fn describe(folder: &Path) -> String {
    match file_system(folder) {
        Some((kind, device)) if is_in_memory(folder) => {
            format!("{kind} ({device}), which is IN MEMORY: set TMPDIR to a folder on a disk")
        }
        Some((kind, device)) => format!("{kind} ({device})"),
        None => "an unknown file system".to_owned(),
    }
}

fn is_in_memory(folder: &Path) -> bool {
    file_system(folder).is_some_and(|(kind, _)| matches!(kind.as_str(), "tmpfs" | "ramfs"))
}

/// Kind and device of the file system that a folder lies on.
fn file_system(folder: &Path) -> Option<(String, String)> {
    let folder = folder.canonicalize().ok()?;
    mounted_at(&fs::read_to_string("/proc/self/mounts").ok()?, &folder)
}

/// The mount point that is the longest beginning of the path; of two mounts on one point the later.
fn mounted_at(mounts: &str, folder: &Path) -> Option<(String, String)> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (device, point, kind) = (words.next()?, words.next()?, words.next()?);
        folder.starts_with(point).then_some((point.len(), kind, device))
    });
    mounts.max_by_key(|(length, ..)| *length).map(|(_, kind, device)| (kind.to_owned(), device.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/disk xfs rw 0 0\n";
        let found =
            |path| mounted_at(mounts, Path::new(path)).map(|(kind, device)| format!("{kind} {device}"));
        assert_eq!(found("/home/x").as_deref(), Some("ext4 /dev/a"));
        assert_eq!(found("/tmp/x").as_deref(), Some("tmpfs tmpfs"));
        assert_eq!(found("/tmp/disk/x").as_deref(), Some("xfs /dev/b"));
        assert_eq!(found("/tmpfoo").as_deref(), Some("ext4 /dev/a"));
    }
}
