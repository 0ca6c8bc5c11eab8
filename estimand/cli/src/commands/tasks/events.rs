//! `tasks events` and `tasks watch`: what happened to tasks, and what happens.

use std::time::Duration;

use estimand_api::task_event::{DELETED, TaskEvent};
use estimand_client::TaskEventQuery;
use serde_json::Value;

use crate::arguments::tasks::TaskEventsArgs;
use crate::commands::Session;
use crate::commands::watch::tell_silence;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Columns, Tone, line};
use crate::output::{Output, remark, words};

/// How many events are asked for at once.
const PAGE: u32 = 1_000;
/// The column that is cut when a line is too long.
const WHAT: usize = 4;

pub async fn events(session: &mut Session, args: &TaskEventsArgs) -> Result<(), Failure> {
    let (count, _) = past(session, query(args), &mut Printer::new()).await?;
    if count == 0 && !session.out.json {
        remark("nothing of that has happened, or it is not kept any more");
    }
    Ok(())
}

pub async fn watch(session: &mut Session, args: &TaskEventsArgs) -> Result<(), Failure> {
    let (mut query, mut printer) = (query(args), Printer::new());
    let one = args.id.as_deref().filter(|id| !id.ends_with('*'));
    if let Some(id) = one {
        // Its end is seen whatever is chosen.
        if !query.states.is_empty() {
            query.states.push_str(",SUCCEEDED,FAILED,CANCELLED,DELETED");
        }
        // One that is not there is told from one to which nothing happens. Asked before what has happened is read, so that
        // its end is in that if it is over.
        let is_over = session.client.task(id, Duration::ZERO).await?.is_over();
        let (_, next) = past(session, query.clone(), &mut printer).await?;
        if is_over || printer.is_over {
            return Ok(());
        }
        query.after = Some(next);
    } else {
        // A watch waits for a service that is away. That there was none from the beginning is better said at once.
        session
            .client
            .task_events(&TaskEventQuery { after: None, ..query.clone() }, 1, Duration::ZERO)
            .await?;
    }
    let mut watch = session.client.watch_tasks(query).on_silence(tell_silence);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let event = tokio::select! {
            biased;
            asked = &mut interrupted => return Ok(asked?),
            event = watch.next() => event?,
        };
        printer.print(&mut session.out, &event)?;
        session.out.flush()?;
        if one.is_some() && printer.is_over {
            return Ok(());
        }
    }
}

fn query(args: &TaskEventsArgs) -> TaskEventQuery {
    TaskEventQuery {
        after: args.after,
        states: args.state.clone(),
        labels: args.labels.clone(),
        user: args.user.clone(),
        id: args.id.clone(),
    }
}

/// Prints what has happened so far; how many events that were, and the revision up to which they reach.
async fn past(
    session: &mut Session,
    mut query: TaskEventQuery,
    printer: &mut Printer,
) -> Result<(usize, u64), Failure> {
    let mut count = 0;
    loop {
        let page = session.client.task_events(&query, PAGE, Duration::ZERO).await?;
        for event in &page.events {
            printer.print(&mut session.out, event)?;
        }
        count += page.events.len();
        if page.next >= page.revision {
            session.out.flush()?;
            return Ok((count, page.next));
        }
        query.after = Some(page.next);
    }
}

/// Prints events, a line each.
struct Printer {
    columns: Columns,
    /// The last event says that nothing more happens to its task.
    is_over: bool,
}

impl Printer {
    fn new() -> Self {
        Printer { columns: Columns::new(5, WHAT), is_over: false }
    }

    fn print(&mut self, out: &mut Output, event: &TaskEvent) -> Result<(), Failure> {
        self.is_over = is_final(event);
        if out.json {
            return Ok(out.compact(event)?);
        }
        let row = row(event);
        self.columns.relax();
        self.columns.admit(&row);
        Ok(out.verbatim(&line(&row, &self.columns.fit(out.style.width), out.style.colours))?)
    }
}

fn is_final(event: &TaskEvent) -> bool {
    matches!(event.to.as_str(), "SUCCEEDED" | "FAILED" | "CANCELLED" | DELETED)
}

fn row(event: &TaskEvent) -> [Cell; 5] {
    let state = match event.to.as_str() {
        "FAILED" | "LOST" => Cell::toned(&event.to, Tone::Bad),
        to => Cell::from(to),
    };
    let cause = event.cause.get("event").and_then(Value::as_str).unwrap_or_default();
    let ending = event.ending.as_ref().filter(|_| cause == "end").map(|ending| format!(": {ending}"));
    [
        Cell::from(words::instant(event.at)),
        Cell::from(event.id.as_str()),
        state,
        Cell::from(event.node.clone().unwrap_or_else(|| "-".to_owned())),
        Cell::from(format!("{cause}{}", ending.unwrap_or_default())),
    ]
}
