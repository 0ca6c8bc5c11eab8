//! `tasks progress`: how far tasks said they are.

use std::time::Duration;

use estimand_api::task_progress::TaskProgressReport;
use estimand_client::TaskEventQuery;

use super::Away;
use crate::arguments::tasks::TaskProgressArgs;
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Columns, line};
use crate::output::{Output, remark, words};

/// Reports that are asked for at once.
const PAGE: u32 = 1_000;
/// The longest wait for a report at a time; a task that ends meanwhile is noticed after that.
const WAIT: Duration = Duration::from_secs(2);
/// The column that is cut when a line is too long.
const VALUES: usize = 3;

pub async fn progress(session: &mut Session, args: &TaskProgressArgs) -> Result<(), Failure> {
    let mut query = TaskEventQuery {
        after: args.after,
        states: String::new(),
        labels: args.labels.clone(),
        user: args.user.clone(),
        id: args.id.clone(),
    };
    let followed = args.id.as_deref().filter(|id| args.follow && !id.ends_with('*'));
    let (mut columns, mut away) = (Columns::new(VALUES + 1, VALUES), Away::default());
    let mut count = 0;
    loop {
        let is_over = match followed {
            // Asked before its progress is read, so that all of that is there if it is over.
            Some(id) => match away.pass(session.client.task(id, Duration::ZERO).await).await? {
                Some(task) => task.is_over(),
                None => continue,
            },
            None => !args.follow,
        };
        let wait = if is_over { Duration::ZERO } else { WAIT };
        let read = session.client.task_progress(&query, PAGE, wait).await;
        let page = match args.follow {
            true => away.pass(read).await?,
            false => Some(read?),
        };
        let Some(page) = page else { continue };
        for report in &page.reports {
            print(&mut session.out, &mut columns, report)?;
        }
        session.out.flush()?;
        count += page.reports.len();
        query.after = Some(page.next);
        if is_over && page.next >= page.revision {
            break;
        }
    }
    if count == 0 && !session.out.json {
        remark(
            "no such task said how far it is: a line `estimand-progress {\"step\": 3, \"of\": 90}` says it",
        );
    }
    Ok(())
}

fn print(out: &mut Output, columns: &mut Columns, report: &TaskProgressReport) -> Result<(), Failure> {
    if out.json {
        return Ok(out.compact(report)?);
    }
    let TaskProgressReport { id, progress, .. } = report;
    let row = [
        Cell::from(words::instant(progress.at)),
        Cell::from(id.as_str()),
        Cell::from(progress.steps().unwrap_or_else(|| "-".to_owned())),
        Cell::from(words::values(progress)),
    ];
    columns.relax();
    columns.admit(&row);
    Ok(out.verbatim(&line(&row, &columns.fit(out.style.width), out.style.colours))?)
}
