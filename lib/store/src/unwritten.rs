//! Pages that the kernel shows and the disk does not have.
//!
//! When Linux cannot write a page, the sync fails once, and the page stays: who reads it next finds what is not on the disk.
//! If the page was of new room in the file, ext4 (seen with Linux 6.18) goes on to take that room for never written: what is
//! written there later is synced with success, and is nothing but zeros after a power cut. Both last for as long as the
//! kernel has the page. So it has to drop what it has of a database after each failed sync, before anything is written
//! again, and once before a process reads the log that another one left behind. What is read then is what the disk has.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use libsqlite3_sys::{SQLITE_CONFIG_LOG, SQLITE_IOERR, SQLITE_OK, sqlite3_config};
use rustix::fs::{Advice, fadvise, fdatasync};

/// The less significant byte of one of SQLite's codes says the kind of error.
const KIND: c_int = 0xff;

/// The databases that this process has, or had, open, and their logs.
static FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static LISTENING: Once = Once::new();

/// Comes before this process opens the database of that path.
pub(crate) fn before_opening(path: &Path) {
    LISTENING.call_once(listen);
    // A file that is not there yet has no pages either.
    let Ok(path) = path.canonicalize() else { return };
    let log = log_of(&path);
    let mut files = files();
    if !files.insert(path.clone()) {
        return;
    }
    // The process has none of them open, and comes to that only behind this: closing one would end its locks.
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        [&path, &log].into_iter().flat_map(File::open).for_each(|file| drop_pages(file.as_fd()));
    }
    files.insert(log);
}

fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn files() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes what is not written yet, so that nothing is lost that can be kept, and has the kernel drop the rest.
fn drop_pages(file: BorrowedFd<'_>) {
    // If that fails, the pages are those that have to go.
    let _ = fdatasync(file);
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

/// Drops the pages of all databases that this process has open, by the descriptors that it has: a descriptor of our own
/// would end SQLite's locks when it is closed.
fn drop_all_pages() {
    let files = files();
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let is_of_them = fs::read_link(entry.path()).is_ok_and(|path| files.contains(&path));
        let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        if let Some(number) = number.filter(|_| is_of_them) {
            // SAFETY: if it is closed meanwhile, both calls fail or meet another file, to which they do no harm.
            drop_pages(unsafe { BorrowedFd::borrow_raw(number) });
        }
    }
}

/// Has SQLite tell each failed access at once, before it returns to its caller. Copying the log would fail in silence.
fn listen() {
    let callback: extern "C" fn(*mut c_void, c_int, *const c_char) = hear;
    // SAFETY: the arguments are those that SQLITE_CONFIG_LOG takes.
    let done = unsafe { sqlite3_config(SQLITE_CONFIG_LOG, callback, std::ptr::null_mut::<c_void>()) };
    if done != SQLITE_OK {
        tracing::error!(code = done, "SQLite is in use already and will not tell of failed syncs");
    }
}

extern "C" fn hear(_: *mut c_void, code: c_int, message: *const c_char) {
    if code & KIND != SQLITE_IOERR {
        return;
    }
    drop_all_pages();
    // SAFETY: SQLite gives a text that ends with a zero and lasts as long as the call.
    let message = unsafe { CStr::from_ptr(message) };
    tracing::warn!(code, message = %message.to_string_lossy(), "SQLite cannot access its files");
}
