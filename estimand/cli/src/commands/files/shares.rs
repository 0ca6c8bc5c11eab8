//! `files share`, `files shares` and `files unshare`: folders that users give others to read.

use estimand_api::file_share::{Readers, ShareRequest};
use estimand_api::names::UserName;

use crate::arguments::files::{ShareFolderArgs, UnshareFolderArgs};
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::remark;
use crate::output::table::{Cell, Table};

pub async fn share(session: &mut Session, args: &ShareFolderArgs) -> Result<(), Failure> {
    let readers = Readers { all: args.all, with: args.with.clone() };
    let shared = session.client.share_folder(&ShareRequest { folder: args.folder.clone(), readers }).await?;
    if session.out.json {
        return Ok(session.out.pretty(&shared)?);
    }
    let (folder, path, readers) = (&args.folder, &shared.path, named(&shared.readers));
    Ok(session.out.line(&format!("`{folder}` can be read by {readers}, as `{path}`"))?)
}

pub async fn list(session: &mut Session) -> Result<(), Failure> {
    let shares = session.client.folder_shares().await?;
    if session.out.json {
        return Ok(session.out.pretty(&shares)?);
    }
    if shares.own.is_empty() && shares.others.is_empty() {
        remark("no folders are shared; `estimand files share` gives others one to read");
        return Ok(());
    }
    let mut table = Table::new(["FOLDER", "OF", "READ BY"], 0);
    for shared in &shares.own {
        let owner = shared.owner.as_str().to_owned();
        table.row([
            Cell::from(shared.path.to_string()),
            Cell::from(owner),
            Cell::from(named(&shared.readers)),
        ]);
    }
    for shared in &shares.others {
        let owner = shared.owner.as_str().to_owned();
        table.row([Cell::from(shared.path.to_string()), Cell::from(owner), Cell::from("you".to_owned())]);
    }
    Ok(session.out.table(&table)?)
}

pub async fn unshare(session: &mut Session, args: &UnshareFolderArgs) -> Result<(), Failure> {
    session.client.unshare_folder(&args.folder).await?;
    if session.out.json {
        return Ok(());
    }
    Ok(session.out.line(&format!("`{}` is not shared any more", args.folder))?)
}

fn named(readers: &Readers) -> String {
    match readers.all {
        true => "all users".to_owned(),
        false => readers.with.iter().map(UserName::as_str).collect::<Vec<_>>().join(", "),
    }
}
