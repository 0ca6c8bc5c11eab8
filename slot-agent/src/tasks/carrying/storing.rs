//! Stores the outputs of an attempt that has ended: each file in pieces, with the digest that it has here. What the file
//! service has of it already is not sent again.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use estimand_api::registration::Sha256;
use estimand_api::task_files::{TaskOutput, TaskOutputs};
use estimand_client::FileToSend;
use estimand_runtime::BackOff;
use ring::digest::{Context, SHA256};
use tokio::time::sleep;

use super::super::record::End;
use super::super::work_folder::WorkFolder;
use super::super::{Attempt, Tasks};
use super::way::Way;
use super::{CarryError, GIVE_UP_AFTER, PIECE};

/// How often a file is tried to which the file service says no, as it does while a request that broke off holds it; and
/// the pauses between.
const TRIES: u32 = 9;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
const BUFFER: usize = 1 << 20;

/// Stores all that is to be kept, and notes it.
pub async fn store(way: &mut Way, end: &End) -> Result<(), CarryError> {
    let error = match store_all(way).await {
        Ok(outputs) => {
            let (name, files) = (way.attempt.folder.name(), outputs.files.len());
            tracing::info!(task = name, files, "the outputs of a task are stored");
            return note(way, outputs).await;
        }
        Err(error) => error,
    };
    let waited = way.tasks.now_micros().saturating_sub(end.at);
    if matches!(error, CarryError::NotHere)
        || waited < i64::try_from(GIVE_UP_AFTER.as_micros()).unwrap_or(i64::MAX)
    {
        return Err(error);
    }
    // Its end has been waited for long enough.
    let mut outputs = TaskOutputs::default();
    for pattern in way.attempt.work().iter().flat_map(|work| &work.outputs) {
        outputs.leave_out(pattern.to_string(), format!("it could not be stored within an hour: {error}"));
    }
    note(way, outputs).await
}

async fn note(way: &Way, outputs: TaskOutputs) -> Result<(), CarryError> {
    Ok(way.blocking(move |tasks, attempt| tasks.note_outputs(attempt, &outputs)).await??)
}

async fn store_all(way: &mut Way) -> Result<TaskOutputs, CarryError> {
    let (found, mut outputs) = way.blocking(|_, attempt| find(attempt)).await?;
    let mut left = way.tasks.options.max_file_bytes;
    for path in found {
        match store_one(way, &path, left).await? {
            Ok(output) => {
                left -= output.size;
                outputs.files.push(output);
            }
            Err(reason) => outputs.leave_out(path, reason),
        }
    }
    Ok(outputs)
}

fn find(attempt: &Attempt) -> (Vec<String>, TaskOutputs) {
    let mut outputs = TaskOutputs::default();
    let patterns = attempt.work().map(|work| work.outputs.as_slice()).unwrap_or_default();
    let found = match WorkFolder::open(&attempt.folder.work()) {
        Ok(folder) => folder.find(patterns, &mut outputs),
        Err(error) => {
            outputs.leave_out(".", format!("the task's folder cannot be read: {error}"));
            Vec::new()
        }
    };
    (found, outputs)
}

/// A file that was stored, or why it is not.
async fn store_one(way: &mut Way, path: &str, left: u64) -> Result<Result<TaskOutput, String>, CarryError> {
    let folder = way.files().await?.1.folder.clone();
    let target = match folder.join(path) {
        Ok(target) => target,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let (mut tried, mut pauses) = (0, BackOff::new(FIRST_PAUSE, LONGEST_PAUSE));
    loop {
        let own = path.to_owned();
        let looked_at = way.blocking(move |tasks, attempt| look_at(tasks, attempt, &own, left)).await?;
        let (file, size, sha256) = match looked_at {
            Ok(looked_at) => looked_at,
            Err(reason) => return Ok(Err(reason)),
        };
        let to = FileToSend { path: target.clone(), size, sha256 };
        tried += 1;
        let error = match send(way, &to, Arc::new(file)).await {
            Ok(()) => {
                let (path, file) = (path.to_owned(), target.to_string());
                return Ok(Ok(TaskOutput { path, file, size, sha256 }));
            }
            Err(error) => error,
        };
        let is_of_file = matches!(error, CarryError::Changes(_)) || matches!(error.status(), Some(400 | 409));
        match (is_of_file, tried < TRIES) {
            (true, true) => sleep(pauses.pause()).await,
            (true, false) => return Ok(Err(error.to_string())),
            (false, _) => return Err(error),
        }
    }
}

/// The file with its size and digest, or why it is not to be kept.
fn look_at(tasks: &Tasks, attempt: &Attempt, path: &str, left: u64) -> Result<(File, u64, Sha256), String> {
    let unreadable = |error: io::Error| format!("it cannot be read: {error}");
    let folder = WorkFolder::open(&attempt.folder.work()).map_err(unreadable)?;
    let mut file = folder.file(path, &attempt.owner()).map_err(unreadable)?;
    let data = file.metadata().map_err(unreadable)?;
    let too_large = |size: u64| {
        let most = tasks.options.max_file_bytes;
        format!(
            "it has {size} bytes, and of {most} that outputs may have on this node (`--task-files`) {left} are left"
        )
    };
    if data.len() > left {
        return Err(too_large(data.len()));
    }
    let (sha256, size) = digest(&mut file, left).map_err(unreadable)?;
    if size > left { Err(too_large(size)) } else { Ok((file, size, sha256)) }
}

/// The digest of a file, and its size; of one that is longer than `most` only so far that this is seen.
pub fn digest(file: &mut File, most: u64) -> io::Result<(Sha256, u64)> {
    file.seek(SeekFrom::Start(0))?;
    let (mut context, mut size, mut buffer) = (Context::new(&SHA256), 0, vec![0; BUFFER]);
    while size <= most {
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

async fn send(way: &mut Way, to: &FileToSend, file: Arc<File>) -> Result<(), CarryError> {
    let mut at = 0;
    if to.size > PIECE {
        let (client, files) = way.files().await?;
        let granted = client.granted(files.outputs.as_deref().unwrap_or_default());
        match granted.file(&to.path).await {
            Ok(there) if there.size == to.size && there.sha256 == Some(to.sha256) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.status() == Some(404) => {}
            Err(error) => return Err(error.into()),
        }
        at = granted.upload_progress(to).await?.received;
    }
    loop {
        // Elsewhere another attempt may write the same files.
        if !way.tasks.is_assigned(&way.attempt) {
            return Err(CarryError::NotHere);
        }
        let (file, most) = (Arc::clone(&file), PIECE.min(to.size.saturating_sub(at)));
        let piece = way.blocking(move |_, _| read(&file, at, most)).await??;
        if (piece.len() as u64) < most {
            return Err(CarryError::Changes(to.path.to_string()));
        }
        let (client, files) = way.files().await?;
        let grant = files.outputs.as_deref().unwrap_or_default();
        at += piece.len() as u64;
        let offset = at - most;
        if client.granted(grant).send(to, offset, piece).await?.is_some() {
            return Ok(());
        }
    }
}

fn read(file: &File, at: u64, most: u64) -> io::Result<Bytes> {
    let mut piece = vec![0; usize::try_from(most).unwrap_or(usize::MAX)];
    let mut read = 0;
    while read < piece.len() {
        match file.read_at(&mut piece[read..], at + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    piece.truncate(read);
    Ok(Bytes::from(piece))
}
