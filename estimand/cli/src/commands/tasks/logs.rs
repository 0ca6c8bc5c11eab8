//! `tasks logs`: what a task wrote, and what it writes.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use estimand_api::task::TaskStream;
use estimand_api::task_record::TaskLogEntry;
use estimand_client::LogQuery;

use super::{Away, WAIT};
use crate::arguments::tasks::TaskLogsArgs;
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::harmless::visible;
use crate::output::{Output, remark};

pub async fn logs(session: &mut Session, args: &TaskLogsArgs) -> Result<(), Failure> {
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let wait = if args.follow { WAIT } else { Duration::ZERO };
    let mut query = LogQuery { from: args.from, stream: args.stream, limit: None, wait };
    let mut away = Away::default();
    loop {
        let page = tokio::select! {
            biased;
            asked = &mut interrupted, if args.follow => return Ok(asked?),
            page = session.client.task_log(&args.id, query) => page,
        };
        let page = match args.follow {
            false => page?,
            true => match away.pass(page).await? {
                Some(page) => page,
                None => continue,
            },
        };
        for line in &page.lines {
            match session.out.json {
                true => session.out.compact(line)?,
                false => write(&mut session.out, line)?,
            }
        }
        session.out.flush()?;
        if page.over || (!args.follow && page.lines.is_empty()) {
            return Ok(());
        }
        query.from = page.next;
    }
}

/// Writes a line where the task wrote it.
pub fn write(out: &mut Output, line: &TaskLogEntry) -> Result<(), Failure> {
    if line.dropped > 0 {
        out.flush()?;
        remark(&format!("({} lines were dropped here: more was written than is kept)", line.dropped));
        if line.text.is_empty() {
            return Ok(());
        }
    }
    let end = if line.partial { "" } else { "\n" };
    match line.stream {
        TaskStream::Stdout => {
            out.part(&line.text)?;
            out.end(end)?;
        }
        TaskStream::Stderr => {
            out.flush()?;
            let mut errors = io::stderr().lock();
            let text = if errors.is_terminal() { visible(&line.text) } else { line.text.as_str().into() };
            // Nobody listening there is no reason to fail.
            let _ = errors.write_all(format!("{text}{end}").as_bytes());
        }
    }
    Ok(())
}
