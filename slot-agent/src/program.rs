//! The executable of a run: found, allowed, and of the content that its registration names, if it names one.
//!
//! With a digest the file is opened once: where it lies, what is in it and what is executed are asked of
//! that one open file, whatever becomes of its path meanwhile. A script is executed from a sealed copy in memory, since
//! its interpreter reads it while it runs; a binary from its own file, which the kernel keeps from being written
//! while it is executed. The interpreter of a script, and what either of them loads, are not part of the digest.
//!
//! A binary is hashed once, as long as its file is untouched. Its times tell that only if nobody writes to it whom this
//! agent does not trust with itself: so what others may write to is hashed for each run, and what was changed
//! just now as well, because times are coarse.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use estimand_api::registration::Sha256;
use ring::digest;
use rustix::fs::{Access, Gid, MemfdFlags, Mode, OFlags, SealFlags, Uid};

use crate::allow::{Allow, ProgramError};
use estimand_exec::ProgramFile;

/// The largest script that is copied.
const MAX_SCRIPT_BYTES: u64 = 16 << 20;
/// A file that was changed so short a time ago may be changed again without its times telling.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// How many digests are remembered.
const MAX_DIGESTS: usize = 1024;
const CHUNK: usize = 256 * 1024;

/// The programs that may run here, and their digests.
#[derive(Debug)]
pub struct Programs {
    allow: Allow,
    digests: Mutex<HashMap<Stamp, Sha256>>,
}

/// A program to execute.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    /// Its file, if it was opened: then that is executed.
    pub file: Option<ProgramFile>,
}

/// A file as it was at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Programs {
    pub fn new(allow: Allow) -> Self {
        Programs { allow, digests: Mutex::default() }
    }

    /// The program of a command's first word, with the content that it must have.
    pub async fn find(self: &Arc<Self>, word: &str, sha256: Option<Sha256>) -> Result<Program, ProgramError> {
        let Some(wanted) = sha256 else {
            return Ok(Program { path: self.allow.resolve(word)?, file: None });
        };
        // Much is read, possibly from far away.
        let (programs, word) = (Arc::clone(self), word.to_owned());
        let found = tokio::task::spawn_blocking(move || programs.find_pinned(&word, wanted)).await;
        found.unwrap_or_else(|error| Err(ProgramError::NotNow(format!("its file was not read: {error}"))))
    }

    fn find_pinned(&self, word: &str, wanted: Sha256) -> Result<Program, ProgramError> {
        let path = self.allow.find(word).map_err(ProgramError::Missing)?;
        let missing = |doing: &str, error: io::Error| {
            ProgramError::Missing(format!(
                "`{word}` must have a certain content, but its file cannot be {doing}: {error}"
            ))
        };
        // Never waits, whatever it is that lies there.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
        let file = file.map_err(|error| missing("read", error))?;
        let itself = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let real = fs::read_link(&itself).map_err(|error| missing("found", error))?;
        self.allow.check(word, &real)?;
        let meta = file.metadata().map_err(|error| missing("looked at", error))?;
        if !meta.is_file() {
            return Err(ProgramError::Refused(format!(
                "`{word}` is not run: {} is not a file",
                real.display()
            )));
        }
        rustix::fs::access(&itself, Access::EXEC_OK).map_err(|_| {
            ProgramError::Missing(format!("{} is not executable; `chmod +x` makes it so", real.display()))
        })?;
        let (found, file) = match is_script(&file).map_err(|error| missing("read", error))? {
            true => copy(file, &meta).map_err(|error| missing("copied", error))?,
            false => self.binary(file, &meta).map_err(|error| missing("read", error))?,
        };
        if found != wanted {
            return Err(ProgramError::Refused(format!(
                "`{word}` is not run: {} has the SHA-256 {found}, and its registration names {wanted}",
                real.display()
            )));
        }
        Ok(Program { path, file: Some(file) })
    }

    fn binary(&self, file: File, meta: &Metadata) -> io::Result<(Sha256, ProgramFile)> {
        let before = Stamp::of(meta);
        let known = self.digests().get(&before).copied();
        let found = match known {
            Some(known) => known,
            None => {
                let found = hash(&file)?;
                if Stamp::of(&file.metadata()?) != before {
                    return Err(io::Error::other("it was changed while it was read"));
                }
                self.remember(before, found, meta);
                found
            }
        };
        Ok((found, ProgramFile { descriptor: file.into(), script: false }))
    }

    fn remember(&self, stamp: Stamp, digest: Sha256, meta: &Metadata) {
        if !tells_changes(meta, SystemTime::now()) {
            return;
        }
        let mut digests = self.digests();
        if digests.len() >= MAX_DIGESTS {
            digests.clear();
        }
        digests.insert(stamp, digest);
    }

    fn digests(&self) -> std::sync::MutexGuard<'_, HashMap<Stamp, Sha256>> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Stamp {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// True if a change from now on would show. The time of the last change cannot be set; a file with a writable mapping
/// can be written to without it for a while, so nobody may have one who is not trusted.
fn tells_changes(meta: &Metadata, now: SystemTime) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let trusted = (meta.uid() == 0 || meta.uid() == own) && meta.mode() & 0o022 == 0;
    let changed =
        u64::try_from(meta.ctime()).map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let settled =
        changed.is_ok_and(|changed| now.duration_since(changed).is_ok_and(|age| age > SETTLED_AFTER));
    trusted && settled
}

fn is_script(file: &File) -> io::Result<bool> {
    let mut start = [0; 2];
    let read = file.read_at(&mut start, 0)?;
    Ok(&start[..read] == b"#!")
}

fn hash(file: &File) -> io::Result<Sha256> {
    let mut context = digest::Context::new(&digest::SHA256);
    let (mut chunk, mut at) = (vec![0; CHUNK], 0);
    loop {
        match file.read_at(&mut chunk, at) {
            Ok(0) => return Ok(finished(context)),
            Ok(read) => {
                context.update(&chunk[..read]);
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn finished(context: digest::Context) -> Sha256 {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    Sha256(bytes)
}

pub fn sha256(content: &[u8]) -> Sha256 {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(content);
    finished(context)
}

/// A file in memory with this content, which nobody can write to and everybody can execute.
pub fn sealed(content: &[u8]) -> io::Result<ProgramFile> {
    let mut copy = File::from(memory_file()?);
    copy.write_all(content)?;
    rustix::fs::fchmod(&copy, Mode::from_raw_mode(0o555))?;
    seal(&copy)?;
    Ok(ProgramFile { descriptor: copy.into(), script: content.starts_with(b"#!") })
}

fn seal(copy: &File) -> io::Result<()> {
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    Ok(rustix::fs::fcntl_add_seals(copy, seals)?)
}

/// The digest of a script, and a copy of it that nobody can write to.
fn copy(file: File, meta: &Metadata) -> io::Result<(Sha256, ProgramFile)> {
    let mut text = Vec::new();
    file.take(MAX_SCRIPT_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_SCRIPT_BYTES {
        return Err(io::Error::other(format!("it is a script of more than {MAX_SCRIPT_BYTES} bytes")));
    }
    let mut copy = File::from(memory_file()?);
    copy.write_all(&text)?;
    permit(&copy, meta)?;
    seal(&copy)?;
    Ok((sha256(&text), ProgramFile { descriptor: copy.into(), script: true }))
}

fn memory_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and need none.
    let made = rustix::fs::memfd_create("script", flags | MemfdFlags::EXEC);
    Ok(made.or_else(|_| rustix::fs::memfd_create("script", flags))?)
}

/// The copy can be executed and read by those who may execute and read the file, and by nobody else.
fn permit(copy: &File, meta: &Metadata) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
    let mode = match rustix::fs::fchown(copy, Some(uid), Some(gid)) {
        Ok(()) => Mode::from_raw_mode(meta.mode() & 0o555),
        // Not root, so it runs as whom this agent is, which may execute it.
        Err(_) => Mode::RUSR | Mode::XUSR,
    };
    Ok(rustix::fs::fchmod(copy, mode)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn put(path: &Path, content: &[u8]) -> Sha256 {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        hash(&File::open(path).unwrap()).unwrap()
    }

    fn programs(folder: &Path) -> Arc<Programs> {
        Arc::new(Programs::new(Allow::folders(&[folder.to_owned()]).unwrap()))
    }

    #[tokio::test]
    async fn the_checked_file_is_the_executed_one() {
        let place = tempfile::tempdir().unwrap();
        let (program, programs) = (place.path().join("p"), programs(place.path()));
        let word = program.to_str().unwrap();
        let right = put(&program, b"\x7fELF not really");
        let found = programs.find(word, Some(right)).await.unwrap();
        // Another file at the same place.
        let other = place.path().join("q");
        let wrong = put(&other, b"\x7fELF another");
        fs::rename(&other, &program).unwrap();
        let opened = File::from(found.file.unwrap().descriptor);
        assert_eq!(hash(&opened).unwrap(), right);
        let refused = programs.find(word, Some(right)).await.unwrap_err().to_string();
        assert!(refused.contains(&right.to_string()) && refused.contains(&wrong.to_string()), "{refused}");
        assert!(programs.find(word, None).await.unwrap().file.is_none());
    }

    #[tokio::test]
    async fn a_script_is_executed_from_a_copy_that_nobody_can_write_to() {
        let place = tempfile::tempdir().unwrap();
        let (program, programs) = (place.path().join("s"), programs(place.path()));
        let right = put(&program, b"#!/bin/sh\necho 1\n");
        let found = programs.find(program.to_str().unwrap(), Some(right)).await.unwrap().file.unwrap();
        put(&program, b"#!/bin/sh\necho 2\n");
        assert!(found.script);
        let mut copy = File::from(found.descriptor);
        assert_eq!(hash(&copy).unwrap(), right);
        assert_eq!(copy.metadata().unwrap().mode() & 0o777, 0o555);
        assert!(copy.write_all(b"x").is_err() && copy.set_len(0).is_err());
    }

    #[tokio::test]
    async fn a_digest_allows_nothing_that_is_not_allowed() {
        let place = tempfile::tempdir().unwrap();
        let (good, bad) = (place.path().join("good"), place.path().join("bad"));
        for folder in [&good, &bad] {
            fs::create_dir(folder).unwrap();
        }
        let digest = put(&bad.join("p"), b"x");
        std::os::unix::fs::symlink(bad.join("p"), good.join("l")).unwrap();
        let programs = programs(&good);
        let check = async |word: &Path, part: &str| {
            let refused = programs.find(word.to_str().unwrap(), Some(digest)).await.unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        };
        check(&bad.join("p"), "allows only").await;
        check(&good.join("l"), "allows only").await;
        check(&good.join("../bad/p"), "allows only").await;
        check(&good, "is not a file").await;
        fs::write(good.join("plain"), "x").unwrap();
        check(&good.join("plain"), "not executable").await;
        rustix::fs::mkfifoat(rustix::fs::CWD, good.join("pipe"), Mode::RWXU).unwrap();
        check(&good.join("pipe"), "is not a file").await;
    }

    #[test]
    fn only_a_file_whose_changes_show_is_remembered() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("p");
        put(&program, b"x");
        let later = SystemTime::now() + Duration::from_secs(10);
        let tells = |now| tells_changes(&program.metadata().unwrap(), now);
        assert!(!tells(SystemTime::now()) && tells(later));
        assert!(!tells(SystemTime::UNIX_EPOCH));
        fs::set_permissions(&program, Permissions::from_mode(0o775)).unwrap();
        assert!(!tells(later));
    }
}
