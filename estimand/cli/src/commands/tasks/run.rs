//! `run-task`: a task that behaves like a command that is run here.

use std::pin::pin;

use estimand_api::task::TaskEnding;
use estimand_api::task_record::TaskRecord;
use estimand_client::LogQuery;
use serde_json::Map;

use super::log_printer::LogPrinter;
use super::{Away, WAIT, document, new_key, over, show};
use crate::arguments::tasks::RunTaskArgs;
use crate::commands::Session;
use crate::output::failure::{Exit, Failure, hint_line};
use crate::output::remark;

/// The exit code of a command that took too long, as `timeout` has it.
const TIMED_OUT: u8 = 124;
/// That of one that did not run, as `env` and `docker` have it.
const NOT_RUN: u8 = 125;
/// To which the number of a signal is added, as shells do.
const SIGNALLED: u8 = 128;
const INTERRUPTED: u8 = SIGNALLED + 2;

pub async fn run_task(session: &mut Session, args: &RunTaskArgs) -> Result<(), Failure> {
    let document = document::of_options(Map::new(), &args.fields.0, &args.secrets, &args.cmd)?;
    let (task, hint) = session.client.submit_task(&document, &new_key()?).await?;
    if let Some(hint) = hint {
        remark(hint_line(&hint).trim_end());
    }
    let cancelled = stream(session, &task.id).await?;
    let task = over(session, &task.id).await?;
    match exit_code(&task, cancelled) {
        0 => Ok(()),
        code => {
            if !matches!(task.ending, Some(TaskEnding::Exit(_))) && !cancelled {
                remark(&format!("`{}` {}", task.id, show::outcome(&task)));
            }
            Err(Failure::Said(Exit::OfTask(code)))
        }
    }
}

/// Brings out what the task writes until it is over; true if it was cancelled.
async fn stream(session: &mut Session, id: &str) -> Result<bool, Failure> {
    // The first page says whether unfinished lines can be waited for.
    let mut query = LogQuery::default();
    let mut away = Away::default();
    let mut printer = LogPrinter::default();
    let mut cancelled = false;
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    loop {
        let page = tokio::select! {
            biased;
            asked = &mut interrupted => {
                asked?;
                if std::mem::replace(&mut cancelled, true) {
                    remark(&format!("`{id}` is still being ended"));
                    return Err(Failure::Said(Exit::OfTask(INTERRUPTED)));
                }
                interrupted.set(tokio::signal::ctrl_c());
                session.client.cancel_task(id).await?;
                continue;
            }
            page = session.client.task_log(id, &query) => page,
        };
        let Some(page) = away.pass(page).await? else { continue };
        printer.page(&mut session.out, &page)?;
        if page.over {
            printer.finish(&mut session.out)?;
            return Ok(cancelled);
        }
        (query.from, query.open, query.wait) = (page.next, page.open_revision, WAIT);
    }
}

fn exit_code(task: &TaskRecord, cancelled: bool) -> u8 {
    match &task.ending {
        Some(TaskEnding::Exit(code)) => u8::try_from(*code & 0xff).unwrap_or(1),
        _ if cancelled => INTERRUPTED,
        Some(TaskEnding::Signal(signal)) => SIGNALLED.saturating_add(u8::try_from(*signal).unwrap_or(0)),
        Some(TaskEnding::OutOfMemory) => SIGNALLED + 9,
        Some(TaskEnding::TimedOut) => TIMED_OUT,
        Some(TaskEnding::Cancelled) => INTERRUPTED,
        Some(
            TaskEnding::NodeLost
            | TaskEnding::ImageMissing
            | TaskEnding::InputMissing(_)
            | TaskEnding::NotStarted(_)
            | TaskEnding::Dependency(_)
            | TaskEnding::Promise(_),
        )
        | None => NOT_RUN,
    }
}
