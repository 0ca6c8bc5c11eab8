//! Files that are replaced as a whole: a reader finds the old one or the new one, also after a crash.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Replaces a file, or makes it, with these permissions (less the process's umask). The bytes are written beside it, as
/// `NAME.new`, and are on disk before the file has its name. Blocking; one caller at a time for a path.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, bytes, mode, Lasting::Machine)
}

/// The same for what is of no use once the machine was started anew: it outlives any process, and does not wait for the
/// disk.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, bytes, mode, Lasting::Process)
}

/// The crash that a file outlives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasting {
    Process,
    Machine,
}

fn replace(path: &Path, bytes: &[u8], mode: u32, lasting: Lasting) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // With its permissions from the beginning: others could open a file before they are changed.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(bytes)?;
    if lasting == Lasting::Process {
        return fs::rename(&beside, path);
    }
    file.sync_all()?;
    fs::rename(&beside, path)?;
    // The rename itself is durable when the folder is.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Makes a folder, if there is none, that only its owner goes into, whatever the process's umask says.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_permissions_and_nothing_is_left_beside_it() {
        let folder = std::env::temp_dir().join(format!("estimand-files-{:016x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("key");
        // Left by a process that died before it could rename it, and readable by everybody.
        fs::write(folder.join("key.new"), "half").unwrap();
        for text in ["first", "second"] {
            write_atomically(&path, text.as_bytes(), 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        write_whole(&path, b"third", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(write_atomically(&folder.join("none/key"), b"", 0o600).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
