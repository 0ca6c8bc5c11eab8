//! Fetches the inputs of an attempt: each in pieces into a file beside the task's folder, and into it when it is whole and
//! has the digest that the file service says.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use estimand_api::file::FileEntry;
use estimand_api::registration::Sha256;
use estimand_api::task::TaskEnding;
use estimand_api::task_files::TaskInput;

use super::super::work_folder::WorkFolder;
use super::super::{Attempt, lock};
use super::way::Way;
use super::{CarryError, INPUTS_ARE_HERE, PIECE, is_wanted, storing};

/// Fetches all that is missing, and marks the attempt when nothing is. One whose inputs cannot be had is ended.
pub async fn fetch(way: &mut Way) -> Result<(), CarryError> {
    let Some(work) = way.attempt.work() else { return Ok(()) };
    let inputs = work.inputs.clone();
    if let Err(reason) = way.attempt.runner.clone() {
        return end(way, TaskEnding::NotStarted(reason)).await;
    }
    way.blocking(|tasks, attempt| {
        if attempt.folder.instant("preparing").is_none() {
            attempt.folder.write_instant("preparing", tasks.now_micros())?;
            tasks.tell_now(&attempt.folder.name());
        }
        io::Result::Ok(())
    })
    .await??;
    let mut found = Vec::new();
    for (place, input) in inputs.iter().enumerate() {
        match find(way, place, input).await? {
            Ok(entry) => found.push(entry),
            Err(ending) => return end(way, ending).await,
        }
    }
    let (all, most) = (found.iter().map(|entry| entry.size).sum::<u64>(), way.tasks.options.max_file_bytes);
    if all > most {
        let reason =
            format!("its inputs have {all} bytes, and may have {most} on this node (`--task-files`)");
        return end(way, TaskEnding::NotStarted(reason)).await;
    }
    for (place, (input, entry)) in inputs.into_iter().zip(found).enumerate() {
        if !is_wanted(&way.attempt.folder) {
            return Ok(());
        }
        fetch_one(way, place, input, entry).await?;
    }
    let name = way.attempt.folder.name();
    way.blocking(|tasks, attempt| {
        attempt.folder.mark(INPUTS_ARE_HERE)?;
        lock(&tasks.to_keep).insert(attempt.folder.name());
        tasks.keeping.ask();
        io::Result::Ok(())
    })
    .await??;
    tracing::info!(task = name, bytes = all, "the inputs of a task are here");
    Ok(())
}

async fn end(way: &Way, ending: TaskEnding) -> Result<(), CarryError> {
    Ok(way.blocking(|tasks, attempt| tasks.end_without_inputs(attempt, ending)).await??)
}

/// The file as it is now, or the end of the attempt if there is none.
async fn find(
    way: &mut Way,
    place: usize,
    input: &TaskInput,
) -> Result<Result<FileEntry, TaskEnding>, CarryError> {
    let (client, files) = way.files().await?;
    let grant = files.inputs.get(place).map(String::as_str).unwrap_or_default();
    match client.granted(grant).file(&input.file).await {
        Ok(entry) => Ok(Ok(entry)),
        Err(error) => match error.status() {
            Some(404) => Ok(Err(TaskEnding::InputMissing(input.file.to_string()))),
            Some(400 | 409) => {
                Ok(Err(TaskEnding::NotStarted(format!("its input `{}` cannot be had: {error}", input.file))))
            }
            _ => Err(error.into()),
        },
    }
}

async fn fetch_one(
    way: &mut Way,
    place: usize,
    input: TaskInput,
    entry: FileEntry,
) -> Result<(), CarryError> {
    let digest = entry.sha256.ok_or_else(|| CarryError::Changes(input.file.to_string()))?;
    let at = input.place.clone();
    if way.blocking(move |_, attempt| is_there(attempt, at.as_str(), entry.size, digest)).await? {
        return Ok(());
    }
    let mut offset = way.blocking(move |_, attempt| begin(attempt, place, digest, entry.size)).await??;
    while offset < entry.size {
        if !is_wanted(&way.attempt.folder) {
            return Err(CarryError::NotHere);
        }
        let (client, files) = way.files().await?;
        let grant = files.inputs.get(place).map(String::as_str).unwrap_or_default();
        let end = entry.size.min(offset + PIECE);
        let piece = client.granted(grant).content(&input.file, offset..end).await;
        let piece = match piece {
            // It has become shorter.
            Err(error) if error.status() == Some(416) => {
                return Err(CarryError::Changes(input.file.to_string()));
            }
            piece => piece?,
        };
        way.blocking(move |tasks, attempt| {
            let folder = tasks.options.folder.as_path();
            tasks.options.reserve.check(&[folder]).map_err(CarryError::NoRoom)?;
            Ok::<_, CarryError>(add(attempt, place, digest, offset, &piece)?)
        })
        .await??;
        offset = end;
    }
    let size = entry.size;
    let is_right = way
        .blocking(move |_, attempt| {
            let part = part(attempt, place, digest);
            if storing::digest(&mut File::open(&part)?, size)?.0 != digest {
                // It was changed at the file service meanwhile: another digest is asked for.
                fs::remove_file(&part)?;
                return Ok(false);
            }
            let folder = WorkFolder::open(&attempt.folder.work())?;
            folder.put(&part, &input.place, &attempt.owner())?;
            io::Result::Ok(true)
        })
        .await??;
    if is_right { Ok(()) } else { Err(CarryError::Changes(entry.path)) }
}

/// True if the file lies in the task's folder already, as it should be.
fn is_there(attempt: &Attempt, place: &str, size: u64, digest: Sha256) -> bool {
    let open = |folder: WorkFolder| folder.file(place, &attempt.owner());
    let there = WorkFolder::open(&attempt.folder.work()).and_then(open);
    there.is_ok_and(|mut file| {
        file.metadata().is_ok_and(|data| data.len() == size)
            && storing::digest(&mut file, size).is_ok_and(|(found, _)| found == digest)
    })
}

/// The file into which an input comes. Another content of it has another one.
fn part(attempt: &Attempt, place: usize, digest: Sha256) -> PathBuf {
    attempt.folder.file(&format!("input.{place}.{digest}"))
}

/// How much of it is here.
fn begin(attempt: &Attempt, place: usize, digest: Sha256, size: u64) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let part = options.open(part(attempt, place, digest))?;
    let here = part.metadata()?.len();
    if here > size {
        part.set_len(0)?;
        return Ok(0);
    }
    Ok(here)
}

fn add(attempt: &Attempt, place: usize, digest: Sha256, offset: u64, piece: &Bytes) -> io::Result<()> {
    let mut part = OpenOptions::new().write(true).open(part(attempt, place, digest))?;
    part.seek(SeekFrom::Start(offset))?;
    part.write_all(piece)
}
