//! `tasks logs`: what a task wrote, and what it writes.

use std::time::Duration;

use estimand_api::task_log::LogStream;
use estimand_client::{LogQuery, TaskQuery};

use super::log_printer::LogPrinter;
use super::{Away, WAIT};
use crate::arguments::tasks::TaskLogsArgs;
use crate::commands::Session;
use crate::output::failure::Failure;

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
    let TaskLogsArgs { from, stream, attempt, .. } = *args;
    let (since, until, contains) = (args.since.clone(), args.until.clone(), args.grep.clone());
    let single = stream.and_then(LogStream::single);
    let chosen = LogQuery { from, stream: single, attempt, since, until, contains, ..LogQuery::default() };
    let mut query = LogQuery { tail: args.tail, ..chosen };
    let mut away = Away::default();
    let mut printer = LogPrinter::new(stream);
    loop {
        let page = session.client.task_log(id, &query).await;
        let page = match args.follow {
            false => page?,
            true => match away.pass(page).await? {
                Some(page) => page,
                None => continue,
            },
        };
        if session.out.json {
            page.lines.iter().try_for_each(|line| session.out.compact(line))?;
            session.out.flush()?;
        } else {
            printer.page(&mut session.out, &page)?;
        }
        let is_all = page.lines.is_empty() && page.next == query.from;
        if page.over || (!args.follow && (is_all || query.tail.is_some())) {
            return printer.finish(&mut session.out);
        }
        (query.from, query.tail) = (page.next, None);
        if args.follow {
            // The first page says whether unfinished lines can be waited for.
            (query.open, query.wait) = (page.open_revision, WAIT);
        }
    }
}
