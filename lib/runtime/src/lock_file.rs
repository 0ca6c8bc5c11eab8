//! A file that one living process holds, and that names it to whoever comes second.
//!
//! The lock is the operating system's: it ends with the process, however that ends, and the file stays. So its text
//! counts only while the lock is held.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// A longer text is not a holder's name.
const MAX_BYTES: u64 = 1024;

/// A held lock. Dropping it lets go.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    file: File,
}

/// A lock that was not got.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{holder} holds {}", path.display())]
    Held { path: PathBuf, holder: Holder },
    #[error("cannot {doing} {}: {cause}", path.display())]
    Io { doing: &'static str, path: PathBuf, cause: io::Error },
}

/// The process that holds a lock, as it described itself: "process 123 at http://127.0.0.1:7070".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder(Option<String>);

impl Holder {
    /// This process, with the address at which it is reached.
    pub fn this_process(address: Option<&str>) -> String {
        let process = format!("process {}", std::process::id());
        address.map_or(process.clone(), |address| format!("{process} at {address}"))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("another process"))
    }
}

impl LockFile {
    /// Takes the lock, or says who has it; it is not waited for. The file is made if there is none, for this user alone.
    pub fn take(path: &Path) -> Result<LockFile, LockError> {
        let at = |doing| {
            let path = path.to_owned();
            move |cause| LockError::Io { doing, path, cause }
        };
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let mut file = file.map_err(at("open"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = Holder(read(&mut file).filter(|text| !text.is_empty()));
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            Err(error) => return Err(at("lock")(error.into())),
        }
        // It may have been there, from a time when it was open to others.
        let mode = file.metadata().map_err(at("look at"))?.mode();
        if mode & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(at("close to others"))?;
        }
        let mut lock = LockFile { path: path.to_owned(), file };
        lock.describe(None);
        Ok(lock)
    }

    /// Names this process and its address in the file. A full disk takes no names; the lock holds all the same.
    pub fn describe(&mut self, address: Option<&str>) {
        let text = Holder::this_process(address);
        let written = self.file.set_len(0).and_then(|()| self.file.rewind());
        if let Err(error) = written.and_then(|()| self.file.write_all(text.as_bytes())) {
            tracing::warn!(file = %self.path.display(), %error, "the lock does not name this process");
        }
    }
}

fn read(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_second_one_is_told_who_holds_it() {
        let path = std::env::temp_dir().join(format!("estimand-lock-{:016x}", fastrand::u64(..)));
        let mut first = LockFile::take(&path).unwrap();
        let refused = LockFile::take(&path).unwrap_err().to_string();
        let own = std::process::id();
        assert_eq!(refused, format!("process {own} holds {}", path.display()));
        first.describe(Some("http://127.0.0.1:7070"));
        let refused = LockFile::take(&path).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("process {own} at http://127.0.0.1:7070 holds ")), "{refused}");
        drop(first);
        drop(LockFile::take(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
    }
}
