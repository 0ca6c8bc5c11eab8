//! How much a slot keeps in its folder, and emptying it.
//!
//! The content is a program's, which may be hostile and may still run: links are not followed, other file systems are
//! not entered, and neither many entries nor deep folders cost more than a bounded amount of work, memory and open files.
//! Blocking.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::reserve::mib;

/// The most files and folders in a folder whose size is limited, and how deep they may lie.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 100;
/// How many names are read before they are removed.
const BATCH: usize = 4_096;
/// Of the space of a file, whatever its file system has for a block.
const BLOCK: u64 = 512;

/// Why a folder is not within its limit.
#[derive(Debug, thiserror::Error)]
pub enum Excess {
    #[error("it took {} of disk, and may take {} (limits.disk)", mib(*took), mib(*limit))]
    Bytes { took: u64, limit: u64 },
    #[error(
        "it has more than {MAX_ENTRIES} files in its folder, which is the most with a limit of its disk (limits.disk)"
    )]
    Entries,
    #[error(
        "it has folders more than {MAX_DEPTH} deep in its folder, which is the most with a limit of its disk (limits.disk)"
    )]
    Depth,
    #[error("the disk that it takes cannot be measured (limits.disk): {0}")]
    Unknown(io::Error),
}

impl Excess {
    /// False if it is not known to be too much.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Excess::Unknown(_))
    }
}

impl From<Errno> for Excess {
    fn from(error: Errno) -> Self {
        Excess::Unknown(error.into())
    }
}

/// Adds up the blocks of what is in the folder, until it is over the limit. A file with several names counts once.
pub fn check(folder: &Path, limit: u64) -> Result<(), Excess> {
    check_entries(folder, limit, MAX_ENTRIES)
}

fn check_entries(folder: &Path, limit: u64, most_entries: usize) -> Result<(), Excess> {
    let top = open_top(folder)?;
    let device = rustix::fs::fstat(&top)?.st_dev;
    let (took, linked) = (0, BTreeSet::new());
    Walk { limit, device, took, entries_left: most_entries, linked }.folder(&top, 0)
}

struct Walk {
    limit: u64,
    device: u64,
    took: u64,
    entries_left: usize,
    /// The files that have several names.
    linked: BTreeSet<u64>,
}

impl Walk {
    fn folder(&mut self, folder: &OwnedFd, depth: usize) -> Result<(), Excess> {
        if depth > MAX_DEPTH {
            return Err(Excess::Depth);
        }
        for entry in Dir::read_from(folder)? {
            let Some(entry) = present(entry)? else { break };
            let name = entry.file_name();
            if is_itself(name) {
                continue;
            }
            let Some(stat) = present(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))? else {
                continue;
            };
            self.count(&stat)?;
            if is_folder(&stat)
                && stat.st_dev == self.device
                && let Some(inner) = present(open(folder, name))?
            {
                self.folder(&inner, depth + 1)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, stat: &Stat) -> Result<(), Excess> {
        self.entries_left = self.entries_left.checked_sub(1).ok_or(Excess::Entries)?;
        let again = !is_folder(stat) && stat.st_nlink > 1 && !self.linked.insert(stat.st_ino);
        if again || stat.st_dev != self.device {
            return Ok(());
        }
        self.took =
            self.took.saturating_add(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK));
        match self.took > self.limit {
            true => Err(Excess::Bytes { took: self.took, limit: self.limit }),
            false => Ok(()),
        }
    }
}

/// Removes all that is in the folder, however deep: a folder in it loses its files, and its own folders are moved to the
/// top.
pub fn empty(folder: &Path, until: Instant) -> io::Result<()> {
    let top = open_top(folder)?;
    let _ = rustix::fs::fchmod(&top, Mode::RWXU);
    loop {
        let names = some_names(&top)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if Instant::now() >= until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "removing its files takes too long"));
            }
            match remove(&top, &name)? {
                Removed::Gone => {}
                Removed::HasContent => lift(&top, &name)?,
            }
        }
    }
}

enum Removed {
    Gone,
    /// A folder that is not empty.
    HasContent,
}

fn remove(within: &OwnedFd, name: &CStr) -> io::Result<Removed> {
    let removed = match rustix::fs::unlinkat(within, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(within, name, AtFlags::REMOVEDIR),
        removed => removed,
    };
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(Removed::Gone),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Removed::HasContent),
        Err(error) => Err(error.into()),
    }
}

/// Removes the files of a folder, and moves its folders to the top; a part of them if they are many.
fn lift(top: &OwnedFd, name: &CStr) -> io::Result<()> {
    let Some(folder) = present(open_to_change(top, name))? else { return Ok(()) };
    for inner in some_names(&folder)? {
        if let Removed::HasContent = remove(&folder, &inner)? {
            let lifted = CString::new(format!("{:016x}", fastrand::u64(..)))?;
            // The kernel moves a folder only for those who may write in it.
            let moved = open_to_change(&folder, &inner)
                .and_then(|_| rustix::fs::renameat(&folder, &inner, top, &lifted));
            present(moved)?;
        }
    }
    Ok(())
}

fn some_names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !is_itself(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
        if names.len() == BATCH {
            break;
        }
    }
    Ok(names)
}

fn open_top(folder: &Path) -> Result<OwnedFd, Errno> {
    let name = CString::new(folder.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    open(CWD, &name)
}

/// Opens a folder that is about to lose its content.
fn open_to_change(within: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let folder = open(within, name)?;
    // Root needs none of that.
    let _ = rustix::fs::fchmod(&folder, Mode::RWXU);
    Ok(folder)
}

/// Opens a folder that is no link. One that its owner has closed is opened to the owner again, because an agent that is
/// not root is the owner, and cannot look into it either.
fn open(within: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let open = |how| rustix::fs::openat(&within, name, FOLDER | how, Mode::empty());
    let closed = match open(OFlags::RDONLY) {
        Ok(folder) => match rustix::fs::statat(&folder, c".", AtFlags::empty()) {
            Err(Errno::ACCESS) => folder,
            _ => return Ok(folder),
        },
        Err(Errno::ACCESS) => open(OFlags::PATH)?,
        Err(error) => return Err(error),
    };
    rustix::fs::chmod(format!("/proc/self/fd/{}", closed.as_raw_fd()), Mode::RWXU)?;
    open(OFlags::RDONLY)
}

/// None of what is gone meanwhile, or is no folder any more.
fn present<T>(found: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn is_itself(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Makes folders in a folder, each in the one before, with another one beside it.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) fn make_deep(folder: &Path, levels: usize) {
    let mut folder = open_top(folder).unwrap();
    for _ in 0..levels {
        for name in [c"deeper", c"beside"] {
            rustix::fs::mkdirat(&folder, name, Mode::RWXU).unwrap();
        }
        folder = open(&folder, c"deeper").unwrap();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn blocks_count_once_and_links_not() {
        let place = tempfile::tempdir().unwrap();
        let (folder, outside) = (place.path().join("slot"), place.path().join("outside"));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(&outside, vec![1; 4 << 20]).unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        symlink(place.path(), folder.join("a/up")).unwrap();
        fs::write(folder.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(folder.join("a/b/file"), folder.join("again")).unwrap();
        // Long, but with no blocks.
        fs::File::create(folder.join("holes")).unwrap().set_len(1 << 40).unwrap();
        check(&folder, 3 * MIB / 2).unwrap();
        let over = check(&folder, MIB / 2).unwrap_err().to_string();
        assert!(
            over.starts_with("it took 1.") && over.ends_with("and may take 0.5 MiB (limits.disk)"),
            "{over}"
        );

        fs::set_permissions(folder.join("a/b"), fs::Permissions::from_mode(0o0)).unwrap();
        empty(&folder, soon()).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(fs::metadata(&outside).unwrap().len(), 4 * MIB, "links are removed, not followed");
    }

    #[test]
    fn many_files_are_too_much() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..(2 * BATCH + 1) {
            fs::write(folder.path().join(n.to_string()), "").unwrap();
        }
        check_entries(folder.path(), MIB, 2 * BATCH + 1).unwrap();
        assert!(matches!(check_entries(folder.path(), MIB, 2 * BATCH), Err(Excess::Entries)));
        empty(folder.path(), soon()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Deeper than a path can say, and than files can be open.
    #[test]
    fn deep_folders_are_too_much_and_can_be_removed() {
        let place = tempfile::tempdir().unwrap();
        make_deep(place.path(), 5_000);
        assert!(matches!(check(place.path(), 1 << 40), Err(Excess::Depth)));
        empty(place.path(), soon()).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    /// A program puts links and pipes in the place of its own folder, again and again, while that is measured and
    /// emptied.
    #[test]
    fn what_is_put_in_place_of_a_folder_leads_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let (slot, outside) = (place.path().join("slot"), place.path().join("outside"));
        fs::create_dir_all(outside.join("kept")).unwrap();
        for file in ["file", "kept/file"] {
            fs::write(outside.join(file), "theirs").unwrap();
        }
        let modes = || ["", "file", "kept", "kept/file"].map(|name| mode_of(&outside.join(name)));
        let (before, over) = (modes(), AtomicBool::new(false));
        let there = slot.join("a/b");
        let puts: [&(dyn Fn() -> io::Result<()> + Sync); 6] = [
            &|| symlink(&outside, &there),
            &|| symlink(outside.join("kept"), slot.join("a")),
            &|| symlink(outside.join("file"), slot.join("link")),
            &|| fs::hard_link(outside.join("file"), slot.join("name")),
            &|| {
                rustix::fs::mknodat(CWD, slot.join("pipe"), FileType::Fifo, Mode::RWXU, 0).map_err(Into::into)
            },
            &|| fs::create_dir_all(there.join("c")).and_then(|()| fs::write(there.join("c/file"), "ours")),
        ];
        std::thread::scope(|scope| {
            for put in puts {
                let (slot, over) = (&slot, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let _ = fs::create_dir_all(slot);
                        let _ = put();
                        let aside = slot.join(format!("{:x}", fastrand::u64(..)));
                        let _ = fs::rename(slot.join("a"), aside);
                    }
                });
            }
            let until = Instant::now() + Duration::from_millis(700);
            let mut looks = 0;
            while Instant::now() < until {
                let _ = check(&slot, MIB);
                // Other programs put new things there all the time.
                let _ = empty(&slot, Instant::now() + Duration::from_millis(20));
                looks += 1;
            }
            over.store(true, Ordering::Relaxed);
            assert!(looks > 5, "{looks}");
        });
        empty(&slot, soon()).unwrap();
        assert_eq!(fs::read_dir(&slot).unwrap().count(), 0);
        for file in ["file", "kept/file"] {
            assert_eq!(fs::read_to_string(outside.join(file)).unwrap(), "theirs");
        }
        assert_eq!(modes(), before);
        // Nor if it is the folder itself.
        fs::remove_dir(&slot).unwrap();
        symlink(&outside, &slot).unwrap();
        assert!(check(&slot, MIB).is_err() && empty(&slot, soon()).is_err());
        assert_eq!(modes(), before);
    }

    fn mode_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode()
    }

    #[test]
    fn a_folder_that_is_not_there_is_not_known() {
        let error = check(Path::new("/no/such"), MIB).unwrap_err();
        assert!(!error.is_certain(), "{error}");
    }
}
