//! A watch: server-sent events, first a snapshot, then each change.
//!
//! A watcher holds the revision it has seen and nothing else. It takes what came after it from the log; when
//! the log does not reach back that far, or a binding among its names leads elsewhere, it gets a fresh
//! snapshot and is told why. Bytes are made only when the connection takes them, so one that never reads
//! costs a socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::json::push_string;
use estimand_api::names::DataName;
use estimand_api::problem::{FieldError, Problem};
use estimand_service::{Failure, Query, Stop};
use futures_util::stream::unfold;

use crate::DataService;
use crate::entry::push_number;
use crate::log::{Change, Interest, MAX_WATCHERS, Seat, Since};
use crate::read::names_of;
use crate::snapshot::Snapshot;

/// A comment is sent after so long without an event, so that both ends notice a dead connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many changes are taken from the log at once.
const CHUNK: usize = 512;

/// Watches names.
///
/// Events: `snapshot` (`revision`, `reason`, `values`), `change` (a value), `delete` (`dataName`, `nodeName`,
/// `revision`). The id of an event is its revision; `Last-Event-ID` resumes after it, or, if that is too long
/// ago, begins with a snapshot whose reason is `gone`.
#[utoipa::path(
    get,
    path = "/api/data/watch",
    tag = "data",
    params(
        ("dataName" = String, Query, description = "One name, several with commas, or `*`"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event seen"),
    ),
    responses(
        (status = 200, description = "Events, without end", content_type = "text/event-stream", body = String),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet, or too many watch", body = Problem),
    )
)]
pub async fn watch(req: HttpRequest, service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["dataName"])?;
    let names = names_of(query.get("dataName"))?;
    let resume = resume_from(&req)?;
    service.snapshot()?;
    let seat = service.log().and_then(|log| log.join());
    let Some(seat) = seat else {
        return Err(Problem::unavailable(format!("{MAX_WATCHERS} watch already"), 5).into());
    };
    let watcher =
        Watcher { service: service.0.clone(), stop: service.stop(), seat, names, seen: resume, due: None };
    let watcher = match resume {
        None => Watcher { due: Some("start"), ..watcher },
        Some(_) => watcher,
    };
    let events = unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), watcher))
    });
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, HeaderValue::from_static("text/event-stream")))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-cache")))
        .streaming(Box::pin(events)))
}

fn resume_from(req: &HttpRequest) -> Result<Option<u64>, Problem> {
    let Some(id) = req.headers().get("Last-Event-ID") else { return Ok(None) };
    let text = id.to_str().unwrap_or("?");
    // A browser that has seen no id yet sends none or an empty one.
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let error = FieldError::new("Last-Event-ID", "is not the id of an event").given(text);
        Problem::invalid_field(error.expected("a revision, as the events carry it"))
    })
}

struct Watcher {
    service: DataService,
    stop: Stop,
    seat: Seat,
    /// None stands for all.
    names: Vec<DataName>,
    seen: Option<u64>,
    /// A snapshot is due, for this reason.
    due: Option<&'static str>,
}

impl Watcher {
    /// The next bytes to send; none when the service ends.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.stop.is_requested() {
                return None;
            }
            let snapshot = self.service.snapshot().ok()?;
            // Interest is declared before looking, so that what happens in between wakes this watcher.
            self.seat.set_interest(self.interest(&snapshot));
            if let Some(bytes) = self.take(&snapshot) {
                return Some(bytes);
            }
            tokio::select! {
                () = self.seat.woken() => {}
                () = self.stop.requested() => return None,
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }

    fn interest(&self, snapshot: &Snapshot) -> Interest {
        if self.names.is_empty() {
            return Interest::Everything;
        }
        let mut names = self.names.clone();
        names.extend(self.names.iter().map(|name| snapshot.resolve(name).clone()));
        names.sort();
        names.dedup();
        Interest::Names(names)
    }

    /// What there is to send now.
    fn take(&mut self, snapshot: &Arc<Snapshot>) -> Option<Bytes> {
        if let Some(reason) = self.due.take() {
            return Some(self.snapshot(snapshot, reason));
        }
        loop {
            let seen = self.seen.unwrap_or_default();
            let changes = match self.service.log()?.since(seen, snapshot.revision, CHUNK) {
                Since::Gone => return Some(self.snapshot(snapshot, "gone")),
                Since::Changes(changes) => changes,
            };
            let last = changes.last()?.revision();
            if changes.iter().any(|change| self.is_rebinding(change)) {
                return Some(self.snapshot(snapshot, "rebound"));
            }
            let mut out = Vec::new();
            changes.iter().for_each(|change| self.push(&mut out, change, snapshot));
            self.seen = Some(last);
            if !out.is_empty() {
                return Some(Bytes::from(out));
            }
        }
    }

    fn is_rebinding(&self, change: &Change) -> bool {
        matches!(change, Change::Rebound { name, .. } if self.names.contains(name))
    }

    /// Everything, at the revision of a snapshot. What the log has up to there is part of it.
    fn snapshot(&mut self, snapshot: &Snapshot, reason: &str) -> Bytes {
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(b"event: snapshot\ndata: {\"revision\":");
        push_number(&mut out, snapshot.revision);
        out.extend_from_slice(b",\"reason\":\"");
        out.extend_from_slice(reason.as_bytes());
        out.extend_from_slice(b"\",\"values\":[");
        let all = snapshot.own_names();
        let names = if self.names.is_empty() { all } else { self.names.iter().collect() };
        let tables = names.into_iter().filter_map(|name| snapshot.table(name.as_str()));
        let mut first = true;
        for (table, entry) in tables.flat_map(|table| table.entries().map(move |entry| (table, entry))) {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            table.push_json(&mut out, &entry);
        }
        out.extend_from_slice(b"]}\n");
        push_id(&mut out, snapshot.revision);
        self.seen = Some(snapshot.revision);
        Bytes::from(out)
    }

    /// Appends a change, once under each of the watched names that it concerns.
    fn push(&self, out: &mut Vec<u8>, change: &Change, snapshot: &Snapshot) {
        if self.names.is_empty() {
            return push_event(out, change, None);
        }
        for name in &self.names {
            if name == change.name() {
                push_event(out, change, None);
            } else if snapshot.resolve(name) == change.name() {
                push_event(out, change, Some(name));
            }
        }
    }
}

fn push_event(out: &mut Vec<u8>, change: &Change, alias: Option<&DataName>) {
    match change {
        Change::Put(entry) => {
            out.extend_from_slice(b"event: change\ndata: ");
            entry.push_json(out, alias);
        }
        Change::Removed { name, node, revision } => {
            out.extend_from_slice(b"event: delete\ndata: {\"dataName\":");
            push_string(out, alias.unwrap_or(name).as_str());
            out.extend_from_slice(b",\"nodeName\":");
            push_string(out, node.as_str());
            out.extend_from_slice(b",\"revision\":");
            push_number(out, *revision);
            out.push(b'}');
        }
        Change::Rebound { .. } => return,
    }
    out.push(b'\n');
    push_id(out, change.revision());
}

fn push_id(out: &mut Vec<u8>, revision: u64) {
    out.extend_from_slice(b"id: ");
    push_number(out, revision);
    out.extend_from_slice(b"\n\n");
}
