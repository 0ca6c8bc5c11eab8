//! The digests of files, remembered for as long as a file is not changed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use estimand_api::registration::Sha256;

use crate::uploads;

/// How many are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// Two changes so far apart have different times in every file system.
const SETTLED: Duration = Duration::from_secs(2);

/// A content as the file system knows it: device, file, size, and when it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Content {
    device: u64,
    file: u64,
    size: u64,
    changed: (i64, i64),
}

impl Content {
    fn of(file: &File) -> io::Result<Content> {
        let data = file.metadata()?;
        let changed = (data.ctime(), data.ctime_nsec());
        Ok(Content { device: data.dev(), file: data.ino(), size: data.size(), changed })
    }
}

#[derive(Debug, Default)]
pub struct Digests(Mutex<HashMap<Content, Sha256>>);

impl Digests {
    /// The digest of a file. Blocking, for as long as reading the file takes if it is not known.
    pub fn of(&self, file: &File) -> io::Result<Sha256> {
        let content = Content::of(file)?;
        if let Some(known) = self.remembered().get(&content) {
            return Ok(*known);
        }
        let sha256 = uploads::digest(file)?;
        // One that was written to meanwhile is another content, which is not seen of a change right after another one.
        let is_old =
            SystemTime::now().duration_since(file.metadata()?.modified()?).is_ok_and(|age| age >= SETTLED);
        if is_old && Content::of(file)? == content {
            self.remember(content, sha256);
        }
        Ok(sha256)
    }

    /// Remembers the digest of a file that has just come.
    pub fn learn(&self, file: &File, sha256: Sha256) -> io::Result<()> {
        self.remember(Content::of(file)?, sha256);
        Ok(())
    }

    fn remember(&self, content: Content, sha256: Sha256) {
        let mut remembered = self.remembered();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(content, sha256);
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<Content, Sha256>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
