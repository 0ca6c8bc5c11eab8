//! `tasks` and `run-task`: pieces of work that are run once, on the node that suits best.

mod document;
mod events;
mod forward;
mod log_printer;
mod logs;
mod outputs;
mod progress;
mod run;
mod show;
mod usage;

use std::time::Duration;

use estimand_api::task_record::TaskRecord;
use estimand_api::task_stop::StopRequest;

use super::{Session, new_key};
use crate::arguments::tasks::{
    CancelTasksArgs, SomeTasksArgs, SubmitArgs, TasksAction, TasksArgs, YieldTasksArgs,
};
use crate::output::failure::{Exit, Failure, hint_line};
use crate::output::{remark, words};

pub use run::run_task;

/// How long the service waits at a time.
const WAIT: Duration = Duration::from_secs(10);

pub async fn tasks(session: &mut Session, args: &TasksArgs) -> Result<(), Failure> {
    match &args.action {
        Some(TasksAction::Submit(args)) => submit(session, &args.own).await,
        Some(TasksAction::List(args)) => show::list(session, &args.own).await,
        Some(TasksAction::Show(args)) => show::show(session, &args.own.id).await,
        Some(TasksAction::Outputs(args)) => outputs::outputs(session, &args.own.id).await,
        Some(TasksAction::Logs(args)) => logs::logs(session, &args.own).await,
        Some(TasksAction::Events(args)) => events::events(session, &args.own).await,
        Some(TasksAction::Progress(args)) => progress::progress(session, &args.own).await,
        Some(TasksAction::Forward(args)) => forward::forward(session, &args.own).await,
        Some(TasksAction::Watch(args)) => events::watch(session, &args.own).await,
        Some(TasksAction::Cancel(args)) => cancel(session, &args.own).await,
        Some(TasksAction::Yield(args)) => yield_tasks(session, &args.own).await,
        Some(TasksAction::Wait(args)) => wait(session, &args.own).await,
        Some(TasksAction::Usage(args)) => usage::usage(session, &args.own).await,
        Some(TasksAction::Delete(args)) => delete(session, &args.own).await,
        None => {
            show::list(session, &crate::arguments::tasks::ListTasksArgs { limit: 50, ..Default::default() })
                .await
        }
    }
}

async fn submit(session: &mut Session, args: &SubmitArgs) -> Result<(), Failure> {
    let document = document::of_submission(args)?;
    let key = match &args.key {
        Some(key) => key.clone(),
        None => new_key()?,
    };
    let (task, hint) = session.client.submit_task(&document, &key).await?;
    if session.out.json {
        return Ok(session.out.pretty(&task)?);
    }
    let tasks = task.states.values().sum::<u32>();
    let of =
        if task.is_array() { format!(", {}", words::count_u64(tasks.into(), "task")) } else { String::new() };
    session.out.line(&format!("submitted `{}`{of}", task.id))?;
    session.out.flush()?;
    if let Some(hint) = hint {
        remark(hint_line(&hint).trim_end());
    }
    Ok(())
}

async fn cancel(session: &mut Session, args: &CancelTasksArgs) -> Result<(), Failure> {
    let request = StopRequest { grace: args.grace, checkpoint: args.checkpoint.then_some(true) };
    for id in &args.tasks.ids {
        let task = session.client.cancel_task_so(id, request).await?;
        if session.out.json {
            session.out.pretty(&task)?;
            continue;
        }
        let line = match task.state.as_str() {
            "CANCELLED" => format!("`{id}` is cancelled"),
            _ if task.is_over() => format!("`{id}` was over already: {}", show::outcome(&task)),
            _ => format!("`{id}` is being ended"),
        };
        session.out.line(&line)?;
    }
    Ok(())
}

async fn yield_tasks(session: &mut Session, args: &YieldTasksArgs) -> Result<(), Failure> {
    let request = StopRequest { grace: args.grace, checkpoint: None };
    for id in &args.tasks.ids {
        let (task, hint) = session.client.yield_task(id, request).await?;
        if session.out.json {
            session.out.pretty(&task)?;
            continue;
        }
        let line = match hint {
            Some(_) => format!("`{id}` waits already"),
            None => format!("`{id}` is being ended, and goes back to the queue"),
        };
        session.out.line(&line)?;
    }
    Ok(())
}

async fn wait(session: &mut Session, args: &SomeTasksArgs) -> Result<(), Failure> {
    let mut failed = false;
    for id in &args.ids {
        let task = over(session, id).await?;
        failed |= task.state != "SUCCEEDED";
        match session.out.json {
            true => session.out.compact(&task)?,
            false => session.out.line(&format!("`{id}` {}", show::outcome(&task)))?,
        }
        session.out.flush()?;
    }
    if failed { Err(Failure::Said(Exit::Failed)) } else { Ok(()) }
}

async fn delete(session: &mut Session, args: &SomeTasksArgs) -> Result<(), Failure> {
    for id in &args.ids {
        session.client.delete_task(id).await?;
        if !session.out.json {
            session.out.line(&format!("deleted `{id}` and its log"))?;
        }
    }
    Ok(())
}

/// The task when it is over. A service that is away meanwhile is waited for.
async fn over(session: &Session, id: &str) -> Result<TaskRecord, Failure> {
    let mut away = Away::default();
    loop {
        match away.pass(session.client.task(id, WAIT).await).await? {
            Some(task) if task.is_over() => return Ok(task),
            _ => {}
        }
    }
}

/// Waits for a service that is away, and says so once.
#[derive(Default)]
struct Away(bool);

impl Away {
    /// The answer; none if the service is away.
    async fn pass<T>(&mut self, answer: Result<T, estimand_client::Error>) -> Result<Option<T>, Failure> {
        match answer.map_err(Failure::from) {
            Ok(answer) => {
                self.0 = false;
                Ok(Some(answer))
            }
            Err(failure) if failure.exit() == Exit::Unreachable => {
                if !std::mem::replace(&mut self.0, true) {
                    remark(&format!("{failure}; waiting for it"));
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}
