//! The reserve of space: no run begins while less is free where slots and deliveries are kept. So a slot that fills its
//! disk is held up itself, as long as its runs end, and what the agent has to write has room.

use std::io;
use std::path::Path;

/// Unless said otherwise, at most this much,
const MOST_BYTES: u64 = 64 << 20;
/// and of a smaller file system one part in this.
const SHARE: u64 = 100;

/// The space that stays free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// 64 MiB, or a hundredth of a file system.
    Standard,
    Bytes(u64),
}

impl Reserve {
    /// The error says which folder is short of space. A file system that cannot be asked has enough.
    pub fn check(self, folders: &[&Path]) -> Result<(), String> {
        folders.iter().try_for_each(|folder| match space(folder) {
            Ok((free, size)) if free < self.of(size) => Err(format!(
                "no run begins: the file system of {} has {} free, less than the reserve of {} (--reserve)",
                folder.display(),
                mib(free),
                mib(self.of(size))
            )),
            _ => Ok(()),
        })
    }

    /// Its bytes on a file system of this size.
    fn of(self, size: u64) -> u64 {
        match self {
            Reserve::Standard => MOST_BYTES.min(size / SHARE),
            Reserve::Bytes(bytes) => bytes,
        }
    }
}

/// The bytes that are free for everybody, and all of them.
fn space(folder: &Path) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok((stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize)))
}

pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_64_mib_or_a_hundredth() {
        assert_eq!(Reserve::Standard.of(1 << 40), 64 << 20);
        assert_eq!(Reserve::Standard.of(100 << 20), 1 << 20);
        assert_eq!(Reserve::Bytes(7).of(1 << 40), 7);
        assert_eq!(mib(3 << 19), "1.5 MiB");
    }

    #[test]
    fn what_is_short_of_space_is_named() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(Reserve::Bytes(0).check(&[place.path()]), Ok(()));
        let short = Reserve::Bytes(u64::MAX).check(&[Path::new("/no/such"), place.path()]).unwrap_err();
        assert!(short.contains(place.path().to_str().unwrap()) && short.contains("--reserve"), "{short}");
    }
}
