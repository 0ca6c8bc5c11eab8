//! Places of a process's control groups.
//!
//! `/proc/self/cgroup` has its group in each hierarchy, and `mountinfo` the mounts of hierarchies, or of parts of
//! them. In a container a path may lead out of the mount; then the mount is the group.

use std::path::{Component, Path, PathBuf};

use crate::files;
use crate::mounts::Mount;

/// Controllers that are read.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A group in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    version: Version,
    path: String,
    /// Its folder, and those of the groups above it, as far as they can be seen. Never empty.
    pub folders: Vec<PathBuf>,
}

impl Group {
    pub fn text(&self, name: &str) -> Option<String> {
        files::optional(&self.folders.first()?.join(name))
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The answer of the group, or of the nearest group above it that has one.
    pub fn nearest<T>(&self, of: impl Fn(&Path) -> Option<T>) -> Option<T> {
        self.folders.iter().find_map(|folder| of(folder))
    }
}

/// The group by controller.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_controller: Vec<(&'static str, Group)>,
    unified: Option<Group>,
}

impl Groups {
    /// Those of a text such as `/proc/self/cgroup`, or those of a path.
    pub fn find(text: &str, mounts: &[Mount], root: &Path, wanted: Option<&str>) -> Groups {
        let lines: Vec<(&str, &str)> = files::lines(text).filter_map(parse_line).collect();
        let locate = |version, mount: &Mount, path: &str| match wanted {
            Some(wanted) => Group::of_path(version, mount, root, wanted),
            None => Some(Group::locate(version, mount, root, path)),
        };
        let unified = || {
            let (_, path) = lines.iter().find(|(controllers, _)| controllers.is_empty())?;
            locate(Version::Two, mounts.iter().find(|mount| mount.kind == "cgroup2")?, path)
        };
        let unified = unified();
        let of = |controller: &'static str| {
            let has = |list: &str| list.split(',').any(|word| word == controller);
            let first = || {
                let (_, path) = lines.iter().find(|(controllers, _)| has(controllers))?;
                let mount = mounts.iter().find(|mount| mount.kind == "cgroup" && has(&mount.options))?;
                locate(Version::One, mount, path)
            };
            first().or_else(|| unified.clone()).map(|group| (controller, group))
        };
        Groups { by_controller: CONTROLLERS.into_iter().filter_map(of).collect(), unified }
    }

    pub fn is_empty(&self) -> bool {
        self.by_controller.is_empty()
    }

    pub fn get(&self, controller: &str) -> Option<&Group> {
        self.by_controller.iter().find(|(name, _)| *name == controller).map(|(_, group)| group)
    }

    pub fn path(&self, controller: &str) -> Option<&str> {
        self.get(controller).map(|group| group.path.as_str())
    }

    /// The group in the hierarchy of version 2, if there is one.
    pub fn unified(&self) -> Option<&Group> {
        self.unified.as_ref()
    }

    pub fn version(&self) -> &'static str {
        let first = self.by_controller.iter().any(|(_, group)| group.version == Version::One);
        match (first, self.unified.is_some()) {
            (true, true) => "hybrid",
            (true, false) => "v1",
            (false, _) => "v2",
        }
    }
}

impl Group {
    fn locate(version: Version, mount: &Mount, root: &Path, path: &str) -> Group {
        let mounted = files::below(root, &mount.point);
        // A group that has been removed is still named, with a remark.
        let shown = path.strip_suffix(" (deleted)").unwrap_or(path);
        let relative = Path::new(shown).strip_prefix(&mount.root).ok().filter(|relative| is_plain(relative));
        let folder = relative.map(|relative| mounted.join(relative)).filter(|folder| folder.is_dir());
        let folder = folder.unwrap_or_else(|| mounted.clone());
        Group { version, path: path.to_owned(), folders: upward(&folder, &mounted) }
    }

    fn of_path(version: Version, mount: &Mount, root: &Path, path: &str) -> Option<Group> {
        let mounted = files::below(root, &mount.point);
        let folder = files::below(&mounted, Path::new(path));
        folder.is_dir().then(|| Group { version, path: path.to_owned(), folders: upward(&folder, &mounted) })
    }
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(_)))
}

fn upward(folder: &Path, top: &Path) -> Vec<PathBuf> {
    folder.ancestors().take_while(|folder| folder.starts_with(top)).map(Path::to_path_buf).collect()
}

/// `4:cpu,cpuacct:/path`: controllers and path, which may have colons itself. None are named for version 2.
fn parse_line(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(':')?;
    rest.split_once(':')
}
