//! Disks to spoil: small file systems of their own, which a test fills, frees, breaks and repairs.
//!
//! A disk is gone when it is dropped. What a killed test process left mounted is taken off when the next one mounts a
//! disk: the mount's source carries the process id. All of this needs root; without it, a test that asks for a disk fails.

mod device;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::wait::{self, PATIENCE};

const RELEASE_DEADLINE: Duration = Duration::from_secs(30);
const SOURCE: &str = "estimand-disk-";
const CHUNK: [u8; 4096] = [7; 4096];
/// The unit of a file system in a file.
const BLOCK: u64 = 4096;

/// A mounted file system with nothing in it.
pub struct Disk {
    /// Where it is mounted, beside the image if it has one.
    folder: TempDir,
    image: Option<PathBuf>,
}

/// Keeps a disk from taking data, until it is dropped.
pub struct Refusing<'d>(&'d Disk);

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
        // All that the file system itself needs lies at the beginning, so that data alone can be refused.
        let options = ["-q", "-b", "4096", "-J", "size=8", "-E", "packed_meta_blocks=1"];
        run("mkfs.ext4", &[&options.map(Path::new), [image.as_path()].as_slice()].concat());
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
    /// for it. What is synced in this moment may be acknowledged and lost ([`device`] says why), so data is refused
    /// before. Only for what is in a file, like all below.
    #[track_caller]
    pub fn fail(&self) {
        mount(&["-o", "remount,abort"], &self.path());
        let denied = File::create(self.path().join("probe")).expect_err("it is read-only");
        assert_eq!(denied.kind(), ErrorKind::ReadOnlyFilesystem, "{denied}");
    }

    /// From now on it refuses what is written to files in `folder` and to those that come, while the file system itself
    /// goes on; as a volume does that has no room left, or a network behind it that is gone for a moment.
    #[track_caller]
    pub fn refuse_data(&self, folder: &Path) -> Refusing<'_> {
        let files = fs::read_dir(folder).expect("it is a folder").flatten().map(|entry| entry.path());
        let first = files.filter_map(|file| first_block(&file)).min();
        let device = device::of(self.image()).expect("it is mounted");
        let refused = device::limit(&device, first.expect("some file there has content") * BLOCK);
        refused.unwrap_or_else(|error| panic!("{}: {error}", device.display()));
        Refusing(self)
    }

    /// How it is mounted: `ro` says that its file system has given up.
    pub fn mounted(&self) -> String {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let path = self.path().display().to_string();
        mounts.lines().find(|line| line.contains(&path)).unwrap_or("not mounted").to_owned()
    }

    /// Its present content is what a power cut will leave. Its writers stand still meanwhile.
    ///
    /// The kernel may write on its own all the same, and what is copied in pieces is the content of no moment; but a copy
    /// that the image equals afterwards is that of the moment in between.
    #[track_caller]
    pub fn note(&self) {
        let (image, noted) = (self.image(), self.noted());
        wait::until(PATIENCE, "the disk to stand still", || {
            fs::copy(image, &noted).expect("the image can be copied");
            is_same(image, &noted).expect("both can be read").then_some(())
        });
    }

    /// Loses what has happened since [`Disk::note`], and what the kernel had in memory alone then. Everything that used it
    /// has ended.
    #[track_caller]
    pub fn cut_power(&self) {
        self.unmount();
        fs::rename(self.noted(), self.image()).expect("the image can be replaced");
        self.check_and_mount();
    }

    /// Repairs it after [`Disk::fail`], as somebody does who has ended everything that used it.
    #[track_caller]
    pub fn repair(&self) {
        self.unmount();
        self.check_and_mount();
    }

    #[track_caller]
    fn unmount(&self) {
        // A program that is being started beside has copies of all open files until it is executed.
        wait::until_ok(RELEASE_DEADLINE, "the disk to be unmounted", || attempt("umount", &[&self.path()]));
        // A process with mounts of its own, started meanwhile, may have it for a moment longer.
        wait::until(RELEASE_DEADLINE, "nobody to have the disk mounted", || {
            device::of(self.image()).is_none().then_some(())
        });
    }

    #[track_caller]
    fn check_and_mount(&self) {
        // 1 means that it was repaired.
        let status = Command::new("fsck.ext4").args(["-f", "-y"]).arg(self.image()).output();
        let status = status.expect("fsck.ext4 runs").status;
        assert!(status.code().is_some_and(|code| code <= 1), "fsck.ext4: {status}");
        self.mount_image();
    }

    #[track_caller]
    fn image(&self) -> &Path {
        self.image.as_ref().expect("it is in a file")
    }

    fn noted(&self) -> PathBuf {
        self.image().with_extension("noted")
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
        mount(&["-o", "loop,errors=remount-ro", &self.image().display().to_string()], &self.path());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Files that are still open on it stay until they are closed.
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

impl Drop for Refusing<'_> {
    fn drop(&mut self) {
        let Some(device) = device::of(self.0.image()) else { return };
        let lifted = wait::poll(RELEASE_DEADLINE, || device::limit(&device, 0));
        // A disk that goes on refusing would be taken for a service that does not recover.
        assert!(lifted.is_ok() || std::thread::panicking(), "{}: {lifted:?}", device.display());
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The first of a file's blocks on its disk; none if it has no content there.
fn first_block(file: &Path) -> Option<u64> {
    let output = Command::new("filefrag").args(["-v", "-b4096"]).arg(file).output().expect("filefrag runs");
    let said = String::from_utf8_lossy(&output.stdout);
    // The lines of extents: number, place in the file, place on the disk (0 if it has none yet), and more.
    let place = |line: &str| line.split(':').nth(2)?.split("..").next()?.trim().parse().ok();
    said.lines().filter_map(place).filter(|block| *block > 0).min()
}

fn is_same(one: &Path, other: &Path) -> std::io::Result<bool> {
    const PIECE: usize = 1 << 20;
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let mut pieces = [vec![0; PIECE], vec![0; PIECE]];
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    loop {
        let read = one.read(&mut pieces[0])?;
        other.read_exact(&mut pieces[1][..read])?;
        if read == 0 || pieces[0][..read] != pieces[1][..read] {
            return Ok(read == 0);
        }
    }
}

#[track_caller]
pub(crate) fn mount(arguments: &[&str], at: &Path) {
    let arguments: Vec<&Path> = arguments.iter().map(Path::new).chain([at]).collect();
    run("mount", &arguments);
}

#[track_caller]
fn run(program: &str, arguments: &[&Path]) {
    attempt(program, arguments).unwrap_or_else(|reason| panic!("{reason}"));
}

/// The error says what the program said.
#[track_caller]
fn attempt(program: &str, arguments: &[&Path]) -> Result<(), String> {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program} {arguments:?}: {}: {said}", output.status)),
    }
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
        assert!(disk.mounted().contains("tmpfs rw"), "{}", disk.mounted());
        drop(disk);
        assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(&mounted));
    }

    fn with_a_file(disk: &Disk) -> (PathBuf, File) {
        let path = disk.path().join("file");
        let mut open = File::create(&path).unwrap();
        open.write_all(b"before").unwrap();
        open.sync_all().unwrap();
        (path, open)
    }

    #[test]
    fn a_disk_that_failed_takes_nothing_until_it_is_repaired() {
        let disk = Disk::in_file(32);
        let (path, mut open) = with_a_file(&disk);
        disk.fail();
        assert_eq!(open.write(b"after").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        drop(open);
        disk.repair();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        fs::write(&path, b"after").unwrap();
    }

    /// The trap for whoever syncs twice: what was refused looks as if it were there, until the power is cut.
    #[test]
    fn a_refused_write_is_not_there_after_a_power_cut() {
        let disk = Disk::in_file(32);
        let (path, mut open) = with_a_file(&disk);
        let refusing = disk.refuse_data(&disk.path());
        open.write_all(&CHUNK).unwrap();
        open.sync_all().unwrap_err();
        drop(refusing);
        open.sync_all().unwrap();
        assert!(fs::read(&path).unwrap().ends_with(&CHUNK));
        drop(open);
        disk.note();
        fs::write(disk.path().join("later"), b"lost").unwrap();
        disk.cut_power();
        assert!(!fs::read(&path).unwrap().ends_with(&CHUNK));
        assert!(!disk.path().join("later").exists());
    }
}
