//! The place of this process's cgroups, and the files of a group.
//!
//! All groups of one agent lie in `estimand-<id>`, under the group that the launcher itself is in, so limits
//! imposed on the agent from outside hold for its runs as well, and two agents never meet. Their names begin with
//! the launcher's process id, by which the next launcher recognises the groups of a former one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::orphans;

/// The names of all agents' groups begin with it.
pub(super) const PREFIX: &str = "estimand-";

/// The period of a limit on processor time. Short, because a run that is held back should not stand still for
/// long at a time.
pub(super) const CPU_PERIOD_US: u64 = 20_000;
/// The kernel takes no smaller quota.
const MIN_CPU_QUOTA_US: u64 = 1_000;

/// A tenth of what a group has by default, in either kind of hierarchy.
pub(super) const BACKGROUND_SHARES_V1: &str = "102";
pub(super) const BACKGROUND_WEIGHT_V2: &str = "10";

/// The quota of one period that amounts to so many cores.
pub(super) fn cpu_quota_us(cores: f64) -> u64 {
    ((cores * CPU_PERIOD_US as f64) as u64).max(MIN_CPU_QUOTA_US)
}

/// The directory of this process's own group in the hierarchy of a v1 controller, or in v2.
pub(super) fn own_group(controller: Option<&str>) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    locate(&mounts, &groups, controller)
}

fn locate(mounts: &str, groups: &str, controller: Option<&str>) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let wanted = match controller {
            Some(name) => controllers.split(',').any(|known| known == name),
            None => number == "0" && controllers.is_empty(),
        };
        wanted.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut filesystem = filesystem.split(' ');
        let kind = filesystem.next()?;
        let options = filesystem.nth(1)?;
        let wanted = match controller {
            Some(name) => kind == "cgroup" && options.split(',').any(|known| known == name),
            None => kind == "cgroup2",
        };
        // A container may see a part of the tree only: groups above the mount's root are not there.
        let below = Path::new(own).strip_prefix(root).ok()?;
        wanted.then(|| Path::new(point).join(below))
    })
}

/// True if processes may be put into this group.
pub(super) fn may_join(group: &Path) -> bool {
    rustix::fs::access(group.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_ok()
}

pub(super) fn write(group: &Path, file: &str, value: impl AsRef<[u8]>) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(group.join(file))
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_ref()))
}

/// A number in a file that holds one, or the one after `key ` in a file of such lines.
pub(super) fn number(group: &Path, file: &str, key: Option<&str>) -> Option<u64> {
    let mut buffer = [0_u8; 512];
    let text = orphans::read_small(&group.join(file), &mut buffer)?;
    match key {
        None => text.trim().parse().ok(),
        Some(key) => text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok()),
    }
}

/// The processes of a group and of those that were made inside it.
pub(super) fn members(group: &Path) -> Vec<i32> {
    let mut members: Vec<i32> = fs::read_to_string(group.join("cgroup.procs"))
        .map(|text| text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect())
        .unwrap_or_default();
    for inner in inner_groups(group) {
        members.extend(self::members(&inner));
    }
    members
}

fn inner_groups(group: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(group) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Makes a group, unless it is there. Its parent as well: a former launcher that just ends may have removed it.
pub(super) fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir_all(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// A user that no machine has.
const NOBODYS: u32 = 0x7fff_fffe;

/// Closes a group to processes of root that have no capabilities: they may not write to what is another user's. This
/// process goes on writing to it by a capability.
pub(super) fn close(group: &Path) -> io::Result<()> {
    let give = |path: &Path| rustix::fs::chown(path, Some(rustix::fs::Uid::from_raw(NOBODYS)), None);
    for entry in fs::read_dir(group)?.flatten() {
        give(&entry.path())?;
    }
    Ok(give(group)?)
}

/// Removes a group and those inside it; `false` while something is left in it.
pub(super) fn remove(group: &Path) -> bool {
    match fs::remove_dir(group) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(_) => {
            for inner in inner_groups(group) {
                remove(&inner);
            }
            fs::remove_dir(group).is_ok()
        }
    }
}

/// Kills the processes in groups of former launchers of this agent, and removes the groups. `false` while something
/// is left. Groups whose name begins with `mine` stay.
pub(super) fn clear_leftovers(parent: &Path, mine: &str) -> bool {
    let mut clear = true;
    for group in inner_groups(parent) {
        if group.file_name().is_some_and(|name| name.to_string_lossy().starts_with(mine)) {
            continue;
        }
        // One file forbids forking, the other kills the whole group. The hierarchies differ in having them.
        let _ = write(&group, "pids.max", "0");
        let _ = write(&group, "cgroup.kill", "1");
        for pid in members(&group) {
            orphans::signal(pid, Signal::KILL);
        }
        clear &= remove(&group);
    }
    clear
}

/// A name made safe to be that of a directory.
pub(super) fn safe_name(name: &str) -> String {
    let safe = |letter: char| {
        if letter.is_ascii_alphanumeric() || "_-".contains(letter) { letter } else { '_' }
    };
    name.chars().map(safe).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
39 31 0:36 /box/7 /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";
    const GROUPS: &str = "8:pids:/box/7/inner\n4:cpu,cpuacct:/a:b\n0::/user.slice/x\n";

    #[test]
    fn the_own_group_is_found_in_each_hierarchy() {
        let find = |controller| locate(MOUNTS, GROUPS, controller);
        assert_eq!(find(Some("pids")), Some("/sys/fs/cgroup/pids/inner".into()), "below the mount's root");
        assert_eq!(find(Some("cpu")), Some("/sys/fs/cgroup/cpu,cpuacct/a:b".into()), "a colon in the path");
        assert_eq!(find(None), Some("/sys/fs/cgroup/unified/user.slice/x".into()));
        assert_eq!(find(Some("memory")), None);
    }

    #[test]
    fn names_cannot_leave_their_directory() {
        assert_eq!(safe_name("../a b/é"), "___a_b__");
        assert_eq!(cpu_quota_us(0.5), 10_000);
        assert_eq!(cpu_quota_us(0.001), 1_000);
    }
}
