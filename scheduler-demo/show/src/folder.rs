//! The demo's folder: everything that a run makes is in it, and it goes with the run unless it is to be kept.
//!
//! A lock marks the folder of a running demo, so that folders of killed demos can be removed. Nothing else is ever
//! removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "estimand-demo-";
const LOCK: &str = "lock";

#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    is_kept: bool,
    /// Held as long as this lives.
    _lock: File,
}

impl Folder {
    /// One that is kept, which must be new or empty; or one that goes with the value.
    pub fn new(kept: Option<&Path>) -> io::Result<Folder> {
        let path = match kept {
            Some(path) => {
                fs::create_dir_all(path)?;
                if fs::read_dir(path)?.next().is_some() {
                    return Err(io::Error::other(format!("{} is not empty", path.display())));
                }
                path.canonicalize()?
            }
            None => make(&std::env::temp_dir().canonicalize()?)?,
        };
        let lock = File::create(path.join(LOCK))?;
        lock.try_lock()?;
        Ok(Folder { path, is_kept: kept.is_some(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder in it, which is made.
    pub fn sub(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            eprintln!("{} is left: {error}", self.path.display());
        }
    }
}

fn make(parent: &Path) -> io::Result<PathBuf> {
    sweep(parent);
    for attempt in 0..100 {
        let path = parent.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(io::Error::other(format!("no name is free for a folder in {}", parent.display())))
}

/// Removes the folders of demos that are no more.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // One that is being made has no lock yet, and is let be; so is another user's.
        let lock = is_one.then(|| File::open(entry.path().join(LOCK)).ok()).flatten();
        if lock.is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_stays_and_an_abandoned_one_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(LOCK), "").unwrap();
            path
        };
        let (used, left, other) = (of("estimand-demo-1-0"), of("estimand-demo-2-0"), of("somebody-else"));
        let lock = File::open(used.join(LOCK)).unwrap();
        lock.try_lock().unwrap();
        let unlocked = parent.path().join("estimand-demo-3-0");
        fs::create_dir(&unlocked).unwrap();
        sweep(parent.path());
        assert_eq!([&used, &left, &other, &unlocked].map(|path| path.exists()), [true, false, true, true]);
    }

    #[test]
    fn a_kept_folder_must_be_empty_and_stays() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("kept");
        drop(Folder::new(Some(&path)).unwrap());
        assert!(path.join(LOCK).exists());
        assert!(Folder::new(Some(&path)).unwrap_err().to_string().contains("is not empty"));
    }
}
