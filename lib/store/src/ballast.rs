//! A file beside SQLite's that takes room as long as there is enough, so that there is some for removals when there is none.
//!
//! A removal needs room, too: changed pages are added to a log, and what the log has more than the database is to go there.
//! When a removal finds none it gets that of the ballast. From then on only removals, and what they need, are stored until
//! there is room for the whole ballast and as much again: others would use up what is left of it.
//!
//! The file's length is all the state there is, for all connections of all processes: it is as long as its room. A file that
//! is not there has never found any.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// As much as the log grows to before it is copied into the database.
const SIZE: u64 = 16 << 20;
/// When there is no longer room for all of it, it takes what there is in these pieces.
const PIECES: [u64; 4] = [SIZE, 1 << 20, 64 << 10, 4 << 10];
/// How often a connection looks for room that has come back.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Why others than removals are not stored.
pub(crate) const FULL: &str =
    "the disk is full, and the room that was kept for removals is in use; free some to go on";

/// One connection's view of the file.
#[derive(Debug)]
pub(crate) struct Ballast {
    path: PathBuf,
    looked: Option<Instant>,
}

impl Ballast {
    /// The ballast of a database file.
    pub(crate) fn of(database: &Path) -> Self {
        // Where a link leads the log is, too.
        let mut path = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned()).into_os_string();
        path.push("-ballast");
        Ballast { path: path.into(), looked: None }
    }

    /// False if it was given back and is not whole again: what adds to the store has to wait. Makes it whole if there is
    /// room.
    pub(crate) fn allows_additions(&mut self) -> bool {
        let taken = self.taken();
        if taken.is_some_and(|taken| taken >= SIZE) {
            return true;
        }
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            self.looked = Some(Instant::now());
            match self.complete(taken.unwrap_or(0)) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(path = %self.path.display(), %error, "no room is kept for removals");
                    if taken.is_none() {
                        let _ = fs::remove_file(&self.path);
                    }
                }
            }
        }
        taken.is_none()
    }

    /// Gives its room to whoever is first.
    pub(crate) fn give_back(&self) {
        let given = OpenOptions::new().write(true).open(&self.path).and_then(|file| {
            file.set_len(0)?;
            // Some file systems have the room only when the change is on disk.
            file.sync_all()
        });
        if let Err(error) = given
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot give back the room that is kept for removals");
        }
    }

    /// Takes what is left of the room that it gave back.
    pub(crate) fn take_back(&self) {
        let Ok(file) = OpenOptions::new().write(true).open(&self.path) else { return };
        let mut taken = 0;
        for piece in PIECES {
            while taken + piece <= SIZE && allocate(&file, taken, piece).is_ok() {
                taken += piece;
            }
        }
    }

    /// The room that it takes; none if it was never made.
    fn taken(&self) -> Option<u64> {
        fs::metadata(&self.path).ok().map(|found| found.len())
    }

    /// Takes the rest of its room if as much as all of it is left then; true if it has.
    fn complete(&self, taken: u64) -> io::Result<bool> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let stat = rustix::fs::statvfs(folder)?;
        let (free, missing) = (stat.f_bavail.saturating_mul(stat.f_frsize), SIZE - taken);
        if free < missing + SIZE {
            return Ok(false);
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        allocate(&file, taken, missing)?;
        Ok(true)
    }
}

/// Makes the file longer by room that is its own.
fn allocate(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), from, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write(file, from, bytes),
        done => Ok(done?),
    }
}

/// The same by writing, and what cannot be made smaller, where a file system knows no other way.
fn write(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let mut noise = vec![0; 64 << 10];
    let mut at = from;
    while at < from + bytes {
        fastrand::fill(&mut noise);
        if let Err(error) = file.write_all_at(&noise, at) {
            file.set_len(from)?;
            return Err(error);
        }
        at += noise.len() as u64;
    }
    file.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use estimand_testkit::disk::Disk;

    use super::*;

    #[test]
    fn it_is_made_where_there_is_room_for_it_twice_and_its_room_is_its_own() {
        for (disk, fits) in
            [(Disk::in_memory("24m"), false), (Disk::in_memory("40m"), true), (Disk::in_file(64), true)]
        {
            let database = disk.path().join("store.db");
            let mut ballast = Ballast::of(&database);
            assert!(ballast.allows_additions(), "without a ballast all goes on");
            let found = fs::metadata(&ballast.path);
            assert_eq!(found.is_ok(), fits);
            if let Ok(found) = found {
                assert!(found.blocks() * 512 >= SIZE);
                assert_eq!(found.mode() & 0o777, 0o600);
            }
        }
    }

    #[test]
    fn what_adds_waits_from_its_return_until_it_is_whole_again() {
        for disk in [Disk::in_memory("64m"), Disk::in_file(96)] {
            let database = disk.path().join("store.db");
            let anew = || Ballast::of(&database);
            assert!(anew().allows_additions());
            let full = disk.fill();
            assert!(anew().allows_additions(), "the room is there for whoever needs it");
            anew().give_back();
            assert!(!anew().allows_additions());
            fs::write(disk.path().join("log"), vec![1; 1 << 20]).unwrap();
            anew().take_back();
            let taken = anew().taken().unwrap();
            assert!((SIZE - (3 << 19)..SIZE).contains(&taken), "{taken}");
            full.grow();
            assert!(fs::write(disk.path().join("more"), vec![1; 1 << 20]).is_err());
            assert!(!anew().allows_additions());
            drop(full);
            assert!(anew().allows_additions());
            assert_eq!(anew().taken(), Some(SIZE));
        }
    }

    #[test]
    fn room_can_be_taken_by_writing() {
        let place = tempfile::tempdir().unwrap();
        let file = File::create(place.path().join("file")).unwrap();
        write(&file, 0, 128 << 10).unwrap();
        assert!(file.metadata().unwrap().blocks() * 512 >= 128 << 10);
    }
}
