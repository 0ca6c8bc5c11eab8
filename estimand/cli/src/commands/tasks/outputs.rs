//! `tasks outputs`: the files that were kept of a task.

use std::time::Duration;

use estimand_api::task_files::{LeftOut, TaskOutput, TaskOutputs};

use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

/// How much of a digest a table shows.
const SHOWN_DIGEST: usize = 12;

pub async fn outputs(session: &mut Session, id: &str) -> Result<(), Failure> {
    let task = session.client.task(id, Duration::ZERO).await?;
    let outputs = task.outputs.clone().unwrap_or_default();
    if session.out.json {
        return Ok(session.out.pretty(&outputs)?);
    }
    if !outputs.files.is_empty() {
        session.out.table(&table(&outputs))?;
        session.out.flush()?;
    }
    for LeftOut { path, reason } in &outputs.left_out {
        remark(&format!("`{path}` is not kept: {reason}"));
    }
    if outputs.more_left_out > 0 {
        remark(&format!("{} more are not kept", outputs.more_left_out));
    }
    if task.is_array() {
        remark("it is an array: each of its tasks has outputs of its own");
    } else if outputs == TaskOutputs::default() {
        remark(match (task.document.contains_key("outputs"), task.is_over()) {
            (false, _) => "no files of it are to be kept; `--output PATH` of `tasks submit` says which are",
            (true, false) => "nothing is kept yet: it is not over",
            (true, true) => "nothing is kept: it never began",
        });
    }
    Ok(())
}

fn table(outputs: &TaskOutputs) -> Table {
    let mut table = Table::new(["FILE", "SIZE", "SHA-256"], 0);
    for TaskOutput { file, size, sha256, .. } in &outputs.files {
        let digest = sha256.to_string();
        let digest = digest.get(..SHOWN_DIGEST).unwrap_or_default();
        table.row([Cell::from(file.as_str()), Cell::from(words::bytes(*size)), Cell::from(digest)]);
    }
    table
}
