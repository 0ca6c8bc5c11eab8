//! Disks to spoil: small file systems of their own, which a test fills, frees, and turns read-only.
//!
//! A disk is gone when it is dropped. What a killed test process left mounted is taken off when the next one mounts a
//! disk: the mount's source carries the process id. All of this needs root; without it, a test that asks for a disk fails.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::wait;

const RELEASE_DEADLINE: Duration = Duration::from_secs(30);
const SOURCE: &str = "estimand-disk-";
const CHUNK: [u8; 4096] = [7; 4096];

/// A mounted file system with nothing in it.
pub struct Disk {
    /// Where it is mounted, beside the image if it has one.
    folder: TempDir,
    image: Option<PathBuf>,
}

/// Takes all room that a disk has left, until it is dropped.
pub struct Filler(PathBuf);

impl Disk {
    /// In memory, of a size such as `4m`.
    #[track_caller]
    pub fn in_memory(size: &str) -> Self {
        let disk = Self::unmounted(None);
        let source = format!("{SOURCE}{}", std::process::id());
        mount(&["-t", "tmpfs", "-o", &format!("size={size}"), &source], &disk.path());
        disk
    }

    /// In a file, with the journal and the habits of a file system that servers have. Of so many MiB.
    #[track_caller]
    pub fn in_file(mebibytes: u64) -> Self {
        let disk = Self::unmounted(Some("image"));
        let image = disk.image.as_ref().expect("it was named just now");
        let made = File::create(image).and_then(|file| file.set_len(mebibytes << 20));
        made.unwrap_or_else(|error| panic!("{}: {error}", image.display()));
        run("mkfs.ext4", &["-q".as_ref(), image]);
        disk.mount_image();
        disk
    }

    /// The folder that is the disk.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Takes all room that is left.
    #[track_caller]
    pub fn fill(&self) -> Filler {
        let path = self.path().join("filler");
        let filler = Filler(path);
        filler.grow();
        filler
    }

    /// As the kernel does with a disk that fails: from now on nothing can be written, by those either who have files open
    /// for it. Only for what is in a file.
    #[track_caller]
    pub fn fail(&self) {
        mount(&["-o", "remount,abort"], &self.path());
        let denied = File::create(self.path().join("probe")).expect_err("it is read-only");
        assert_eq!(denied.kind(), ErrorKind::ReadOnlyFilesystem, "{denied}");
    }

    /// Repairs it after [`Disk::fail`], as somebody does who has ended everything that used it.
    #[track_caller]
    pub fn repair(&self) {
        run("umount", &[&self.path()]);
        let image = self.image.as_ref().expect("only what is in a file fails");
        // A process with mounts of its own, started meanwhile, may have it for a moment longer.
        wait::until(RELEASE_DEADLINE, "nobody to have the disk mounted", || {
            (!is_in_a_loop(image)).then_some(())
        });
        // 1 means that it was repaired.
        let status =
            Command::new("fsck.ext4").args(["-f", "-y"]).arg(image).output().expect("fsck.ext4 runs").status;
        assert!(status.code().is_some_and(|code| code <= 1), "fsck.ext4: {status}");
        self.mount_image();
    }

    fn unmounted(image: Option<&str>) -> Self {
        assert!(rustix::process::geteuid().is_root(), "mounting a disk needs root: run this test as root");
        remove_leftovers();
        let folder =
            tempfile::Builder::new().prefix("estimand-disk-").tempdir().expect("a folder can be made");
        let image = image.map(|name| folder.path().join(name));
        let disk = Self { folder, image };
        fs::create_dir(disk.path()).expect("a folder can be made in it");
        disk
    }

    fn mount_image(&self) {
        let image = self.image.as_ref().expect("it has one");
        mount(&["-o", "loop,errors=remount-ro", &image.display().to_string()], &self.path());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still has files open on it keeps them until they are closed.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

impl Filler {
    /// Takes what others have freed meanwhile, too.
    #[track_caller]
    pub fn grow(&self) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).expect("it can be opened");
        let mut size = CHUNK.len();
        while size > 0 {
            match file.write(&CHUNK[..size]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => size /= 2,
                Err(error) => panic!("{}: {error}", self.0.display()),
            }
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether a loop device is made of `image`.
fn is_in_a_loop(image: &Path) -> bool {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut files = devices.filter_map(|one| fs::read_to_string(one.path().join("loop/backing_file")).ok());
    files.any(|file| Path::new(file.trim_end()) == image)
}

#[track_caller]
fn mount(arguments: &[&str], at: &Path) {
    let arguments: Vec<&Path> = arguments.iter().map(Path::new).chain([at]).collect();
    run("mount", &arguments);
}

#[track_caller]
fn run(program: &str, arguments: &[&Path]) {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}: {said}", output.status);
}

/// Takes off what test processes mounted that are gone.
fn remove_leftovers() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(source), Some(at)) = (fields.next(), fields.next()) else { continue };
        let Some(pid) = source.strip_prefix(SOURCE).and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            let _ = Command::new("umount").args(["-l", at]).output();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_nothing_until_it_is_freed() {
        let disk = Disk::in_memory("1m");
        let path = disk.path().join("file");
        let full = disk.fill();
        assert_eq!(fs::write(&path, b"more").unwrap_err().kind(), ErrorKind::StorageFull);
        drop(full);
        fs::write(&path, b"more").unwrap();
        let mounted = disk.path().display().to_string();
        drop(disk);
        assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(&mounted));
    }

    #[test]
    fn a_disk_that_failed_takes_nothing_until_it_is_repaired() {
        let disk = Disk::in_file(8);
        let path = disk.path().join("file");
        let mut open = File::create(&path).unwrap();
        open.write_all(b"before").unwrap();
        open.sync_all().unwrap();
        disk.fail();
        assert_eq!(open.write(b"after").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        drop(open);
        disk.repair();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        fs::write(&path, b"after").unwrap();
    }
}
