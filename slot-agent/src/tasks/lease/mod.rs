//! The leases of a node as its tasks see them: moments on the machine's clock that also counts while it sleeps.
//!
//! A node has a lease for each length that its tasks ask for: how long they go on after the last heartbeat that was answered
//! with one. Keepers outlive their agent, so they find each lease in a file. It means nothing after the machine was started
//! anew.

mod file;
mod leases;
mod watch;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

pub use file::LeaseFile;
pub use leases::{LeaseLength, Leases};
pub use watch::LeaseWatch;

/// Nanoseconds since the machine was started.
pub fn boot_clock() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The present start of the machine; another one after it is started anew.
pub fn boot_id() -> String {
    static ID: OnceLock<String> = OnceLock::new();
    let read = || {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    };
    ID.get_or_init(read).clone()
}

/// A lease. A renewal in time keeps it the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lease {
    /// When it began, by [`boot_clock`], which tells it from others; 0: there never was one. Agents of before counted them.
    number: u64,
    /// By [`boot_clock`].
    until: u64,
}

/// The length of a file with a lease, in bytes. It never changes, so a renewal needs no room on the disk.
const FILE_BYTES: usize = 128;

impl Lease {
    /// The file: the machine's start, number and end, a check of these, and blanks. Keepers of before read the first three.
    fn to_file(self, boot: &str) -> [u8; FILE_BYTES] {
        let words = format!("{boot} {} {}", self.number, self.until);
        let text = format!("{words} {:08x}", crc32fast::hash(words.as_bytes()));
        let mut bytes = [b' '; FILE_BYTES];
        let length = text.len().min(FILE_BYTES);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        bytes
    }

    /// A file that is not there, or was read while it was written, gives nothing. A file of another start of the machine has
    /// no lease.
    fn read(path: &Path, boot: &str) -> Option<Lease> {
        let text = fs::read_to_string(path).ok()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let (of, number, until) = match words[..] {
            // As agents of before wrote it, who replaced the file each time.
            [of, number, until] if text.len() < FILE_BYTES => (of, number, until),
            [of, number, until, check] => {
                let known = crc32fast::hash(format!("{of} {number} {until}").as_bytes());
                (u32::from_str_radix(check, 16) == Ok(known)).then_some((of, number, until))?
            }
            _ => return None,
        };
        if of != boot {
            return Some(Lease::default());
        }
        Some(Lease { number: number.parse().ok()?, until: until.parse().ok()? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
