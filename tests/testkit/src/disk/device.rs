//! The loop device of an image, and how much of it takes anything.
//!
//! Access past a device's end fails, reads and writes alike, so a device that is made shorter while it is mounted
//! fails as a broken one does: each request by itself, from that moment on.
//!
//! When ext4 gives its journal up, it tells an `fsync` that comes right then that all is well, and what it was asked for is
//! gone: no program can know. That is so whether it was told to (`remount,abort`, `EXT4_IOC_SHUTDOWN`,
//! `trigger_fs_error`: a program that appends and syncs loses its last record in one of ten times) or found the
//! device broken (in one of a hundred, if others sync beside it). So a test of what was acknowledged refuses data
//! first, which is always told, and lets the journal fail only when nothing is acknowledged any more. What the file
//! system itself needs must stay: Linux 6.18 stops with a bug of its own (`ext4_mb_use_inode_pa`) in one of ten rounds in which
//! that can be neither read nor written, and whoever is in it can never be killed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::ioctl::{Getter, Setter, ioctl};

const LOOP_SET_STATUS64: u32 = 0x4C04;
const LOOP_GET_STATUS64: u32 = 0x4C05;

/// `struct loop_info64` of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct Status {
    before: [u64; 4],
    /// Where the device ends, in bytes; 0 is where its file does.
    size_limit: u64,
    after: [u64; 24],
}

/// The device that is made of `image`, if there is one.
pub fn of(image: &Path) -> Option<PathBuf> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut devices = devices.filter(|device| {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        Path::new(file.trim_end()) == image
    });
    Some(Path::new("/dev").join(devices.next()?.file_name()))
}

/// Has the device end after so many bytes; 0 gives all of it back.
pub fn limit(device: &Path, bytes: u64) -> io::Result<()> {
    let device = File::options().read(true).write(true).open(device)?;
    // SAFETY: the request fills the kernel's `loop_info64`, of which `Status` has the layout and in which any bits are valid.
    let status = unsafe { ioctl(&device, Getter::<LOOP_GET_STATUS64, Status>::new()) }?;
    let status = Status { size_limit: bytes, ..status };
    // SAFETY: the request reads a `loop_info64`.
    Ok(unsafe { ioctl(&device, Setter::<LOOP_SET_STATUS64, Status>::new(status)) }?)
}
