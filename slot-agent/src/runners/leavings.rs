//! The removal of what tasks of a user leave outside of their folders: in the folders of this machine that everybody writes
//! to, and of System V's memory, semaphores and queues. Blocking.
//!
//! Only for numbers without a task and without a process here: then nobody puts anything else in the place of what is found.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

use crate::slot_folder;

const FOLDERS: [&str; 4] = ["/dev/shm", "/tmp", "/var/tmp", "/dev/mqueue"];

/// Removes what users of these numbers left; returns the numbers of which something may be there still.
pub fn clear(numbers: &BTreeSet<u32>, until: Instant) -> BTreeSet<u32> {
    let (busy, idle): (BTreeSet<u32>, BTreeSet<u32>) = {
        let running = running();
        numbers.iter().copied().partition(|number| running.contains(number))
    };
    if idle.is_empty() {
        return busy;
    }
    estimand_exec::remove_ipc_of(&idle);
    let is_clear = FOLDERS.into_iter().all(|folder| match clear_folder(Path::new(folder), &idle, until) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::debug!(folder, %error, "what tasks left cannot be removed yet");
            false
        }
    });
    if is_clear { busy } else { numbers.clone() }
}

/// The users who have processes.
fn running() -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let statuses = processes.filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok());
    let users = statuses.flat_map(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        line.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<u32>>()
    });
    users.collect()
}

fn clear_folder(path: &Path, numbers: &BTreeSet<u32>, until: Instant) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            clear_entry(path, &folder, name, numbers, until)?;
        }
    }
    Ok(())
}

fn clear_entry(
    path: &Path,
    folder: &OwnedFd,
    name: &CStr,
    numbers: &BTreeSet<u32>,
    until: Instant,
) -> io::Result<()> {
    let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if numbers.contains(&stat.st_uid) => stat,
        _ => return Ok(()),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?);
    }
    slot_folder::empty(&path.join(OsStr::from_bytes(name.to_bytes())), until)?;
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_what_is_of_these_users_goes() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().metadata().unwrap().uid();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("folder/deep")).unwrap();
        fs::write(at("folder/deep/file"), "").unwrap();
        fs::write(at("file"), "").unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        symlink(outside.path(), at("link")).unwrap();
        let clear = |number| {
            clear_folder(place.path(), &[number].into(), Instant::now() + Duration::from_secs(60)).unwrap();
            fs::read_dir(place.path()).unwrap().count()
        };
        assert_eq!(clear(own + 1), 3);
        assert_eq!(clear(own), 0);
        assert!(outside.path().join("kept").exists());
        assert!(running().contains(&own));
    }
}
