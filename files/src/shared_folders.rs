//! The folders that users give others to read. They are known by their paths, in one file beside the files, which is replaced as a
//! whole: a copy of the folder has them, too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use estimand_api::file::FilePath;
use estimand_api::file_share::{FolderShares, OthersFolder, ReadPath, Readers, SharedFolder};
use estimand_api::names::UserName;
use rustix::fs::{Mode, OFlags};

use crate::root::Root;

/// The file of all shares, and the one that is to replace it; no path of a file leads there.
const FILE: &str = ".estimand-shares";
const NEXT: &str = ".estimand-shares-next";
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// How many folders a user may share.
pub const MAX_FOLDERS: usize = 256;

/// The shared folders of each user, with those who may read them.
type Folders = BTreeMap<String, BTreeMap<String, Readers>>;

#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    #[error("a user shares at most {MAX_FOLDERS} folders")]
    TooMany,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for ShareError {
    fn from(error: rustix::io::Errno) -> Self {
        ShareError::Io(error.into())
    }
}

#[derive(Debug, Default)]
pub struct SharedFolders {
    /// The folder that the file is in; none: they are kept nowhere.
    top: Option<OwnedFd>,
    /// As they are stored. Whoever reads a file looks here, and waits for no disk.
    folders: RwLock<Arc<Folders>>,
    /// Held by a change until it is stored.
    changing: Mutex<()>,
}

impl SharedFolders {
    pub fn open(root: &Root) -> io::Result<Self> {
        let top = root.folder(None)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folders = match rustix::fs::openat(&top, FILE, flags, Mode::empty()) {
            Ok(file) => {
                let mut text = String::new();
                File::from(file).read_to_string(&mut text)?;
                serde_json::from_str(&text).map_err(|error| {
                    let cause =
                        format!("`{FILE}` says which folders are shared, and cannot be read: {error}");
                    io::Error::new(io::ErrorKind::InvalidData, cause)
                })?
            }
            Err(rustix::io::Errno::NOENT) => Folders::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(SharedFolders {
            top: Some(top),
            folders: RwLock::new(Arc::new(folders)),
            changing: Mutex::default(),
        })
    }

    /// True if a user may read what has this path in the owner's folder.
    pub fn is_readable(&self, user: &str, owner: &UserName, path: &FilePath) -> bool {
        if user == owner.as_str() {
            return true;
        }
        let folders = self.folders();
        let Some(shared) = folders.get(owner.as_str()) else { return false };
        let path = path.as_str();
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        ends.filter_map(|end| shared.get(&path[..end])).any(|readers| readers.has(user))
    }

    /// The folders that a user shares, and those that the user may read; without a user all that are shared.
    pub fn of(&self, user: Option<&str>) -> FolderShares {
        let mut shares = FolderShares::default();
        for (owner, folders) in self.folders().iter() {
            let Ok(owner) = UserName::parse(owner) else { continue };
            let is_own = user.is_none_or(|user| user == owner.as_str());
            for (folder, readers) in folders {
                let Ok(folder) = folder.parse::<FilePath>() else { continue };
                let Ok(path) = ReadPath::of_other(&owner, &folder) else { continue };
                let owner = owner.clone();
                let readers = readers.clone();
                if is_own {
                    shares.own.push(SharedFolder { folder, path, owner, readers });
                } else if user.is_some_and(|user| readers.has(user)) {
                    shares.others.push(OthersFolder { path, owner });
                }
            }
        }
        shares
    }

    /// Shares a folder with these from now on, and with nobody else. Blocking.
    pub fn share(&self, owner: &UserName, folder: &FilePath, readers: Readers) -> Result<(), ShareError> {
        self.change(|folders| {
            let own = folders.entry(owner.as_str().to_owned()).or_default();
            own.insert(folder.as_str().to_owned(), readers);
            if own.len() > MAX_FOLDERS { Err(ShareError::TooMany) } else { Ok(true) }
        })?;
        Ok(())
    }

    /// Shares a folder no longer; false if it was not shared. Blocking.
    pub fn unshare(&self, owner: &UserName, folder: &FilePath) -> Result<bool, ShareError> {
        self.change(|folders| {
            let own = folders.get_mut(owner.as_str());
            let was_shared = own.and_then(|own| own.remove(folder.as_str())).is_some();
            folders.retain(|_, own| !own.is_empty());
            Ok(was_shared)
        })
    }

    /// Makes a change, and stores it if there is one; returns whether there was.
    fn change(
        &self,
        change: impl FnOnce(&mut Folders) -> Result<bool, ShareError>,
    ) -> Result<bool, ShareError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Folders::clone(&self.folders());
        if !change(&mut next)? {
            return Ok(false);
        }
        self.store(&next)?;
        *self.folders.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(true)
    }

    fn store(&self, folders: &Folders) -> Result<(), ShareError> {
        let Some(top) = &self.top else { return Ok(()) };
        let text = serde_json::to_vec(folders).map_err(io::Error::other)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(top, NEXT, flags, FILE_MODE)?);
        file.write_all(&text)?;
        file.sync_all()?;
        rustix::fs::renameat(top, NEXT, top, FILE)?;
        Ok(rustix::fs::fsync(top)?)
    }

    fn folders(&self) -> Arc<Folders> {
        Arc::clone(&self.folders.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn path(text: &str) -> FilePath {
        text.parse().unwrap()
    }

    fn user(name: &str) -> UserName {
        UserName::parse(name).unwrap()
    }

    fn with(names: &[&str]) -> Readers {
        Readers { all: false, with: names.iter().map(|name| user(name)).collect() }
    }

    #[test]
    fn a_folder_is_readable_with_all_that_is_in_it_and_nothing_beside_it() {
        let shares = SharedFolders::default();
        shares.share(&user("alice"), &path("data/mnist"), with(&["bob"])).unwrap();
        let reads = |name: &str, text: &str| shares.is_readable(name, &user("alice"), &path(text));
        for (text, readable) in [
            ("data/mnist", true),
            ("data/mnist/a/b", true),
            ("data", false),
            ("data/mnist2", false),
            ("data/mnist.bin", false),
            ("mnist", false),
            ("other/data/mnist", false),
        ] {
            assert_eq!((reads("bob", text), reads("carol", text)), (readable, false), "{text}");
            assert!(reads("alice", text), "{text}");
        }
        assert!(!shares.is_readable("bob", &user("eve"), &path("data/mnist")));
        shares.share(&user("alice"), &path("data"), Readers { all: true, with: Vec::new() }).unwrap();
        assert!(reads("carol", "data/mnist/a"));
        assert!(shares.unshare(&user("alice"), &path("data")).unwrap());
        assert!(reads("bob", "data/mnist/a") && !reads("carol", "data/mnist/a"));
        assert!(!shares.unshare(&user("alice"), &path("data")).unwrap());
    }

    #[test]
    fn shares_are_there_after_a_restart_and_bounded() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::open(place.path()).unwrap();
        let shares = SharedFolders::open(&root).unwrap();
        shares.share(&user("alice"), &path("data"), with(&["bob"])).unwrap();
        let again = SharedFolders::open(&root).unwrap();
        assert_eq!(again.of(Some("bob")).others.len(), 1);
        assert_eq!(again.of(Some("bob")), shares.of(Some("bob")));
        assert_eq!((again.of(None).own.len(), again.of(Some("carol"))), (1, FolderShares::default()));
        let all = |number: usize| again.share(&user("eve"), &path(&format!("f{number}")), with(&["bob"]));
        (0..MAX_FOLDERS).for_each(|number| all(number).unwrap());
        assert!(matches!(all(MAX_FOLDERS), Err(ShareError::TooMany)));
        all(0).unwrap();
        assert_eq!(SharedFolders::open(&root).unwrap().of(Some("eve")).own.len(), MAX_FOLDERS);
    }

    /// The disk is a pipe, which nobody reads. Before, a few changes of one user had everybody's reads wait for it, and with those the threads
    /// that answer all requests.
    #[test]
    fn a_read_waits_for_no_change_that_is_being_stored() {
        let place = tempfile::tempdir().unwrap();
        let shares = Arc::new(SharedFolders::open(&Root::open(place.path()).unwrap()).unwrap());
        shares.share(&user("alice"), &path("data"), with(&["bob"])).unwrap();
        let next = place.path().join(NEXT);
        rustix::fs::mknodat(rustix::fs::CWD, &next, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let changed = Arc::clone(&shares);
        let storing =
            std::thread::spawn(move || changed.share(&user("eve"), &path("data"), with(&["bob"])).is_ok());
        while shares.changing.try_lock().is_ok() {
            std::thread::yield_now();
        }
        let (answer, answered) = std::sync::mpsc::channel();
        let read = Arc::clone(&shares);
        std::thread::spawn(move || {
            let reads = |owner: &str| read.is_readable("bob", &user(owner), &path("data/x"));
            answer.send((reads("alice"), reads("eve"), read.of(Some("bob")).others.len()))
        });
        let answered = answered.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(answered, Ok((true, false, 1)));
        drop(File::open(&next).unwrap());
        assert!(!storing.join().unwrap(), "a pipe keeps nothing");
    }
}
