//! `files put` and `files get`: a file goes over in pieces, and its digest is checked at the end. One that breaks off goes
//! on where it was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use estimand_api::file::{FileEntry, FilePath};
use estimand_api::file_share::ReadPath;
use estimand_api::registration::Sha256;
use estimand_client::FileToSend;
use ring::digest::{Context, SHA256};

use crate::arguments::files::{GetFileArgs, PutFileArgs};
use crate::commands::Session;
use crate::output::failure::{Exit, Failure};
use crate::output::words;

/// How much goes over at a time.
const PIECE: u64 = 4 * 1024 * 1024;
/// How long a service may be away before it is given up.
const AWAY_AT_MOST: Duration = Duration::from_secs(60);
const SHOW_EVERY: Duration = Duration::from_millis(500);

pub async fn put(session: &mut Session, args: &PutFileArgs) -> Result<(), Failure> {
    let mut source = File::open(&args.file).map_err(|error| of_file(&args.file, &error))?;
    let path = target(args)?;
    let (sha256, size) = digest(&mut source).map_err(|error| of_file(&args.file, &error))?;
    let file = FileToSend { path, size, sha256 };
    let sent = match session.client.file(&file.path.clone().into()).await {
        Ok(there) if there.size == size && there.sha256 == Some(sha256) => there,
        Ok(_) => send(session, &file, &mut source).await?,
        Err(error) if error.status() == Some(404) => send(session, &file, &mut source).await?,
        Err(error) => return Err(error.into()),
    };
    if session.out.json {
        return Ok(session.out.pretty(&sent)?);
    }
    Ok(session.out.line(&format!("`{}` is there: {}, SHA-256 {sha256}", sent.path, words::bytes(size)))?)
}

/// The path of a file that is sent.
fn target(args: &PutFileArgs) -> Result<FilePath, Failure> {
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    let path = match &args.path {
        Some(folder) if folder.ends_with('/') => format!("{folder}{name}"),
        Some(path) => path.clone(),
        None => name.into_owned(),
    };
    path.parse().map_err(|error: estimand_api::file::FilePathError| Failure::Usage(error.to_string()))
}

async fn send(session: &Session, file: &FileToSend, source: &mut File) -> Result<FileEntry, Failure> {
    let mut progress = Progress::new(file.size);
    let mut away: Option<Instant> = None;
    loop {
        let (error, moved) = match send_rest(session, file, source, &mut progress).await {
            Ok(entry) => return Ok(entry),
            Err(Failure::Client(error)) => (Failure::Client(error), progress.has_moved()),
            Err(failure) => return Err(failure),
        };
        if moved {
            away = None;
        }
        if error.exit() != Exit::Unreachable || away.get_or_insert_with(Instant::now).elapsed() > AWAY_AT_MOST
        {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn send_rest(
    session: &Session,
    file: &FileToSend,
    source: &mut File,
    progress: &mut Progress,
) -> Result<FileEntry, Failure> {
    let mut at = session.client.upload_progress(file).await?.received;
    loop {
        progress.show(at);
        source.seek(SeekFrom::Start(at))?;
        let mut piece = Vec::new();
        (&*source).take(PIECE.min(file.size - at)).read_to_end(&mut piece)?;
        let length = piece.len() as u64;
        if length == 0 && at < file.size {
            return Err(Failure::Io(io::Error::other("the file became shorter while it was sent")));
        }
        if let Some(entry) = session.client.send_file(file, at, Bytes::from(piece)).await? {
            progress.end();
            return Ok(entry);
        }
        at += length;
    }
}

pub async fn get(session: &mut Session, args: &GetFileArgs) -> Result<(), Failure> {
    let entry = session.client.file(&args.path).await?;
    let to = args.file.clone().unwrap_or_else(|| PathBuf::from(args.path.name()));
    if to.as_os_str() == "-" {
        return print(session, &args.path, &entry).await;
    }
    let to = if to.is_dir() { to.join(args.path.name()) } else { to };
    // The part that has come is beside it, named by its digest: the same command goes on with the same file only.
    let digest = entry.sha256.map(|sha256| sha256.to_string()).unwrap_or_default();
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", digest.get(..16).unwrap_or_default()));
    let beside = to.with_file_name(name);
    let mut part = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&beside);
    let part = part.as_mut().map_err(|error| of_file(&beside, error))?;
    fetch(session, &args.path, &entry, part).await?;
    let (found, _) = self::digest(part)?;
    if entry.sha256.is_some_and(|expected| expected != found) {
        fs::remove_file(&beside)?;
        let message = format!(
            "what came of `{}` has the digest {found}, and was removed: it was changed meanwhile",
            args.path
        );
        return Err(Failure::Io(io::Error::other(message)));
    }
    part.sync_all()?;
    fs::rename(&beside, &to).map_err(|error| of_file(&to, &error))?;
    match session.out.json {
        true => Ok(session.out.pretty(&entry)?),
        false => Ok(session.out.line(&format!(
            "{}: {}, SHA-256 {found}",
            to.display(),
            words::bytes(entry.size)
        ))?),
    }
}

async fn fetch(
    session: &Session,
    path: &ReadPath,
    entry: &FileEntry,
    part: &mut File,
) -> Result<(), Failure> {
    let at = part.metadata()?.len().min(entry.size);
    part.set_len(at)?;
    part.seek(SeekFrom::Start(at))?;
    let mut progress = Progress::new(entry.size);
    write_pieces(session, path, at..entry.size, part, |at| progress.show(at)).await?;
    progress.end();
    Ok(())
}

async fn print(session: &Session, path: &ReadPath, entry: &FileEntry) -> Result<(), Failure> {
    write_pieces(session, path, 0..entry.size, &mut io::stdout(), |_| {}).await?;
    Ok(io::stdout().flush()?)
}

/// Writes a range of a file, piece by piece. `on_piece` is told where each begins.
async fn write_pieces(
    session: &Session,
    path: &ReadPath,
    range: Range<u64>,
    to: &mut impl Write,
    mut on_piece: impl FnMut(u64),
) -> Result<(), Failure> {
    let mut at = range.start;
    while at < range.end {
        on_piece(at);
        let end = range.end.min(at + PIECE);
        to.write_all(&session.client.file_content(path, at..end).await?)?;
        at = end;
    }
    Ok(())
}

/// The digest of a whole file, and its size.
fn digest(file: &mut File) -> io::Result<(Sha256, u64)> {
    file.seek(SeekFrom::Start(0))?;
    let (mut context, mut size, mut buffer) = (Context::new(&SHA256), 0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                context.update(&buffer[..read]);
                size += read as u64;
            }
        }
    }
    Ok((Sha256::of_digest(context.finish()), size))
}

fn of_file(file: &Path, error: &io::Error) -> Failure {
    Failure::Io(io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// How far a file is, on a terminal, once that takes longer than a moment.
struct Progress {
    size: u64,
    at: u64,
    moved: bool,
    shown: Instant,
    on_terminal: bool,
    has_shown: bool,
}

impl Progress {
    fn new(size: u64) -> Self {
        let on_terminal = io::stderr().is_terminal();
        Progress { size, at: 0, moved: false, shown: Instant::now(), on_terminal, has_shown: false }
    }

    fn show(&mut self, at: u64) {
        self.moved |= at > self.at;
        self.at = at;
        if self.on_terminal && self.shown.elapsed() >= SHOW_EVERY {
            self.shown = Instant::now();
            self.has_shown = true;
            let (at, size) = (words::bytes(at), words::bytes(self.size));
            let _ = write!(io::stderr(), "\r{at} of {size}        ");
        }
    }

    /// True if it went on since this was asked last.
    fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.has_shown) {
            let _ = write!(io::stderr(), "\r{:40}\r", "");
        }
    }
}
