//! Finds the control groups of a process in the texts of `/proc`.
//!
//! Pure: texts go in, folders come out, whether or not anything may be made there.

use std::path::{Path, PathBuf};

/// A mounted hierarchy.
struct Mount<'a> {
    /// The part of the hierarchy that is mounted, and its mount point.
    root: &'a str,
    point: String,
    kind: &'a str,
    options: &'a str,
}

/// The process's group by the controller, in a hierarchy of version 1 that has it.
pub(super) fn first(groups: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|word| word == controller);
    let path = lines(groups).find(|(controllers, _)| has(controllers))?.1;
    let mount = parse(mounts).find(|mount| mount.kind == "cgroup" && has(mount.options))?;
    Some(below(&mount, path))
}

/// The process's group in the hierarchy of version 2, and the top of what can be seen of that.
pub(super) fn second(groups: &str, mounts: &str) -> Option<(PathBuf, PathBuf)> {
    let path = lines(groups).find(|(controllers, _)| controllers.is_empty())?.1;
    let mount = parse(mounts).find(|mount| mount.kind == "cgroup2")?;
    Some((below(&mount, path), PathBuf::from(&mount.point)))
}

/// `4:cpu,cpuacct:/path`.
fn lines(groups: &str) -> impl Iterator<Item = (&str, &str)> {
    groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'))
}

/// `31 30 0:31 /root /point rw - cgroup cgroup rw,cpu`.
fn parse(mounts: &str) -> impl Iterator<Item = Mount<'_>> {
    mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?.replace("\\040", " "));
        let mut after = after.split(' ');
        let kind = after.next()?;
        Some(Mount { root, point, kind, options: after.nth(1)? })
    })
}

/// A path that leads out of what is mounted is what is mounted.
fn below(mount: &Mount<'_>, path: &str) -> PathBuf {
    let inside = Path::new(path).strip_prefix(mount.root).ok();
    let folder = inside.map(|inside| Path::new(&mount.point).join(inside)).filter(|folder| folder.is_dir());
    folder.unwrap_or_else(|| PathBuf::from(&mount.point))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 20 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        31 30 0:31 /docker/ab /no/where/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:32 / /no/where/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset\n\
        33 30 0:33 / /tmp rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_controller_is_where_it_is_mounted() {
        let groups = "5:cpuset:/\n2:cpu,cpuacct:/docker/ab\n0::/not:there\n";
        let found = |controller| first(groups, MOUNTS, controller);
        assert_eq!(found("cpuacct"), Some(PathBuf::from("/no/where/cpu,cpuacct")));
        assert_eq!(found("cpuset"), Some(PathBuf::from("/no/where/cpuset")));
        assert_eq!(found("acct"), None);
        assert_eq!(second(groups, MOUNTS), Some((PathBuf::from("/tmp"), PathBuf::from("/tmp"))));
        assert_eq!(second("1:cpu:/\n", MOUNTS), None);
    }
}
