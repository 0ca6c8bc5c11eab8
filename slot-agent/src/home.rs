//! The agent's data folder: the node that it belongs to, the name of the agent, the number of its starts, its last desired
//! state, and the folders of slots and tasks.
//!
//! One process at a time uses the folder, held by a lock that ends with the process. The files outlive any crash.
//!
//! Nobody else reads them, since they may have secrets. If slots run as another user, that one can go through the
//! folder to those of its slots, which are its own, and nowhere else.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use estimand_api::names::NodeName;
use estimand_api::node::DesiredState;
use estimand_runtime::files::write_atomically;
use estimand_runtime::lock_file::{Holder, LockError, LockFile};
use rustix::fs::{Gid, Uid};

use estimand_exec::Identity;

use crate::{slot_folder, tasks};

/// How long the files of another node's slots may take to be removed.
const FORGET_WITHIN: Duration = Duration::from_secs(600);
/// The folder of tasks.
const TASKS: &str = "tasks";

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("the data folder {} is used by another agent, {holder}: each agent on a machine needs one of its own (--data-dir)", folder.display())]
    Taken { folder: PathBuf, holder: Holder },
    #[error(
        "the data folder {} is the one of the node {known}, and this is the node {given}: give it a folder of its own \
         (--data-dir), or --renamed if this is the same node under another name; then what was assigned to {known} and \
         what waits to be delivered for it is forgotten",
        folder.display()
    )]
    OtherNode { folder: PathBuf, known: String, given: NodeName },
    #[error("cannot {doing} {}: {cause}", path.display())]
    Io { doing: &'static str, path: PathBuf, cause: io::Error },
}

/// The data folder, held.
#[derive(Debug)]
pub struct Home {
    folder: PathBuf,
    /// Where the folders of slots are.
    slots: PathBuf,
    /// Where the folders of tasks are.
    tasks: PathBuf,
    /// Names the folder, for ever.
    pub agent: String,
    /// Grows with each start.
    pub boot: u64,
    /// The owner of the folders of slots, if that is not this process's user.
    owner: Option<(u32, u32)>,
    _lock: LockFile,
}

impl Home {
    /// For a node, with the user that slots run as, if that is another one. The folder of another node is emptied if this
    /// is that node, `renamed`. The folders of slots are in this one, or in one of this agent's own in `elsewhere`.
    pub fn open(
        folder: &Path,
        elsewhere: Option<&Path>,
        node: &NodeName,
        renamed: bool,
        runs_as: Option<&Identity>,
    ) -> Result<Self, HomeError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(at("make", folder))?;
        let folder = folder.canonicalize().map_err(at("find", folder))?;
        let lock = LockFile::take(&folder.join("lock")).map_err(|error| match error {
            LockError::Held { holder, .. } => HomeError::Taken { folder: folder.clone(), holder },
            LockError::Io { doing, path, cause } => HomeError::Io { doing, path, cause },
        })?;
        if let Err(other) = check_node(&folder, node) {
            if !renamed {
                return Err(other);
            }
            forget_node(&folder, elsewhere)?;
        }
        replace(&folder.join("node"), node.as_str().as_bytes())?;
        let known = fs::read_to_string(folder.join("agent")).unwrap_or_default();
        let agent = match known.trim() {
            id if id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()) => id.to_owned(),
            _ => format!("{:016x}", fastrand::u64(..)),
        };
        let slots = slots_of(&folder, elsewhere, &agent);
        fs::create_dir_all(&slots).map_err(at("make", &slots))?;
        let slots = slots.canonicalize().map_err(at("find", &slots))?;
        let tasks = folder.join(TASKS);
        fs::create_dir_all(&tasks).map_err(at("make", &tasks))?;
        for closed in [&folder, &slots, &tasks] {
            let mode = if runs_as.is_some() { 0o711 } else { 0o700 };
            close(closed, mode).map_err(at("close to others", closed))?;
        }
        if let Some(Identity { gid, .. }) = runs_as {
            // Nobody else comes to what slots leave, whatever they make of their own folder's permissions.
            close_to_group(&slots, *gid).map_err(at("close to others", &slots))?;
        }
        let last: u64 = fs::read_to_string(folder.join("boot"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0);
        let boot = last + 1;
        replace(&folder.join("agent"), agent.as_bytes())?;
        replace(&folder.join("boot"), boot.to_string().as_bytes())?;
        let owner = runs_as.map(|identity| (identity.uid, identity.gid));
        Ok(Home { folder, slots, tasks, agent, boot, owner, _lock: lock })
    }

    /// Where deliveries wait.
    pub fn spool(&self) -> PathBuf {
        self.folder.join("spool")
    }

    /// Where uploaded files are kept.
    pub fn uploads(&self) -> PathBuf {
        self.folder.join("uploads")
    }

    /// The folder in which a slot's executable runs, and which is its own to keep things in.
    pub fn slot_folder(&self, data_name: &str) -> io::Result<PathBuf> {
        let folder = self.folder_of(data_name);
        // Nearly always it is there as it should be, and one look is all.
        let there = match folder.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&folder)?;
                folder.metadata()?
            }
            there => there?,
        };
        if there.mode() & 0o777 != 0o700 {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        }
        // Not what is in it: of a former user's files the new one makes what it can.
        if let Some((uid, gid)) = self.owner
            && there.uid() != uid
        {
            rustix::fs::chown(&folder, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(folder)
    }

    /// Where that folder is, or will be.
    pub fn folder_of(&self, data_name: &str) -> PathBuf {
        self.slots().join(data_name)
    }

    /// Where the folders of slots are.
    pub fn slots(&self) -> &Path {
        &self.slots
    }

    /// Where the folders of tasks are.
    pub fn tasks(&self) -> &Path {
        &self.tasks
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The last desired state; none if there was none, or it cannot be read.
    pub fn desired(&self) -> Option<DesiredState> {
        let text = fs::read(self.folder.join("desired.json")).ok()?;
        match serde_json::from_slice(&text) {
            Ok(desired) => Some(desired),
            Err(error) => {
                tracing::warn!(%error, "the last desired state cannot be read; the manager will send it again");
                None
            }
        }
    }

    pub fn keep_desired(&self, desired: &DesiredState) -> Result<(), HomeError> {
        let text = serde_json::to_vec(desired).unwrap_or_default();
        replace(&self.folder.join("desired.json"), &text)
    }
}

/// Where an agent's slots have their folders. Elsewhere it is named for the agent, because several may share a disk.
fn slots_of(folder: &Path, elsewhere: Option<&Path>, agent: &str) -> PathBuf {
    elsewhere.map_or_else(|| folder.join("slots"), |elsewhere| elsewhere.join(format!("estimand-{agent}")))
}

/// Writes a file that nobody else reads, so that there is the old one or the new one, whatever happens.
fn replace(path: &Path, content: &[u8]) -> Result<(), HomeError> {
    write_atomically(path, content, 0o600).map_err(at("write", path))
}

/// Checks that an agent's folder is this node's, or nobody's yet.
pub fn check_node(folder: &Path, node: &NodeName) -> Result<(), HomeError> {
    let known = fs::read_to_string(folder.join("node")).unwrap_or_default();
    match known.trim() {
        known if known.is_empty() || known == node.as_str() => Ok(()),
        known => Err(HomeError::OtherNode {
            folder: folder.to_owned(),
            known: known.to_owned(),
            given: node.clone(),
        }),
    }
}

/// Removes what another node was assigned, what waits to be delivered for it, and what its slots kept. Its tasks are ended.
fn forget_node(folder: &Path, elsewhere: Option<&Path>) -> Result<(), HomeError> {
    let agent = fs::read_to_string(folder.join("agent")).unwrap_or_default();
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    let slots = slots_of(folder, elsewhere.filter(|_| !agent.trim().is_empty()), agent.trim());
    let spool = folder.join("spool");
    gone(fs::remove_dir_all(&spool)).map_err(at("remove", &spool))?;
    // The slots' programs made what is in there.
    let emptied = slot_folder::empty(&slots, Instant::now() + FORGET_WITHIN);
    gone(emptied.and_then(|()| fs::remove_dir(&slots))).map_err(at("remove", &slots))?;
    let tasks = folder.join(TASKS);
    tasks::give_up(&tasks).map_err(at("give up", &tasks))?;
    for name in ["desired.json", "agent"] {
        let file = folder.join(name);
        gone(fs::remove_file(&file)).map_err(at("remove", &file))?;
    }
    Ok(())
}

/// Gives a folder these permissions if it has others.
fn close(folder: &Path, mode: u32) -> io::Result<()> {
    match folder.metadata()?.mode() & 0o777 == mode {
        true => Ok(()),
        false => fs::set_permissions(folder, fs::Permissions::from_mode(mode)),
    }
}

/// Lets only this group through a folder.
fn close_to_group(folder: &Path, gid: u32) -> io::Result<()> {
    if folder.metadata()?.gid() != gid {
        rustix::fs::chown(folder, None, Some(Gid::from_raw(gid)))?;
    }
    close(folder, 0o710)
}

fn at(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> HomeError {
    let path = path.to_owned();
    move |cause| HomeError::Io { doing, path: path.clone(), cause }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_the_same_after_a_restart_and_alone_in_its_folder() {
        let place = tempfile::tempdir().unwrap();
        let open = || Home::open(place.path(), None, &node("n1"), false, None);
        let first = open().unwrap();
        let taken = open().unwrap_err().to_string();
        assert!(taken.contains(&format!("process {}", std::process::id())), "{taken}");
        assert_eq!(first.desired(), None);
        let desired = DesiredState { revision: 7, ..DesiredState::default() };
        first.keep_desired(&desired).unwrap();
        let (agent, boot) = (first.agent.clone(), first.boot);
        drop(first);
        let second = open().unwrap();
        assert_eq!((second.agent.clone(), second.boot), (agent, boot + 1));
        assert_eq!(second.desired(), Some(desired));
        fs::write(place.path().join("desired.json"), "{").unwrap();
        assert_eq!(second.desired(), None);
    }

    fn node(name: &str) -> NodeName {
        NodeName::parse(name).unwrap()
    }

    #[test]
    fn the_folder_of_another_node_is_refused_and_emptied_only_for_the_same_node_renamed() {
        let place = tempfile::tempdir().unwrap();
        let first = Home::open(place.path(), None, &node("n1"), false, None).unwrap();
        first.keep_desired(&DesiredState { revision: 7, ..DesiredState::default() }).unwrap();
        fs::create_dir(first.spool()).unwrap();
        fs::write(first.slot_folder("load").unwrap().join("place"), "9").unwrap();
        let (agent, boot) = (first.agent.clone(), first.boot);
        drop(first);
        let refused = Home::open(place.path(), None, &node("n2"), false, None).unwrap_err().to_string();
        assert!(refused.contains("the one of the node n1, and this is the node n2"), "{refused}");
        assert!(place.path().join("desired.json").exists() && place.path().join("slots/load/place").exists());
        let renamed = Home::open(place.path(), None, &node("n2"), true, None).unwrap();
        assert_eq!(renamed.desired(), None);
        assert!(!renamed.spool().exists() && !renamed.slots().join("load").exists());
        assert!(renamed.agent != agent && renamed.boot > boot);
        drop(renamed);
        assert!(Home::open(place.path(), None, &node("n1"), false, None).is_err());
        // To say it again changes nothing.
        let again = Home::open(place.path(), None, &node("n2"), true, None).unwrap();
        again.keep_desired(&DesiredState::default()).unwrap();
        drop(again);
        assert!(Home::open(place.path(), None, &node("n2"), true, None).unwrap().desired().is_some());
    }

    #[test]
    fn the_folders_of_another_nodes_slots_go_however_deep_they_are() {
        let place = tempfile::tempdir().unwrap();
        let first = Home::open(place.path(), None, &node("n1"), false, None).unwrap();
        let folder = first.slot_folder("hostile").unwrap();
        drop(first);
        slot_folder::make_deep(&folder, 5_000);
        let renamed = Home::open(place.path(), None, &node("n2"), true, None).unwrap();
        assert!(!folder.exists() && renamed.slots().exists());
    }

    #[test]
    fn slots_may_be_elsewhere_each_agent_for_itself() {
        let (place, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = |folder: &str, name: &str, renamed| {
            Home::open(&place.path().join(folder), Some(disk.path()), &node(name), renamed, None).unwrap()
        };
        let (first, second) = (open("a", "n1", false), open("b", "n2", false));
        let folder = first.slot_folder("load").unwrap();
        fs::write(folder.join("place"), "9").unwrap();
        assert!(folder.starts_with(disk.path()) && second.slot_folder("load").unwrap() != folder);
        drop(first);
        assert_eq!(open("a", "n1", false).slot_folder("load").unwrap(), folder);
        assert!(folder.join("place").exists());
        let renamed = open("a", "n3", true);
        assert!(!folder.exists() && renamed.slots().starts_with(disk.path()));
    }

    #[test]
    fn nobody_else_reads_what_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("desired.json"), "{}").unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let own = Identity { uid, gid, groups: Vec::new() };
        for (runs_as, passable, of_slots) in [(Some(&own), 0o711, 0o710), (None, 0o700, 0o700)] {
            let home = Home::open(place.path(), None, &node("n1"), false, runs_as).unwrap();
            home.keep_desired(&DesiredState::default()).unwrap();
            assert_eq!((mode(place.path()), mode(home.slots())), (passable, of_slots));
            assert_eq!(mode(&home.slot_folder("a").unwrap()), 0o700);
            for file in ["desired.json", "agent", "boot", "lock"] {
                assert_eq!(mode(&place.path().join(file)), 0o600, "{file}");
            }
        }
    }
}
