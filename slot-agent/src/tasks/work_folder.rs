//! The folder in which a task runs, as its agent fills it and looks into it.
//!
//! The content is the task's, which may be hostile, and others of its user may still change it: each path is resolved by
//! the kernel beneath the folder, no link is followed, no other file system is entered, and only plain files are opened. A
//! search costs a bounded amount of work, however much is there. Blocking.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use estimand_api::file::FilePath;
use estimand_api::task_files::{MAX_OUTPUTS, OutputPattern, PatternMatch, TaskOutputs};
use estimand_exec::Identity;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Not blocked by a pipe that is put in the place of a file.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// How many names a search looks at, and how deep it goes.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 30;

#[derive(Debug)]
pub struct WorkFolder(OwnedFd);

/// The owner of what is put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The agent's own user.
    Agent,
    Other(Identity),
    /// Whichever user the image of a container has.
    Anybody,
}

impl WorkFolder {
    /// The error is also that of a link in its place.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(WorkFolder(rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// A plain file of its owner's, to be read. A hard link to somebody else's file gives the task no more than it may read
    /// itself. In a container whose image says the user, each file is of one of its own.
    pub fn file(&self, path: &str, owner: &Owner) -> io::Result<File> {
        let file = rustix::fs::openat2(&self.0, path, FILE, Mode::empty(), BENEATH)?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no plain file"));
        }
        if *owner != Owner::Anybody && stat.st_uid != rustix::fs::fstat(&self.0)?.st_uid {
            return Err(io::Error::other("it belongs to another user than the task's"));
        }
        Ok(File::from(file))
    }

    /// Moves a file to its place. Folders that are missing are made.
    pub fn put(&self, file: &Path, place: &FilePath, owner: &Owner) -> io::Result<()> {
        let (file_mode, folder_mode) = match owner {
            Owner::Agent | Owner::Other(_) => (0o600, 0o700),
            Owner::Anybody => (0o666, 0o777),
        };
        let mut folder = rustix::fs::openat2(&self.0, ".", FOLDER, Mode::empty(), BENEATH)?;
        for name in place.folder().into_iter().flat_map(|folder| folder.split('/')) {
            let is_new = match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(error.into()),
            };
            folder = rustix::fs::openat2(&folder, name, FOLDER, Mode::empty(), BENEATH)?;
            if is_new {
                give(&folder, owner, folder_mode)?;
            }
        }
        let opened = rustix::fs::openat(CWD, file, FILE | OFlags::NOFOLLOW, Mode::empty())?;
        give(&opened, owner, file_mode)?;
        Ok(rustix::fs::renameat(CWD, file, &folder, place.name())?)
    }

    /// The paths of all plain files that the patterns mean, in the order of their names. What cannot be kept, and a pattern
    /// that means nothing, is noted.
    pub fn find(&self, patterns: &[OutputPattern], outputs: &mut TaskOutputs) -> Vec<String> {
        self.find_among(MAX_ENTRIES, patterns, outputs)
    }

    fn find_among(
        &self,
        entries_left: usize,
        patterns: &[OutputPattern],
        outputs: &mut TaskOutputs,
    ) -> Vec<String> {
        let met = vec![false; patterns.len()];
        let mut search = Search { patterns, met, found: Vec::new(), entries_left, cut: false, outputs };
        if let Err(error) = search.folder(&self.0, &mut Vec::new()) {
            search.outputs.leave_out(".", format!("the task's folder cannot be read: {error}"));
        }
        let Search { met, found, cut, outputs, .. } = search;
        if cut {
            let reason = format!("more than {MAX_ENTRIES} names were to be looked at; the rest were not");
            outputs.leave_out(".", reason);
        }
        for (pattern, _) in patterns.iter().zip(met).filter(|(_, met)| !met) {
            outputs.leave_out(pattern.to_string(), "there is no such file");
        }
        found
    }
}

/// Makes something the owner's.
fn give(what: &OwnedFd, owner: &Owner, mode: u32) -> io::Result<()> {
    if let Owner::Other(Identity { uid, gid, .. }) = owner {
        rustix::fs::fchown(what.as_fd(), Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)))?;
    }
    Ok(rustix::fs::fchmod(what, Mode::from_raw_mode(mode))?)
}

struct Search<'a> {
    patterns: &'a [OutputPattern],
    /// Which of them mean something that is there.
    met: Vec<bool>,
    found: Vec<String>,
    entries_left: usize,
    cut: bool,
    outputs: &'a mut TaskOutputs,
}

impl Search<'_> {
    fn folder(&mut self, folder: &OwnedFd, path: &mut Vec<String>) -> io::Result<()> {
        let mut names: Vec<CString> = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            if self.entries_left == 0 {
                self.cut = true;
                break;
            }
            self.entries_left -= 1;
            names.push(entry.file_name().to_owned());
        }
        names.sort();
        for name in names {
            path.push(name.to_string_lossy().into_owned());
            self.entry(folder, &name, path);
            path.pop();
        }
        Ok(())
    }

    fn entry(&mut self, folder: &OwnedFd, name: &CStr, path: &mut Vec<String>) {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let (mut is_meant, mut is_above) = (false, false);
        for (pattern, met) in self.patterns.iter().zip(&mut self.met) {
            match pattern.matches(&names) {
                PatternMatch::None => {}
                PatternMatch::Above => is_above = true,
                PatternMatch::Whole => (is_meant, *met) = (true, true),
            }
        }
        if !is_meant && !is_above {
            return;
        }
        let shown = path.join("/");
        if !name.to_str().is_ok_and(FilePath::is_name) {
            return self.leave_out(is_meant, shown, "its name is none that a file may have");
        }
        let kind = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            // It is gone.
            Err(_) => return,
        };
        match kind {
            FileType::Directory if path.len() >= MAX_DEPTH => {
                self.leave_out(is_meant, shown, "it is too deep");
            }
            FileType::Directory => {
                let inner = rustix::fs::openat2(folder, name, FOLDER, Mode::empty(), BENEATH);
                let inner = inner.map_err(io::Error::from).and_then(|inner| self.folder(&inner, path));
                if let Err(error) = inner {
                    self.leave_out(is_meant, shown, &format!("the folder cannot be read: {error}"));
                }
            }
            FileType::RegularFile if is_meant && self.found.len() < MAX_OUTPUTS => self.found.push(shown),
            FileType::RegularFile => {
                let reason = format!("it is one of more than {MAX_OUTPUTS} files");
                self.leave_out(is_meant, shown, &reason);
            }
            FileType::Symlink => self.leave_out(is_meant, shown, "it is a link, and links are not followed"),
            _ => self.leave_out(is_meant, shown, "it is no plain file"),
        }
    }

    fn leave_out(&mut self, is_meant: bool, path: String, reason: &str) {
        if is_meant {
            self.outputs.leave_out(path, reason);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn patterns(texts: &[&str]) -> Vec<OutputPattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn find(folder: &Path, texts: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut outputs = TaskOutputs::default();
        let found = WorkFolder::open(folder).unwrap().find(&patterns(texts), &mut outputs);
        let left_out = outputs.left_out.into_iter().map(|left| format!("{}: {}", left.path, left.reason));
        (found, left_out.collect())
    }

    #[test]
    fn files_are_found_by_patterns() {
        let place = tempfile::tempdir().unwrap();
        for folder in ["logs/deep", "other"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        for file in ["model.bin", "logs/b", "logs/a", "logs/deep/c", "other/x", "notes"] {
            fs::write(place.path().join(file), "x").unwrap();
        }
        let (found, left_out) = find(place.path(), &["model.bin", "logs/*", "missing", "*/none"]);
        assert_eq!(found, ["logs/a", "logs/b", "logs/deep/c", "model.bin"]);
        assert_eq!(left_out, ["missing: there is no such file", "*/none: there is no such file"]);
        assert_eq!(find(place.path(), &["logs"]).0.len(), 3);
    }

    #[test]
    fn links_and_pipes_are_not_opened() {
        let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "theirs").unwrap();
        symlink(outside.path().join("secret"), place.path().join("file")).unwrap();
        symlink(outside.path(), place.path().join("folder")).unwrap();
        rustix::fs::mknodat(CWD, place.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let (found, left_out) = find(place.path(), &["*", "folder/secret"]);
        assert!(found.is_empty(), "{found:?}");
        let linked = "it is a link, and links are not followed";
        assert_eq!(
            left_out,
            [
                format!("file: {linked}"),
                format!("folder: {linked}"),
                "pipe: it is no plain file".to_owned(),
                "folder/secret: there is no such file".to_owned()
            ]
        );
        let folder = WorkFolder::open(place.path()).unwrap();
        for path in ["file", "folder/secret", "pipe", "../secret", "/etc/passwd", "folder"] {
            assert!(folder.file(path, &Owner::Agent).is_err(), "{path}");
        }
        assert!(WorkFolder::open(&place.path().join("folder")).is_err(), "nor if it is a link itself");
    }

    /// The kernel lets a user link files of others where `fs.protected_hardlinks` is 0.
    #[test]
    fn a_hard_link_to_somebody_elses_file_is_not_opened() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let (work, theirs) = (place.path().join("work"), place.path().join("secret"));
        let identity = Identity { uid: 65_534, gid: 65_534, groups: Vec::new() };
        fs::create_dir(&work).unwrap();
        fs::write(&theirs, "of the operator").unwrap();
        fs::hard_link(&theirs, work.join("linked")).unwrap();
        fs::write(work.join("own"), "of the task").unwrap();
        for own in [work.clone(), work.join("own")] {
            chown(own, Some(identity.uid), Some(identity.gid)).unwrap();
        }
        fs::hard_link(work.join("own"), work.join("again")).unwrap();
        let folder = WorkFolder::open(&work).unwrap();
        let owner = Owner::Other(identity);
        let refused = folder.file("linked", &owner).unwrap_err();
        assert!(refused.to_string().contains("another user"), "{refused}");
        assert!(folder.file("own", &owner).is_ok() && folder.file("again", &owner).is_ok());
        assert!(
            folder.file("linked", &Owner::Anybody).is_ok(),
            "a container has no link to what is outside of it"
        );
    }

    #[test]
    fn many_files_and_deep_folders_cost_a_bounded_amount() {
        let place = tempfile::tempdir().unwrap();
        for n in 0..MAX_OUTPUTS + 3 {
            fs::write(place.path().join(format!("{n:05}")), "").unwrap();
        }
        let (found, left_out) = find(place.path(), &["*"]);
        assert_eq!((found.len(), left_out.len()), (MAX_OUTPUTS, 3));
        let mut outputs = TaskOutputs::default();
        let folder = WorkFolder::open(place.path()).unwrap();
        assert_eq!(folder.find_among(10, &patterns(&["*"]), &mut outputs).len(), 10);
        assert!(outputs.left_out[0].reason.contains("more than"), "{outputs:?}");
        let deep = tempfile::tempdir().unwrap();
        crate::slot_folder::make_deep(deep.path(), 200);
        let (found, left_out) = find(deep.path(), &["deeper"]);
        assert_eq!((found.len(), left_out.len()), (0, 2));
    }

    #[test]
    fn a_file_is_put_where_it_belongs() {
        let place = tempfile::tempdir().unwrap();
        let (work, part) = (place.path().join("work"), place.path().join("part"));
        fs::create_dir(&work).unwrap();
        let folder = WorkFolder::open(&work).unwrap();
        let mode = |path: &str| work.join(path).metadata().unwrap().permissions().mode() & 0o777;
        for (owner, modes) in [(Owner::Agent, (0o700, 0o600)), (Owner::Anybody, (0o777, 0o666))] {
            fs::write(&part, "content").unwrap();
            let at = format!("{}/b/c", modes.0);
            folder.put(&part, &at.parse().unwrap(), &owner).unwrap();
            let mut text = String::new();
            folder.file(&at, &owner).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), part.exists()), ("content", false));
            assert_eq!((mode(&modes.0.to_string()), mode(&at)), modes);
        }
        // Nothing leads out of it.
        symlink(place.path(), work.join("out")).unwrap();
        fs::write(&part, "content").unwrap();
        assert!(folder.put(&part, &"out/x".parse().unwrap(), &Owner::Agent).is_err());
        assert!(!place.path().join("x").exists());
    }
}
