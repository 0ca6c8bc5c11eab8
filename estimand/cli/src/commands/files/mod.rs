//! `files`: those that the file service keeps.

mod shares;
mod transfer;

use estimand_api::file::{FileEntry, FilePath};
use estimand_api::file_share::ReadPath;
use estimand_client::FileQuery;

use super::Session;
use crate::arguments::files::{FileArgs, FilesAction, FilesArgs, ListFilesArgs, RemoveFilesArgs};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

/// How many are asked for at a time.
const PAGE: u32 = 1_000;

pub async fn files(session: &mut Session, args: &FilesArgs) -> Result<(), Failure> {
    match &args.action {
        Some(FilesAction::Put(args)) => transfer::put(session, &args.own).await,
        Some(FilesAction::Get(args)) => transfer::get(session, &args.own).await,
        Some(FilesAction::List(args)) => list(session, &args.own).await,
        Some(FilesAction::Show(args)) => show(session, &args.own).await,
        Some(FilesAction::Remove(args)) => remove(session, &args.own).await,
        Some(FilesAction::Share(args)) => shares::share(session, &args.own).await,
        Some(FilesAction::Shares(_)) => shares::list(session).await,
        Some(FilesAction::Unshare(args)) => shares::unshare(session, &args.own).await,
        None => list(session, &ListFilesArgs::default()).await,
    }
}

async fn list(session: &mut Session, args: &ListFilesArgs) -> Result<(), Failure> {
    let files = all(session, args.folder.clone(), args.recursive, args.contains.clone()).await?;
    if session.out.json {
        return Ok(session.out.pretty(&files)?);
    }
    if files.is_empty() {
        remark("there are no such files; `estimand files put` sends one");
        return Ok(());
    }
    let mut table = Table::new(["FILE", "SIZE", "CHANGED"], 0);
    for file in &files {
        let (path, size) = match file.is_folder {
            true => (format!("{}/", file.path), "-".to_owned()),
            false => (file.path.clone(), words::bytes(file.size)),
        };
        table.row([Cell::from(path), Cell::from(size), Cell::from(words::instant(file.modified_at))]);
    }
    Ok(session.out.table(&table)?)
}

/// All files of a selection, page by page.
async fn all(
    session: &Session,
    folder: Option<ReadPath>,
    recursive: bool,
    contains: Option<String>,
) -> Result<Vec<FileEntry>, Failure> {
    let recursive = recursive || contains.is_some();
    let mut query = FileQuery { folder, recursive, contains, after: None, limit: Some(PAGE) };
    let mut files = Vec::new();
    loop {
        let page = session.client.files(&query).await?;
        files.extend(page.files);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(files),
        }
    }
}

async fn show(session: &mut Session, args: &FileArgs) -> Result<(), Failure> {
    let file = session.client.file(&args.path).await?;
    if session.out.json {
        return Ok(session.out.pretty(&file)?);
    }
    session.out.line(&file.path)?;
    let sha256 = file.sha256.map(|sha256| sha256.to_string()).unwrap_or_default();
    Ok(session.out.facts(&[
        ("size".to_owned(), Cell::from(format!("{} ({} bytes)", words::bytes(file.size), file.size))),
        ("changed".to_owned(), Cell::from(words::instant(file.modified_at))),
        ("sha256".to_owned(), Cell::from(sha256)),
    ])?)
}

async fn remove(session: &mut Session, args: &RemoveFilesArgs) -> Result<(), Failure> {
    for path in &args.paths {
        if args.recursive {
            empty(session, path).await?;
        }
        session.client.remove_file(path).await?;
        if !session.out.json {
            session.out.line(&format!("removed `{path}`"))?;
        }
    }
    Ok(())
}

/// Removes all that is in a folder, the innermost first.
async fn empty(session: &Session, folder: &FilePath) -> Result<(), Failure> {
    match session.client.file(&folder.clone().into()).await {
        // It is a folder.
        Err(error) if error.status() == Some(409) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Ok(()),
    }
    for file in all(session, Some(folder.clone().into()), true, None).await?.iter().rev() {
        let Ok(path) = file.path.parse::<FilePath>() else { continue };
        session.client.remove_file(&path).await?;
    }
    Ok(())
}
