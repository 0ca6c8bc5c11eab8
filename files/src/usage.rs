//! The files and bytes that each user has here, unfinished uploads among the bytes; what the tasks of a user leave is theirs.
//! A folder counts as a file: each takes as much of the disk, and stays when what is in it goes.
//!
//! A request changes the counts and looks at no tree. The folders of users are walked through at a start and every hour: files
//! come and go by other means, too, and what happens during a walk may be missed until the next one.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use estimand_api::file::FilePath;
use estimand_api::file_share::USERS_FOLDER;
use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;
use estimand_web::{ShareReport, User, Users};
use rustix::fs::{AtFlags, Dir, FileType};

use crate::listing::open_inner;
use crate::owner::Owner;
use crate::root::{self, Root};

/// No path of a file is deeper.
const MAX_DEPTH: usize = 32;

#[derive(Debug)]
pub struct Usage {
    users: Users,
    counts: Mutex<HashMap<String, Counts>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub files: i64,
    pub bytes: i64,
}

impl Counts {
    pub fn bytes(bytes: i64) -> Self {
        Counts { files: 0, bytes }
    }

    /// A file of this size.
    pub fn file(size: i64) -> Self {
        Counts { files: 1, bytes: size }
    }

    pub fn folders(number: u64) -> Self {
        Counts { files: i64::try_from(number).unwrap_or(i64::MAX), bytes: 0 }
    }

    fn get(self, kind: ShareKind) -> u64 {
        let count = if kind == ShareKind::Files { self.files } else { self.bytes };
        u64::try_from(count).unwrap_or(0)
    }
}

impl std::ops::Neg for Counts {
    type Output = Counts;

    fn neg(self) -> Counts {
        Counts { files: -self.files, bytes: -self.bytes }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.files = self.files.saturating_add(more.files).max(0);
        self.bytes = self.bytes.saturating_add(more.bytes).max(0);
    }
}

impl Usage {
    pub fn new(users: Users) -> Self {
        Usage { users, counts: Mutex::default() }
    }

    /// Refuses more than the share of the owner's user.
    pub fn check(&self, root: &Root, owner: &Owner, kind: ShareKind, more: u64) -> Result<(), Problem> {
        let Some(name) = owner.name() else { return Ok(()) };
        let user = self.users.find(name).unwrap_or_else(|| User::from(name));
        user.check(kind, self.of(name).get(kind), more, bound(root, kind))
    }

    /// Refuses what would be a new file at a place, if it and the folders that it needs are more than the share.
    pub fn check_new(&self, root: &Root, owner: &Owner, place: &FilePath) -> Result<(), Problem> {
        if root.size(place).is_some() {
            return Ok(());
        }
        self.check(root, owner, ShareKind::Files, 1 + missing_folders(root, place))
    }

    pub fn change(&self, owner: &Owner, by: Counts) {
        if let Some(name) = owner.name() {
            self.change_of(name, by);
        }
    }

    /// Changes the counts of the user in whose folder a path is.
    pub fn change_at(&self, place: &str, by: Counts) {
        if let Some(name) = user_at(place) {
            self.change_of(name, by);
        }
    }

    fn change_of(&self, name: &str, by: Counts) {
        *self.counts().entry(name.to_owned()).or_default() += by;
    }

    pub fn report(&self, root: &Root, report: &mut ShareReport) {
        for kind in [ShareKind::Files, ShareKind::FileBytes] {
            report.bound(kind, bound(root, kind));
            self.counts().iter().for_each(|(name, counts)| report.add(name, kind, counts.get(kind)));
        }
    }

    /// Counts what is in the folders of users, and what has come of their uploads. Blocking.
    pub fn correct(&self, root: &Root, parts: &[(Owner, i64)]) -> io::Result<()> {
        let users = match root.folder(Some(USERS_FOLDER)) {
            Err(error) if root::leads_nowhere(&error) => return Ok(()),
            users => users?,
        };
        for entry in Dir::read_from(&users)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            let mut counts = Counts::default();
            if let Ok(folder) = open_inner(&users, name) {
                walk(&folder, 0, &mut counts)?;
            }
            let own = parts.iter().filter(|(owner, _)| owner.name() == Some(name));
            own.for_each(|(_, size)| counts += Counts::bytes(*size));
            self.counts().insert(name.to_owned(), counts);
        }
        Ok(())
    }

    fn of(&self, name: &str) -> Counts {
        self.counts().get(name).copied().unwrap_or_default()
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many folders a file at a place needs that are missing, but for those of all users and of its own one.
pub fn missing_folders(root: &Root, place: &FilePath) -> u64 {
    let folders = std::iter::successors(place.folder(), |folder| Some(folder.rsplit_once('/')?.0));
    let own = folders.take_while(|folder| user_at(folder).is_some());
    own.take_while(|folder| root.folder(Some(folder)).is_err()).count() as u64
}

/// The most that the disk of the folder has for all.
fn bound(root: &Root, kind: ShareKind) -> u64 {
    let Ok(disk) = root.disk() else { return u64::MAX };
    match kind {
        // A file system that makes room for files as they come says 0.
        ShareKind::Files if disk.f_files == 0 => u64::from(u32::MAX),
        ShareKind::Files => disk.f_files,
        _ => disk.f_blocks.saturating_mul(disk.f_frsize),
    }
}

fn user_at(place: &str) -> Option<&str> {
    let (name, _) = place.strip_prefix(USERS_FOLDER)?.strip_prefix('/')?.split_once('/')?;
    Some(name)
}

fn walk(folder: &OwnedFd, depth: usize, counts: &mut Counts) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        // A file that is gone meanwhile is not counted.
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match root::kind_of(&stat) {
            FileType::RegularFile => *counts += Counts::file(stat.st_size),
            FileType::Directory if depth < MAX_DEPTH && !matches!(name.to_bytes(), b"." | b"..") => {
                *counts += Counts::folders(1);
                if let Ok(inner) = open_inner(folder, name) {
                    walk(&inner, depth + 1, counts)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_there_is_counted_and_more_than_a_share_is_refused() {
        let place = tempfile::tempdir().unwrap();
        for (path, size) in [("users/alice/a/b", 5), ("users/alice/c", 7), ("users/bob/d", 11), ("e", 13)] {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; size]).unwrap();
        }
        let root = Root::open(place.path()).unwrap();
        let usage = Usage::new(Users::default());
        let alice = Owner::user("alice");
        usage.correct(&root, &[(Owner::tasks_of("alice"), 100), (Owner::user("bob"), 1)]).unwrap();
        assert_eq!(usage.of("alice"), Counts { files: 3, bytes: 112 });
        assert_eq!(usage.of("bob"), Counts { files: 1, bytes: 12 });
        let missing = |place: &str| missing_folders(&root, &place.parse().unwrap());
        let places =
            ["users/alice/a/x", "users/alice/a/b2/c/x", "users/carol/x", "users/carol/a/x", "e2/f/x"];
        assert_eq!(places.map(missing), [0, 2, 0, 1, 0]);
        usage.change_at("users/alice/c", -Counts::file(7));
        usage.change_at("e", -Counts::file(13));
        assert_eq!(usage.of("alice"), Counts { files: 2, bytes: 105 });
        let bytes = bound(&root, ShareKind::FileBytes) / 8;
        assert!(usage.check(&root, &alice, ShareKind::FileBytes, bytes - 105).is_ok());
        let problem = usage.check(&root, &Owner::tasks_of("alice"), ShareKind::FileBytes, bytes).unwrap_err();
        assert!(
            problem.status == 409 && problem.detail.contains("users set alice --file-bytes"),
            "{problem}"
        );
        assert!(usage.check(&root, &Owner::user(""), ShareKind::FileBytes, u64::MAX).is_ok());
    }
}
