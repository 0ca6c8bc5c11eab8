//! The folder that all files are in. Nothing outside of it is reached: the kernel resolves each path beneath it, and
//! follows no link, whatever was put into it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use estimand_api::file::FilePath;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Not blocked by a pipe that is put in the place of a file.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// Whatever the umask says: it only takes away.
const FOLDER_MODE: Mode = Mode::RWXU;
/// A folder that all users of the machine put something into, such as `/tmp`.
const STICKY: u32 = 0o1000;

#[derive(Debug)]
pub struct Root(OwnedFd);

impl Root {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Root(rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// Closes the folder to other users of the machine, and with it whatever is in it already. One that belongs to somebody
    /// else, or that all share, is left as it is.
    pub fn close_to_others(&self, path: &Path) -> io::Result<()> {
        let mode = rustix::fs::fstat(&self.0)?.st_mode;
        if mode & 0o077 == 0 {
            return Ok(());
        }
        if mode & STICKY == 0 && rustix::fs::fchmod(&self.0, FOLDER_MODE).is_ok() {
            tracing::info!(folder = %path.display(), "closed the folder of files to other users of this machine");
            return Ok(());
        }
        tracing::warn!(
            folder = %path.display(),
            mode = format!("{:o}", mode & 0o7777),
            "other users of this machine can look into the folder of files, and this service may not close it: give it a \
             folder of its own, of mode 0700, with --files DIR"
        );
        Ok(())
    }

    /// The disk that the folder is on.
    pub fn disk(&self) -> io::Result<rustix::fs::StatVfs> {
        Ok(rustix::fs::fstatvfs(&self.0)?)
    }

    /// The size of a file, if there is one.
    pub fn size(&self, path: &FilePath) -> Option<i64> {
        let stat = rustix::fs::fstat(self.file(path).ok()?).ok()?;
        Some(stat.st_size)
    }

    /// A file, to be read.
    pub fn file(&self, path: &FilePath) -> io::Result<File> {
        let file = rustix::fs::openat2(&self.0, path.as_str(), FILE, Mode::empty(), BENEATH)?;
        match kind_of(&rustix::fs::fstat(&file)?) {
            FileType::RegularFile => Ok(File::from(file)),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(Errno::NOENT.into()),
        }
    }

    /// A folder, or this one.
    pub fn folder(&self, path: Option<&str>) -> io::Result<OwnedFd> {
        let path = path.unwrap_or(".");
        Ok(rustix::fs::openat2(&self.0, path, FOLDER, Mode::empty(), BENEATH)?)
    }

    /// The folder that a file is in; folders that are missing are made.
    pub fn folder_of(&self, path: &FilePath) -> io::Result<OwnedFd> {
        match self.folder(path.folder()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let mut folder = self.folder(None)?;
        for name in path.folder().into_iter().flat_map(|folder| folder.split('/')) {
            match rustix::fs::mkdirat(&folder, name, FOLDER_MODE) {
                Ok(()) => rustix::fs::fsync(&folder)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = rustix::fs::openat2(&folder, name, FOLDER, Mode::empty(), BENEATH)?;
        }
        Ok(folder)
    }

    /// Removes a file or an empty folder, for good. Returns the size that it had, as a file or folder, and none of anything else.
    pub fn remove(&self, path: &FilePath) -> io::Result<Option<i64>> {
        let folder = self.folder(path.folder())?;
        let stat = rustix::fs::statat(&folder, path.name(), AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = kind_of(&stat);
        let flags = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&folder, path.name(), flags)?;
        rustix::fs::fsync(&folder)?;
        Ok(match kind {
            FileType::RegularFile => Some(stat.st_size),
            FileType::Directory => Some(0),
            _ => None,
        })
    }
}

/// True for the error of a path that leads to nothing here: a name in it is missing, is no folder, or is a link.
pub fn leads_nowhere(error: &io::Error) -> bool {
    let known = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV];
    Errno::from_io_error(error).is_some_and(|error| known.contains(&error))
}

pub fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Microseconds since 1970 at which it was changed last.
pub fn modified(stat: &Stat) -> i64 {
    stat.st_mtime
        .saturating_mul(1_000_000)
        .saturating_add(i64::try_from(stat.st_mtime_nsec / 1_000).unwrap_or(0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn path(text: &str) -> FilePath {
        text.parse().unwrap()
    }

    #[test]
    fn links_lead_nowhere() {
        let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "s").unwrap();
        fs::write(place.path().join("own"), "o").unwrap();
        symlink(outside.path(), place.path().join("folder")).unwrap();
        symlink(outside.path().join("secret"), place.path().join("file")).unwrap();
        symlink("own", place.path().join("inner")).unwrap();
        let root = Root::open(place.path()).unwrap();
        for linked in ["folder/secret", "file", "inner"] {
            assert!(root.file(&path(linked)).is_err(), "{linked}");
        }
        assert!(root.folder(Some("folder")).is_err());
        assert!(root.folder_of(&path("folder/new/file")).is_err());
        assert!(root.remove(&path("folder/secret")).is_err());
        assert!(outside.path().join("secret").exists() && !outside.path().join("new").exists());
        root.remove(&path("file")).unwrap();
        assert!(outside.path().join("secret").exists(), "only the link goes");
    }

    #[test]
    fn the_folder_is_closed_to_others_and_one_that_all_share_is_not() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        for (mode, then) in
            [(0o755, 0o700), (0o777, 0o700), (0o2750, 0o700), (0o500, 0o500), (0o1777, 0o1777)]
        {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
            Root::open(place.path()).unwrap().close_to_others(place.path()).unwrap();
            let now = fs::metadata(place.path()).unwrap().permissions().mode() & 0o7777;
            assert_eq!(now, then, "{mode:o}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let place = tempfile::tempdir().unwrap();
        rustix::fs::mknodat(CWD, place.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::create_dir(place.path().join("folder")).unwrap();
        let root = Root::open(place.path()).unwrap();
        assert_eq!(root.file(&path("pipe")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(root.file(&path("folder")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}
