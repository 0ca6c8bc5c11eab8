//! The file with a lease, as its agent writes it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use estimand_runtime::files::write_whole;

use super::{Lease, boot_clock, boot_id};

#[derive(Debug)]
pub struct LeaseFile {
    path: PathBuf,
    boot: String,
    known: Mutex<Lease>,
    /// The lease that the file has; none before this process has written it.
    written: Mutex<Option<Lease>>,
    former: u64,
}

impl LeaseFile {
    pub fn open(path: PathBuf) -> Self {
        let boot = boot_id();
        let known = Lease::read(&path, &boot).unwrap_or_default();
        let former = if known.until > boot_clock() { known.number } else { 0 };
        LeaseFile { path, boot, known: Mutex::new(known), written: Mutex::default(), former }
    }

    /// A file that is new, with a lease that began then.
    pub(super) fn new(path: PathBuf, number: u64, until: u64) -> Self {
        let known = Mutex::new(Lease { number, until });
        LeaseFile { path, boot: boot_id(), known, written: Mutex::default(), former: 0 }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the lease that held when this process began; 0 if none did.
    pub fn former(&self) -> u64 {
        self.former
    }

    /// The number of the last lease.
    pub(super) fn number(&self) -> u64 {
        self.lock().number
    }

    /// Moves its end on, and never back. If it was over already, another one begins.
    pub fn extend(&self, until: u64) {
        let mut known = self.lock();
        let now = boot_clock();
        if known.until <= now {
            known.number = now.max(known.number + 1);
        }
        known.until = known.until.max(until);
    }

    /// Ends it now.
    pub fn end(&self) {
        self.lock().until = 0;
    }

    /// The number of the lease, while one holds.
    pub fn holds(&self) -> Option<u64> {
        let known = *self.lock();
        (known.until > boot_clock()).then_some(known.number)
    }

    /// Writes it for the keepers, unless it is written. Blocking.
    pub fn publish(&self) -> io::Result<()> {
        // Held while it is written: one at a time.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *self.lock();
        if *written != Some(known) {
            self.write(&known.to_file(&self.boot), written.is_none())?;
            *written = Some(known);
        }
        Ok(())
    }

    /// The first time the file is replaced, since an agent of before may have left a shorter one. After that it is written in
    /// place, as it is the first time when the disk is full.
    fn write(&self, bytes: &[u8], is_first: bool) -> io::Result<()> {
        if is_first && write_whole(&self.path, bytes, 0o600).is_ok() {
            return Ok(());
        }
        match OpenOptions::new().write(true).open(&self.path) {
            Ok(file) => file.write_all_at(bytes, 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => write_whole(&self.path, bytes, 0o600),
            Err(error) => Err(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lease> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
