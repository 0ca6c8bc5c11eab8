//! The events of tasks, in pages.

use std::sync::Arc;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::Problem;
use estimand_api::selector::Selector;
use estimand_api::task_event::{TaskEvent, TaskEventPage};
use estimand_web::{Failure, Principal, Query};

use super::pages::{Page, PageQuery, REVISION};
use super::selection::Selection;
use crate::TaskService;
use crate::feed::Since;
use crate::scope::Scope;
use crate::storage::rows;

/// Events of all tasks, the oldest first, in pages.
///
/// Each event has a `revision`, one more than the event before, and `next` goes on exactly where a page ends. Events are
/// kept for a while, those of deleted tasks too.
#[utoipa::path(
    get,
    path = "/api/tasks/events",
    tag = "tasks",
    params(
        ("after" = Option<u64>, Query, description = "Only events after this revision; if absent, all that are kept"),
        ("state" = Option<String>, Query, description = "Only those that lead to these states, with commas between them, such as `SUCCEEDED,FAILED,DELETED`"),
        ("labels" = Option<Selector>, Query, description = "Only those of tasks with these labels"),
        ("user" = Option<String>, Query, description = "Only those of this user's tasks"),
        ("id" = Option<String>, Query, description = "Only those of this task, or with `*` at its end of those whose ids begin so"),
        ("limit" = Option<u64>, Query, description = "At most so many; 200 if absent, and never more than 1,000"),
        ("waitMs" = Option<u64>, Query, description = "How many milliseconds to wait for an event, if there is none yet; 0 if absent, and never longer than 60,000"),
    ),
    responses(
        (status = 200, description = "A page of events", body = TaskEventPage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 410, description = "Events after that revision are not kept any more, or there never was such a revision", body = Problem),
        (status = 503, description = "Not loaded yet, or the database does not answer", body = Problem),
    )
)]
pub async fn events(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::with_lists(
        req.query_string(),
        &["after", "state", "labels", "user", "id", "limit", "waitMs"],
        &["state", "labels"],
    )?;
    let (state, labels) = (query.get("state"), query.get("labels"));
    let selection = Selection::parse(Scope::of(&caller), state, labels, query.get("user"), query.get("id"))?;
    let asked = PageQuery::parse(&query)?;
    let read = async |after, most| service.events(selection.reader(), after, most).await;
    let chosen = |event: &TaskEvent| selection.has(event).then(|| event.clone());
    let page = service.page(&service.shared().feed, &asked, selection.task_id(), read, chosen).await?;
    let Page { entries, next, revision } = page;
    let page = TaskEventPage { events: entries, next, revision };
    Ok(HttpResponse::Ok().insert_header((REVISION.clone(), revision)).json(page))
}

impl TaskService {
    /// Up to `most` events after a revision, read for a user if there is one, and the revision up to which they reach.
    pub(crate) async fn events(
        &self,
        user: Option<&str>,
        after: u64,
        most: usize,
    ) -> Result<(Vec<Arc<TaskEvent>>, u64), Problem> {
        match self.shared().feed.since(after, most) {
            Since::Events(events) => {
                let next = events.last().map_or(after, |event| event.revision);
                Ok((events, next))
            }
            Since::Gone { base, newest } => Err(gone("events", after, base, newest)),
            Since::Stored => {
                let limit = rows::column(most as u64);
                let after_column = rows::column(after);
                // The thread that reads them makes events of them, too: there may be very many, and those who ask are many.
                let read = self.read(user, move |connection| {
                    let read = connection.task_feed(after_column, limit)?;
                    let first = read.first().map(|row| rows::known(row.revision));
                    let last = read.last().map(|row| rows::known(row.revision));
                    Ok((first.zip(last), read.iter().filter_map(rows::feed_event).collect()))
                });
                let (ends, mut events): (Option<(u64, u64)>, Vec<TaskEvent>) = read.await?;
                // They may have gone while they were looked for.
                let Some((_, next)) = ends.filter(|(first, _)| *first == after + 1) else {
                    let feed = &self.shared().feed;
                    return Err(gone("events", after, feed.base().max(after + 1), feed.newest()));
                };
                self.complete(&mut events);
                Ok((events.into_iter().map(Arc::new).collect(), next))
            }
        }
    }

    /// Events from before there was a feed have no labels and no user; their tasks have.
    fn complete(&self, events: &mut [TaskEvent]) {
        self.shared().table.look(|table| {
            for event in events.iter_mut().filter(|event| event.user.is_none() && event.labels.is_empty()) {
                let number = crate::core::queue::TaskNumber(event.number);
                if let Some(task) = table.get(number) {
                    (event.user, event.labels) = (task.document.user.clone(), task.document.labels.clone());
                }
            }
        });
    }
}

/// The entries of a feed after a revision are not there.
pub fn gone(entries: &str, after: u64, base: u64, newest: u64) -> Problem {
    Problem::gone(match after > newest {
        true => format!(
            "there is no revision {after}, the newest is {newest}: another store was used then; read the tasks anew"
        ),
        false => format!(
            "{entries} up to revision {base} are not kept any more; read the tasks anew, and go on after revision {newest}"
        ),
    })
}
