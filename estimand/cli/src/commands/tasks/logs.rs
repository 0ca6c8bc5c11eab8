//! `tasks logs`: what a task wrote, and what it writes.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use estimand_api::task::TaskStream;
use estimand_api::task_record::TaskLogEntry;
use estimand_client::{LogQuery, TaskQuery};

use super::{Away, WAIT};
use crate::arguments::tasks::TaskLogsArgs;
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::harmless::visible;
use crate::output::{Output, remark};

/// How many tasks of an array are asked for at a time.
const MEMBERS: u32 = 1_000;

pub async fn logs(session: &mut Session, args: &TaskLogsArgs) -> Result<(), Failure> {
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let all = async {
        let task = session.client.task(&args.id, Duration::ZERO).await?;
        if !task.is_array() {
            return log(session, &args.id, args).await;
        }
        for id in members(session, &args.id).await? {
            log(session, &id, args).await?;
        }
        Ok(())
    };
    tokio::select! {
        biased;
        asked = &mut interrupted, if args.follow => Ok(asked?),
        done = all => done,
    }
}

/// The tasks of an array, in their order.
async fn members(session: &Session, array: &str) -> Result<Vec<String>, Failure> {
    let mut query = TaskQuery { array: Some(array.to_owned()), limit: Some(MEMBERS), ..TaskQuery::default() };
    let mut ids = Vec::new();
    loop {
        let page = session.client.tasks(&query).await?;
        ids.extend(page.tasks.into_iter().map(|task| task.id));
        if page.next.is_none() {
            ids.reverse();
            return Ok(ids);
        }
        query.before = page.next;
    }
}

/// The log of one task.
async fn log(session: &mut Session, id: &str, args: &TaskLogsArgs) -> Result<(), Failure> {
    let wait = if args.follow { WAIT } else { Duration::ZERO };
    let TaskLogsArgs { from, stream, attempt, .. } = *args;
    let (since, until, contains) = (args.since.clone(), args.until.clone(), args.grep.clone());
    let mut query =
        LogQuery { from, stream, attempt, since, until, contains, tail: args.tail, limit: None, wait };
    let mut away = Away::default();
    loop {
        let page = session.client.task_log(id, &query).await;
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
        let is_all = page.lines.is_empty() && page.next == query.from;
        if page.over || (!args.follow && (is_all || query.tail.is_some())) {
            return Ok(());
        }
        (query.from, query.tail) = (page.next, None);
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
