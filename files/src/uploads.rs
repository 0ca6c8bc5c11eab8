//! Uploads: a file comes in one or many pieces, and has its name only when all of it is there and on disk.
//!
//! The part of a file that has come is beside the others in a folder of the service, under a name made of its path, size and digest:
//! an upload goes on where it was, also after the service was killed, and never with the pieces of another one. One
//! request at a time writes to an upload.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use estimand_api::file::{FilePath, UploadProgress};
use estimand_api::registration::Sha256;
use estimand_api::share::ShareKind;
use ring::digest::{Context, SHA256};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};

use crate::owner::Owner;
use crate::root::Root;
use crate::unfinished::{Unfinished, owner_of, part_name};
use crate::upload_error::UploadError;
use crate::usage::{Counts, Usage, missing_folders};

/// The folder of unfinished uploads; no path of a file leads there.
const UPLOADS: &str = ".estimand-uploads";
/// How many digests of what has come already are kept, so that not all of it is read again for each piece.
const MAX_DIGESTS: usize = 256;
/// The space that is left to others on the same disk.
const RESERVE: u64 = 64 * 1024 * 1024;
/// An upload to which nothing was added for so long is removed.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
const BUFFER: usize = 1024 * 1024;

/// A file that is to come.
#[derive(Debug, Clone)]
pub struct Upload {
    pub owner: Owner,
    /// As its sender names it.
    pub path: FilePath,
    /// Below the folder of the service.
    pub place: FilePath,
    /// None: it ends with the request.
    pub size: Option<u64>,
    /// The digest that it must have.
    pub sha256: Option<Sha256>,
}

/// The end of a piece.
pub enum Received {
    Piece(UploadProgress),
    /// It was the last one.
    File {
        sha256: Sha256,
    },
}

pub struct Uploads {
    root: Arc<Root>,
    folder: OwnedFd,
    usage: Arc<Usage>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    unfinished: Unfinished,
    digests: HashMap<String, Hashed>,
}

/// The digest of the beginning of a file.
#[derive(Clone)]
struct Hashed {
    context: Context,
    bytes: u64,
}

impl Hashed {
    fn new() -> Self {
        Hashed { context: Context::new(&SHA256), bytes: 0 }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    fn finish(self) -> Sha256 {
        Sha256::of_digest(self.context.finish())
    }
}

/// The digest of a file from where it stands to its end.
pub fn digest(mut file: &File) -> io::Result<Sha256> {
    let mut hashed = Hashed::new();
    hash_until(&mut file, &mut hashed, u64::MAX)?;
    Ok(hashed.finish())
}

fn hash_until(file: &mut impl io::Read, hashed: &mut Hashed, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    while hashed.bytes < end {
        let most = usize::try_from(end - hashed.bytes).unwrap_or(BUFFER).min(BUFFER);
        match file.read(&mut buffer[..most])? {
            0 => break,
            read => hashed.update(&buffer[..read]),
        }
    }
    Ok(())
}

impl Uploads {
    pub fn open(root: Arc<Root>, usage: Arc<Usage>) -> io::Result<Self> {
        let top = root.folder(None)?;
        match rustix::fs::mkdirat(&top, UPLOADS, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&top, UPLOADS, flags, Mode::empty())?;
        let uploads = Uploads { root, folder, usage, state: Mutex::default() };
        uploads.correct()?;
        Ok(uploads)
    }

    /// How many are kept that are not finished.
    pub fn unfinished(&self) -> usize {
        self.state().unfinished.count()
    }

    /// How much of a file is here and on disk.
    pub fn received(&self, upload: &Upload) -> io::Result<u64> {
        match self.open_part(&upload.part_name(), OFlags::RDONLY) {
            Ok(part) => {
                part.sync_data()?;
                Ok(part.metadata()?.len())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Begins with a piece. Blocking.
    pub fn begin(self: &Arc<Self>, upload: Upload, offset: u64) -> Result<Piece, UploadError> {
        let place = self.take(upload.part_name(), &upload.owner)?;
        if self.root.folder(Some(upload.place.as_str())).is_ok() {
            place.remove()?;
            return Err(UploadError::IsFolder);
        }
        if let Err(problem) = self.usage.check_new(&self.root, &upload.owner, &upload.place) {
            place.remove()?;
            return Err(problem.into());
        }
        let mut part = self.open_part(&place.name, OFlags::RDWR | OFlags::CREATE)?;
        if offset == 0 {
            self.usage.change(&upload.owner, -Counts::bytes(signed(part.metadata()?.len())));
            part.set_len(0)?;
        }
        let received = part.metadata()?.len();
        if received != offset {
            if received == 0 {
                place.remove()?;
            }
            return Err(UploadError::WrongOffset { received });
        }
        let known = self.state().digests.remove(&place.name);
        let mut hashed = known.filter(|known| known.bytes <= received).unwrap_or_else(Hashed::new);
        part.seek(SeekFrom::Start(hashed.bytes))?;
        hash_until(&mut part, &mut hashed, received)?;
        Ok(Piece { uploads: Arc::clone(self), upload, part, hashed, place })
    }

    /// Removes what nobody has added to for a day. Blocking.
    pub fn clear(&self) -> io::Result<()> {
        let now = SystemTime::now();
        for (modified, name, _) in self.parts()? {
            // Nobody begins with it meanwhile.
            let mut state = self.state();
            let is_abandoned = now.duration_since(modified).is_ok_and(|age| age >= ABANDONED_AFTER);
            if is_abandoned && !state.unfinished.is_sent(&name) {
                self.remove_part(&mut state, &name)?;
            }
        }
        self.correct()
    }

    /// Takes what is on disk for what there is.
    fn correct(&self) -> io::Result<()> {
        let mut state = self.state();
        let mut parts = self.parts()?;
        parts.sort_unstable();
        state.unfinished.correct(parts.into_iter().map(|(_, name, _)| name));
        Ok(())
    }

    /// Counts what users have here. Blocking, for as long as a look at all of their files takes.
    pub fn count(&self) -> io::Result<()> {
        let sizes =
            self.parts()?.into_iter().filter_map(|(_, name, size)| Some((owner_of(&name)?, signed(size))));
        self.usage.correct(&self.root, &sizes.collect::<Vec<_>>())
    }

    /// When each file of an upload was written to last, its name and its size.
    fn parts(&self) -> io::Result<Vec<(SystemTime, String, u64)>> {
        let mut parts = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            match self.open_part(name, OFlags::RDONLY) {
                Ok(part) => {
                    let data = part.metadata()?;
                    parts.push((data.modified()?, name.to_owned(), data.len()));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(parts)
    }

    fn remove_part(&self, state: &mut State, name: &str) -> io::Result<()> {
        state.unfinished.forget(name);
        state.digests.remove(name);
        if let Some(owner) = owner_of(name)
            && let Ok(stat) = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            self.usage.change(&owner, -Counts::bytes(stat.st_size));
        }
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    fn open_part(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.folder, name, flags, FILE_MODE)?))
    }

    fn take(self: &Arc<Self>, name: String, owner: &Owner) -> Result<SentUpload, UploadError> {
        let mut state = self.state();
        let surplus = state.unfinished.begin(&name, owner)?;
        let taken = SentUpload { uploads: Arc::clone(self), name };
        // Nobody begins with one of them meanwhile.
        for name in surplus {
            if let Err(error) = self.remove_part(&mut state, &name) {
                drop(state);
                return Err(error.into());
            }
        }
        drop(state);
        Ok(taken)
    }

    fn remember(&self, name: &str, hashed: Hashed) {
        let digests = &mut self.state().digests;
        if digests.len() >= MAX_DIGESTS {
            digests.clear();
        }
        digests.insert(name.to_owned(), hashed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

impl Upload {
    /// The name under which what has come of it is kept. One that ends with its request is nobody's to go on with.
    fn part_name(&self) -> String {
        let Upload { place, size, sha256, .. } = self;
        let size = match size {
            Some(size) => size.to_string(),
            None => format!("{:x}", fastrand::u64(..)),
        };
        let sha256 = sha256.map(|sha256| sha256.to_string()).unwrap_or_default();
        let mut hashed = Hashed::new();
        [place.as_str(), &size, &sha256].iter().for_each(|field| {
            hashed.update(field.as_bytes());
            hashed.update(&[0]);
        });
        part_name(&hashed.finish().to_string(), &self.owner)
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The right to write to an upload.
struct SentUpload {
    uploads: Arc<Uploads>,
    name: String,
}

impl SentUpload {
    /// Removes what is there of it.
    fn remove(&self) -> io::Result<()> {
        self.uploads.remove_part(&mut self.uploads.state(), &self.name)
    }
}

impl Drop for SentUpload {
    fn drop(&mut self) {
        self.uploads.state().unfinished.end(&self.name);
    }
}

/// A piece that comes. What was written of one that breaks off stays.
pub struct Piece {
    uploads: Arc<Uploads>,
    upload: Upload,
    part: File,
    hashed: Hashed,
    place: SentUpload,
}

impl Piece {
    /// Blocking.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), UploadError> {
        let after = self.hashed.bytes + bytes.len() as u64;
        if self.upload.size.is_some_and(|size| after > size) {
            return Err(UploadError::TooLong);
        }
        let disk = rustix::fs::fstatvfs(&self.part)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < RESERVE.saturating_add(bytes.len() as u64) {
            return Err(UploadError::NoRoom);
        }
        let usage = &self.uploads.usage;
        let owner = &self.upload.owner;
        usage.check(&self.uploads.root, owner, ShareKind::FileBytes, bytes.len() as u64)?;
        if let Err(error) = self.part.write_all(bytes) {
            // The digest has none of these bytes, some of which may be written.
            self.part.set_len(self.hashed.bytes)?;
            return Err(error.into());
        }
        self.hashed.update(bytes);
        usage.change(owner, Counts::bytes(signed(bytes.len() as u64)));
        Ok(())
    }

    /// Makes what has come durable, and gives the file its name if that is all of it. Blocking.
    pub fn end(self) -> Result<Received, UploadError> {
        self.part.sync_all()?;
        let received = self.hashed.bytes;
        match self.upload.size {
            Some(size) if received < size => {
                self.uploads.remember(&self.place.name, self.hashed);
                Ok(Received::Piece(UploadProgress { received, size }))
            }
            _ => self.finish(),
        }
    }

    /// Keeps what has come of a piece that broke off. Blocking.
    pub fn keep(self) -> Result<(), UploadError> {
        if self.upload.size.is_none() {
            return Ok(self.place.remove()?);
        }
        self.part.sync_data()?;
        self.uploads.remember(&self.place.name, self.hashed);
        Ok(())
    }

    fn finish(self) -> Result<Received, UploadError> {
        let Piece { uploads, upload, hashed, place, .. } = self;
        let size = signed(hashed.bytes);
        let replaced = uploads.root.size(&upload.place);
        let sha256 = hashed.finish();
        if upload.sha256.is_some_and(|expected| expected != sha256) {
            place.remove()?;
            return Err(UploadError::DigestDiffers { found: sha256 });
        }
        let folders = Counts::folders(missing_folders(&uploads.root, &upload.place));
        let named = uploads.root.folder_of(&upload.place).map_err(UploadError::from).and_then(|folder| {
            uploads.usage.change_at(upload.place.as_str(), folders);
            rustix::fs::renameat(&uploads.folder, &*place.name, &folder, upload.place.name())?;
            Ok(rustix::fs::fsync(&folder)?)
        });
        if let Err(error) = named {
            // All of it is there, so no piece could be added.
            let _ = place.remove();
            return Err(error);
        }
        uploads.state().unfinished.forget(&place.name);
        // From here on it counts for the user in whose folder it is, whoever sent it.
        uploads.usage.change(&upload.owner, -Counts::bytes(size));
        uploads.usage.change_at(upload.place.as_str(), Counts::file(size));
        if let Some(replaced) = replaced {
            uploads.usage.change_at(upload.place.as_str(), -Counts::file(replaced));
        }
        Ok(Received::File { sha256 })
    }
}
