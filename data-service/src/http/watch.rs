//! A watch: server-sent events, first a snapshot, then each change.
//!
//! A watcher holds the revision it has seen and nothing else. It takes the changes after it from the log;
//! when the log does not reach back that far, or a binding among its names leads elsewhere, it gets a fresh
//! snapshot and is told why. So the changes after a snapshot are of the same target, even if names were bound
//! again meanwhile. Bytes are made only when the connection takes them, so one that never reads costs a
//! socket; a snapshot is of bytes that all readers share, or counts against the budget of large responses.

use std::sync::Arc;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::json::push_string;
use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;
use estimand_api::problem::Problem;
use estimand_api::selector::Selector;
use estimand_runtime::Stop;
use estimand_web::{
    Failure, KEEP_ALIVE, Query, ResponseBudget, ResponseReservation, STILL_HERE, Slices, event_stream,
    last_event_id, push_event_id,
};
use futures_util::stream::unfold;
use tokio::time::Instant;

use crate::DataService;
use crate::core::entry::push_number;
use crate::core::log::{Change, Interest, MAX_WATCHERS, Seat, Since};
use crate::core::snapshot::{Snapshot, Values};
use crate::core::view::View;
use crate::http::names::{AskedNames, Names};
use crate::http::node_labels::NodeChoice;
use crate::http::read::{field_of, node_of, nodes_of};
use crate::http::rendered::joined;

/// How many changes are taken from the log at once.
const CHUNK: usize = 512;
/// As many bytes of changes, and one change more, are rendered at once.
const PIECE_BYTES: usize = 32 * 1024;

/// Watches names.
///
/// Events: `snapshot` (`revision`, `reason`, `values`), `change` (a value), `delete` (`dataName`, `nodeName`,
/// `revision`), `settled` (`revision`: all changes up to it have been sent, so that nothing which was written together
/// with the changes before it is still to come). The id of an event is its revision, and of several events of one
/// revision, a name's and that of a name bound to it, only the last has an id. `Last-Event-ID` resumes after it, or, if
/// that is too long ago, begins with a snapshot whose reason is `gone`. When a watched name is bound to something else, a snapshot
/// whose reason is `rebound` says all that it serves from then on.
#[utoipa::path(
    get,
    path = "/api/data/watch",
    tag = "data",
    params(
        ("dataName" = Names, Query, description = "One name, several with commas, or `*`"),
        ("dataNode" = Option<NodeName>, Query, description = "Only what concerns this node; also spelt `nodeName`"),
        ("nodes" = Option<Selector>, Query, description = "Only what concerns nodes with these labels, e.g. `zone=a,gpu`. When other nodes have them, a snapshot follows whose reason is `labels`"),
        ("field" = Option<Pointer>, Query, description = "Only this part of each value, a JSON pointer such as `/value`. A value without it is not there: a change to it is a `delete`"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event seen"),
    ),
    responses(
        (status = 200, description = "Events, without end", content_type = "text/event-stream", body = String),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet, or too many watch", body = Problem),
    )
)]
pub async fn watch(
    req: HttpRequest,
    service: ThinData<DataService>,
    budget: ThinData<ResponseBudget>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["dataName", "dataNode", "nodeName", "nodes", "field"])?;
    let names = AskedNames::parse(query.get("dataName"))?;
    let node = node_of(query.get("dataNode"), query.get("nodeName"))?;
    let node = node.map(NodeName::parse).transpose().map_err(|e| Problem::invalid_field(e.at("dataNode")))?;
    let field = field_of(query.get("field"))?;
    let resume = last_event_id(&req)?;
    service.snapshot()?;
    let choice = nodes_of(&service, query.get("nodes"))?;
    let seat = service.log().and_then(|log| log.join());
    let Some(seat) = seat else {
        return Err(Problem::unavailable(format!("{MAX_WATCHERS} watch already"), 5).into());
    };
    let mut watcher = Watcher {
        service: service.0.clone(),
        budget: budget.0.clone(),
        stop: service.stop(),
        seat,
        names,
        node,
        choice,
        field,
        seen: resume,
        due: resume.is_none().then_some("start"),
        sent: Instant::now(),
        waiting: None,
    };
    // A snapshot for which there is no room is refused; a watch that is under way can only end.
    watcher.begin()?;
    let events = unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((bytes, watcher))
    });
    Ok(event_stream(events))
}

/// The part of a watch that its client is to be sent.
enum News {
    None,
    /// It is put where the next bytes are taken from.
    Snapshot,
    Changes(Bytes),
}

struct Watcher {
    service: DataService,
    budget: ResponseBudget,
    stop: Stop,
    seat: Seat,
    names: AskedNames,
    /// None stands for all.
    node: Option<NodeName>,
    /// The nodes with the labels that are asked for; none stands for all.
    choice: Option<NodeChoice>,
    /// The part of each value that is watched; none stands for all of it.
    field: Option<Pointer>,
    seen: Option<u64>,
    /// A snapshot is due, for this reason.
    due: Option<&'static str>,
    /// The rest of a snapshot, and its part of the budget.
    waiting: Option<(Slices, ResponseReservation)>,
    /// When something was sent last. A change need not concern this watcher, so it is not when it was woken.
    sent: Instant,
}

impl Watcher {
    /// Makes the first snapshot, if it is due.
    fn begin(&mut self) -> Result<(), Problem> {
        let Some(reason) = self.due.take() else { return Ok(()) };
        let snapshot = self.service.snapshot()?;
        // Interest is declared before looking, as ever.
        self.seat.set_interest(self.interest(&snapshot));
        self.snapshot(&snapshot, reason)
    }

    /// The next bytes to send; none when the service ends, or has no room for a snapshot.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.stop.is_requested() {
                return None;
            }
            if let Some(slice) = self.waiting.as_mut().and_then(|(slices, _)| slices.next()) {
                self.sent = Instant::now();
                return Some(slice);
            }
            self.waiting = None;
            let snapshot = self.service.snapshot().ok()?;
            if self.choice.as_mut().is_some_and(NodeChoice::update) {
                self.due = Some("labels");
            }
            // Interest is declared before looking, so that changes in between wake this watcher.
            self.seat.set_interest(self.interest(&snapshot));
            match self.take(&snapshot)? {
                News::Snapshot => continue,
                News::Changes(bytes) => {
                    self.sent = Instant::now();
                    return Some(bytes);
                }
                News::None => {}
            }
            drop(snapshot);
            tokio::select! {
                () = self.seat.woken() => {}
                () = relabelled(self.choice.as_mut()) => {}
                () = self.stop.requested() => return None,
                () = tokio::time::sleep_until(self.sent + KEEP_ALIVE) => {
                    self.sent = Instant::now();
                    return Some(STILL_HERE);
                }
            }
        }
    }

    fn interest(&self, snapshot: &Snapshot) -> Interest {
        let Some(mut names) = self.names.plain() else { return Interest::Everything };
        let resolved: Vec<_> = names.iter().map(|name| snapshot.resolve(name).clone()).collect();
        names.extend(resolved);
        names.sort();
        names.dedup();
        Interest::Names(names)
    }

    /// The next part to send. None if the watch has to end: there is no room for a snapshot.
    fn take(&mut self, snapshot: &Arc<Snapshot>) -> Option<News> {
        if let Some(reason) = self.due.take() {
            return self.news_of(snapshot, reason);
        }
        loop {
            let seen = self.seen.unwrap_or_default();
            let changes = match self.service.log()?.since(seen, snapshot.revision, CHUNK) {
                Since::Gone => return self.news_of(snapshot, "gone"),
                Since::Changes(changes) if changes.is_empty() => return Some(News::None),
                Since::Changes(changes) => changes,
            };
            // Looked at after the changes were taken, this snapshot contains them. If an unseen change bound
            // a name, changes in between may be of another target than the one that it has now.
            let snapshot = self.service.snapshot().ok()?;
            if changes.iter().any(|change| self.is_rebinding(change)) || self.is_rebound(&snapshot, seen) {
                return self.news_of(&snapshot, "rebound");
            }
            // As much as a connection takes at once; the others come when it has room again.
            let mut out = Vec::new();
            for change in changes {
                self.push(&mut out, &change, &snapshot);
                self.seen = Some(change.revision());
                if out.len() > PIECE_BYTES {
                    break;
                }
            }
            if !out.is_empty() {
                if let Some(last) = self.seen.filter(|last| *last == snapshot.revision) {
                    push_settled(&mut out, last);
                }
                return Some(News::Changes(Bytes::from(out)));
            }
        }
    }

    fn news_of(&mut self, snapshot: &Snapshot, reason: &str) -> Option<News> {
        self.snapshot(snapshot, reason).ok().map(|()| News::Snapshot)
    }

    /// True if values of the node are watched.
    fn concerns(&self, node: &NodeName) -> bool {
        self.node.as_ref().is_none_or(|watched| watched == node)
            && self.choice.as_ref().is_none_or(|choice| choice.nodes().contains(node))
    }

    fn is_rebinding(&self, change: &Change) -> bool {
        matches!(change, Change::Rebound { name, .. } if self.is_watched(name))
    }

    /// True if a name has been bound after a revision.
    fn is_rebound(&self, snapshot: &Snapshot, seen: u64) -> bool {
        let mut later = snapshot.bindings().iter().filter(|(_, bound)| bound.revision > seen);
        later.any(|(name, _)| self.is_watched(name))
    }

    /// True if a binding of that name concerns this watcher; of all names only those that have values of their own are
    /// watched.
    fn is_watched(&self, name: &DataName) -> bool {
        !matches!(self.names, AskedNames::All) && self.names.contains(name)
    }

    /// Puts everything, at the revision of a snapshot, before what is sent next. The changes in the log up to there are
    /// part of it. Whole tables are shared with all who read them.
    fn snapshot(&mut self, snapshot: &Snapshot, reason: &str) -> Result<(), Problem> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"event: snapshot\ndata: {\"revision\":");
        push_number(&mut out, snapshot.revision);
        out.extend_from_slice(b",\"reason\":\"");
        out.extend_from_slice(reason.as_bytes());
        out.extend_from_slice(b"\",\"values\":[");
        let tables = self.names.of(snapshot).into_iter().filter_map(|name| snapshot.table(name));
        let whole = self.node.is_none() && self.choice.is_none() && self.field.is_none();
        let mut end = b"]}\n".to_vec();
        push_event_id(&mut end, snapshot.revision);
        let items: Vec<Bytes> = match whole {
            true => tables.map(Values::items).collect(),
            false => vec![self.items(tables)],
        };
        let mut pieces = joined(b"", items.into_iter(), b"");
        pieces.insert(0, Bytes::from(out));
        pieces.push(Bytes::from(end));
        let reservation = self.budget.reserve(&pieces)?;
        self.waiting = Some((Slices::new(pieces), reservation));
        self.seen = Some(snapshot.revision);
        Ok(())
    }

    /// The values that are watched, rendered for this watcher alone.
    fn items<'s>(&self, tables: impl Iterator<Item = Values<'s>>) -> Bytes {
        let mut out = Vec::new();
        for table in tables {
            let (one, all) = match &self.node {
                Some(node) => (table.shown(node.as_str()), None),
                None => (None, Some(table.all())),
            };
            let shown = one.into_iter().chain(all.into_iter().flatten());
            let shown = shown.filter(|shown| self.concerns(&shown.facts().node));
            for shown in shown.filter_map(|shown| shown.narrow(self.field.as_ref())) {
                if !out.is_empty() {
                    out.push(b',');
                }
                shown.push_json(&mut out);
            }
        }
        Bytes::from(out)
    }

    /// Appends a change, once under each of the watched names that it concerns. Only the last of these events has an id,
    /// so that all of them come again if the connection breaks between two.
    fn push(&self, out: &mut Vec<u8>, change: &Change, snapshot: &Snapshot) {
        let (node, revision) = match change {
            Change::Put(entry) => (&entry.facts.node, entry.facts.revision),
            Change::Removed { node, revision, .. } => (node, *revision),
            Change::Rebound { .. } => return,
        };
        if !self.concerns(node) {
            return;
        }
        let before = out.len();
        if matches!(self.names, AskedNames::All) {
            self.push_as(out, change, (node, revision), View::default());
        } else {
            for name in self.names.shown_by(change.name(), snapshot) {
                if out.len() > before {
                    out.push(b'\n');
                }
                self.push_as(out, change, (node, revision), snapshot.view(name));
            }
        }
        if out.len() > before {
            push_event_id(out, revision);
        }
    }

    /// Appends the event of a change under one name, without an id and without the empty line that ends it.
    fn push_as(
        &self,
        out: &mut Vec<u8>,
        change: &Change,
        (node, revision): (&NodeName, u64),
        view: View<'_>,
    ) {
        let shown = match change {
            Change::Put(entry) => {
                view.show(entry.clone()).and_then(|shown| shown.narrow(self.field.as_ref()))
            }
            _ => None,
        };
        match shown {
            Some(shown) => {
                out.extend_from_slice(b"event: change\ndata: ");
                shown.push_json(out);
            }
            // A value without the part that is watched is as good as gone, whether it was there before or not.
            None => {
                out.extend_from_slice(b"event: delete\ndata: {\"dataName\":");
                push_string(out, view.alias.unwrap_or(change.name()).as_str());
                out.extend_from_slice(b",\"nodeName\":");
                push_string(out, node.as_str());
                out.extend_from_slice(b",\"revision\":");
                push_number(out, revision);
                out.push(b'}');
            }
        }
        out.push(b'\n');
    }
}

/// Waits until labels have changed, if there is a choice by labels.
async fn relabelled(choice: Option<&mut NodeChoice>) {
    match choice {
        Some(choice) => choice.changed().await,
        None => std::future::pending().await,
    }
}

/// All that was written together has been sent; a client that waits for that need not guess. Clients of an earlier
/// version know it by the comment.
fn push_settled(out: &mut Vec<u8>, revision: u64) {
    out.extend_from_slice(b": settled\nevent: settled\ndata: {\"revision\":");
    push_number(out, revision);
    out.extend_from_slice(b"}\n");
    push_event_id(out, revision);
}
