//! A watch of tasks: server-sent events, each of which is an event of the feed.
//!
//! A watcher holds the revision that it has seen and nothing else, so one that never reads costs a socket. When the feed
//! does not reach back to where it is, it is told so, and its stream ends.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::problem::Problem;
use estimand_api::selector::Selector;
use estimand_web::parameters::whole;
use estimand_web::{
    Failure, KEEP_ALIVE, Principal, Query, STILL_HERE, event_stream, held, last_event_id, push_event,
};
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::selection::Selection;
use crate::TaskService;
use crate::feed::MAX_WATCHERS;
use crate::scope::Scope;

/// As many events are rendered at once.
const CHUNK: usize = 64;

/// Watches what happens to tasks.
///
/// While the service starts, a watch is held until the tasks are loaded; only after half a minute it is refused.
///
/// Events: `start` (`revision`: the newest there is, after which the watch begins), `change` (an event of the feed, as
/// `GET /api/tasks/events` has it), `settled` (`revision`: all events up to it have been sent) and `gone` (`revision`: what
/// follows that is not kept any more, because the client read too slowly; nothing follows). The id of an event is its
/// revision; `Last-Event-ID` resumes after it. If that is too long ago the answer is 410.
#[utoipa::path(
    get,
    path = "/api/tasks/watch",
    tag = "tasks",
    params(
        ("after" = Option<u64>, Query, description = "Begin with the events after this revision; if absent, with those to come"),
        ("state" = Option<String>, Query, description = "Only those that lead to these states, with commas between them"),
        ("labels" = Option<Selector>, Query, description = "Only those of tasks with these labels"),
        ("user" = Option<String>, Query, description = "Only those of this user's tasks"),
        ("id" = Option<String>, Query, description = "Only those of this task, or with `*` at its end of those whose ids begin so"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event seen; goes before `after`"),
    ),
    responses(
        (status = 200, description = "Events, without end", content_type = "text/event-stream", body = String),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 410, description = "Events after that revision are not kept any more, or there never was such a revision", body = Problem),
        (status = 503, description = "Not loaded yet, or too many watch", body = Problem),
    )
)]
pub async fn watch(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::with_lists(
        req.query_string(),
        &["after", "state", "labels", "user", "id"],
        &["state", "labels"],
    )?;
    let (state, labels) = (query.get("state"), query.get("labels"));
    let selection = Selection::parse(Scope::of(&caller), state, labels, query.get("user"), query.get("id"))?;
    let after = query.get("after").map(|given| whole("after", Some(given), 0, u64::MAX)).transpose()?;
    let resumed = last_event_id(&req)?.or(after);
    held(&service.0.0.stop, service.shared().loading()).await;
    let feed = &service.shared().feed;
    service.shared().table.loaded(|_| ())?;
    let newest = feed.newest();
    let seen = resumed.unwrap_or(newest);
    if seen > newest || seen < feed.base() {
        return Err(super::events::gone("events", seen, feed.base(), newest).into());
    }
    let Some(seat) = feed.seat() else {
        return Err(Problem::unavailable(format!("{MAX_WATCHERS} watch already"), 5).into());
    };
    let service = service.0.clone();
    let start = resumed.is_none().then_some(newest);
    let watcher = Watcher {
        service,
        _seat: seat,
        selection,
        seen,
        start,
        told: seen,
        sent: Instant::now(),
        over: false,
    };
    Ok(event_stream(unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((bytes, watcher))
    })))
}

struct Watcher {
    service: TaskService,
    _seat: OwnedSemaphorePermit,
    selection: Selection,
    /// All events up to this revision were looked at.
    seen: u64,
    /// The client is to be told where it begins.
    start: Option<u64>,
    /// The client knows that it has everything up to this revision.
    told: u64,
    sent: Instant,
    over: bool,
}

impl Watcher {
    /// The next bytes to send; none when the stream ends.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(revision) = self.start.take() {
            return Some(self.word("start", revision));
        }
        loop {
            if self.over || self.service.is_stopping() {
                return None;
            }
            let mut bell =
                self.service.shared().listen(self.selection.task_id(), &self.service.shared().feed);
            let newest = self.service.shared().feed.newest();
            if self.seen != newest {
                match self.take().await {
                    Ok(bytes) if bytes.is_empty() => continue,
                    Ok(bytes) => return Some(bytes),
                    Err(problem) => {
                        tracing::debug!(%problem, "a watch of tasks ends");
                        self.over = true;
                        // Otherwise its client may come again, and go on where it is.
                        return (problem.status == 410).then(|| self.word("gone", self.seen));
                    }
                }
            }
            let due = self.sent + KEEP_ALIVE;
            if tokio::time::timeout_at(due, self.service.rung(&mut bell.receiver)).await.is_err() {
                self.sent = Instant::now();
                // Later events rang for others.
                let quiet_until = self.service.shared().feed.newest_if_quiet(&bell);
                self.seen = quiet_until.unwrap_or(self.seen);
                // One that chooses few events hears how far it is, so that it need not begin far behind.
                return Some(match self.told < self.seen {
                    true => self.word("settled", self.seen),
                    false => STILL_HERE,
                });
            }
        }
    }

    /// The next events of the feed; nothing if none is chosen.
    async fn take(&mut self) -> Result<Bytes, Problem> {
        let (events, next) = self.service.events(self.selection.reader(), self.seen, CHUNK).await?;
        let mut out = Vec::new();
        for event in events.iter().filter(|event| self.selection.has(event)) {
            let data = serde_json::to_vec(event).unwrap_or_default();
            push_event(&mut out, "change", &data, event.revision);
            self.told = event.revision;
        }
        self.seen = next;
        if !out.is_empty() {
            self.sent = Instant::now();
            if next == self.service.shared().feed.newest() {
                push_word(&mut out, "settled", next);
                self.told = next;
            }
        }
        Ok(Bytes::from(out))
    }

    fn word(&mut self, name: &str, revision: u64) -> Bytes {
        let mut out = Vec::new();
        push_word(&mut out, name, revision);
        (self.told, self.sent) = (revision, Instant::now());
        Bytes::from(out)
    }
}

fn push_word(out: &mut Vec<u8>, name: &str, revision: u64) {
    push_event(out, name, json!({ "revision": revision }).to_string().as_bytes(), revision);
}
