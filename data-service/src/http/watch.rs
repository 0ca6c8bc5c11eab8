//! A watch: server-sent events, first a snapshot, then each change.
//!
//! A watcher holds the revision it has seen and nothing else. It takes the changes after it from the log;
//! when the log does not reach back that far, or a binding among its names leads elsewhere, it gets a fresh
//! snapshot and is told why. So the changes after a snapshot are of the same target, even if names were bound
//! again meanwhile. Bytes are made only when the connection takes them, so one that never reads costs a
//! socket; a snapshot is of bytes that all readers share, or counts against the budget of large responses. Changes are
//! rendered once for all who watch the same and have seen as much.

use std::pin::Pin;
use std::sync::Arc;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::condition::Condition;
use estimand_api::names::DataName;
use estimand_api::pointer::Pointer;
use estimand_api::problem::Problem;
use estimand_api::selector::ReadSelector;
use estimand_runtime::Stop;
use estimand_web::{
    Failure, KEEP_ALIVE, Query, ResponseBudget, ResponseReservation, STILL_HERE, Slices, User, event_stream,
    held, last_event_id, push_event_id,
};
use futures_util::stream::unfold;
use tokio::time::{Instant, Sleep, sleep};

use crate::DataService;
use crate::core::log::{Change, MAX_WATCHERS, Seat, Since};
use crate::core::rendering::push_number;
use crate::core::shared_pieces::Piece;
use crate::core::snapshot::{Bound, Snapshot};
use crate::http::asked::{NodeNames, condition_of, field_of, named_nodes, selector_of};
use crate::http::names::{AskedNames, Names};
use crate::http::node_labels::NodeChoice;
use crate::http::rendered::joined;
use crate::http::watched::{Watched, push_settled};

const PARAMETERS: [&str; 6] = ["dataName", "dataNode", "nodeName", "nodes", "where", "field"];
const LISTS: [&str; 5] = ["dataName", "dataNode", "nodeName", "nodes", "where"];
/// How many changes are taken from the log at once.
const CHUNK: usize = 512;
/// As many bytes of changes, and one change more, are rendered at once.
const PIECE_BYTES: usize = 32 * 1024;

/// Watches names.
///
/// While the service starts, a watch is held until the values are loaded, and the nodes' labels where `nodes` chooses by
/// them; only after half a minute it is refused.
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
        ("dataNode" = Option<NodeNames>, Query, description = "Only what concerns this node, or several with commas; also spelt `nodeName`"),
        ("nodes" = Option<ReadSelector>, Query, description = "Only what concerns nodes with these labels, e.g. `zone=a,gpu`. When other nodes have them, a snapshot follows whose reason is `labels`"),
        ("where" = Option<Condition>, Query, description = "Only values for which this holds, e.g. `value>0.9`. A value for which it does not is not there: a change to it is a `delete`"),
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
    let query = Query::with_lists(req.query_string(), &PARAMETERS, &LISTS)?;
    let names = AskedNames::parse(query.get("dataName"))?;
    let named = named_nodes(query.get("dataNode"), query.get("nodeName"))?;
    let named = named.map(|named| named.into_iter().map(str::to_owned).collect());
    let condition = condition_of(query.get("where"))?;
    let field = field_of(query.get("field"))?;
    let resume = last_event_id(&req)?;
    let selector = query.get("nodes").map(selector_of).transpose()?;
    let loading = async {
        service.loaded().await;
        if selector.is_some() {
            service.labels().told().await;
        }
    };
    held(&service.stop(), loading).await;
    service.snapshot()?;
    let choice = selector.map(|selector| service.labels().choose(selector)).transpose()?;
    let seat = service.log().and_then(|log| log.join());
    let Some(seat) = seat else {
        return Err(Problem::unavailable(format!("{MAX_WATCHERS} watch already"), 5).into());
    };
    let mut watcher = Watcher {
        service: service.0.clone(),
        budget: budget.0.clone(),
        user: User::of(&req),
        stop: service.stop(),
        seat,
        shared_as: choice.is_none().then(|| req.query_string().into()),
        watched: Watched { names, named, choice, condition, field },
        bindings: None,
        seen: resume,
        due: resume.is_none().then_some("start"),
        sent: Instant::now(),
        alive: Box::pin(sleep(KEEP_ALIVE)),
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
    user: Option<User>,
    stop: Stop,
    seat: Seat,
    watched: Watched,
    /// Says what is watched, so that others who watch the same are told the same; none if it may change.
    shared_as: Option<Arc<str>>,
    /// The bindings by which the interest was declared; none if it was not.
    bindings: Option<imbl::OrdMap<DataName, Bound>>,
    seen: Option<u64>,
    /// A snapshot is due, for this reason.
    due: Option<&'static str>,
    /// The rest of a snapshot, and its part of the budget.
    waiting: Option<(Slices, ResponseReservation)>,
    /// When something was sent last. A change need not concern this watcher, so it is not when it was woken.
    sent: Instant,
    /// Ends when something may have to be sent to stay alive.
    alive: Pin<Box<Sleep>>,
}

impl Watcher {
    /// Makes the first snapshot, if it is due.
    fn begin(&mut self) -> Result<(), Problem> {
        let Some(reason) = self.due.take() else { return Ok(()) };
        let snapshot = self.service.snapshot()?;
        // Interest is declared before looking, as ever.
        self.declare_interest(&snapshot);
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
            if self.watched.choice.as_mut().is_some_and(NodeChoice::update) {
                self.due = Some("labels");
            }
            // Interest is declared before looking, so that changes in between wake this watcher.
            self.declare_interest(&snapshot);
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
                () = relabelled(self.watched.choice.as_mut()) => {}
                () = self.stop.requested() => return None,
                () = self.alive.as_mut() => {
                    let now = Instant::now();
                    let is_due = self.sent + KEEP_ALIVE <= now;
                    if is_due {
                        self.sent = now;
                    }
                    self.alive.as_mut().reset(self.sent + KEEP_ALIVE);
                    if is_due {
                        return Some(STILL_HERE);
                    }
                }
            }
        }
    }

    /// Declares for which changes this watcher is woken; they depend on bindings.
    fn declare_interest(&mut self, snapshot: &Snapshot) {
        if !self.bindings.as_ref().is_some_and(|known| known.ptr_eq(snapshot.bindings())) {
            self.seat.set_interest(self.watched.interest(snapshot));
            self.bindings = Some(snapshot.bindings().clone());
        }
    }

    /// The next part to send. None if the watch has to end: there is no room for a snapshot.
    fn take(&mut self, snapshot: &Arc<Snapshot>) -> Option<News> {
        if let Some(reason) = self.due.take() {
            return self.news_of(snapshot, reason);
        }
        let log = self.service.log()?;
        loop {
            let seen = self.seen.unwrap_or_default();
            if let Some(piece) = self.shared_as.as_ref().and_then(|of| log.pieces.find(of, seen)) {
                self.seen = Some(piece.until);
                return Some(News::Changes(piece.events));
            }
            let changes = match log.since(seen, snapshot.revision, CHUNK) {
                Since::Gone => return self.news_of(snapshot, "gone"),
                Since::Changes(changes) if changes.is_empty() => return Some(News::None),
                Since::Changes(changes) => changes,
            };
            // Looked at after the changes were taken, this snapshot contains them. If an unseen change bound
            // a name, changes in between may be of another target than the one that it has now.
            let snapshot = self.service.snapshot().ok()?;
            let mut all = changes.iter();
            if all.any(|change| self.watched.is_rebinding(change)) || self.watched.is_rebound(&snapshot, seen)
            {
                return self.news_of(&snapshot, "rebound");
            }
            let (until, events) = self.render(&changes, seen, &snapshot);
            self.seen = Some(until);
            if !events.is_empty() {
                if let Some(shared_as) = &self.shared_as {
                    let piece = Piece { after: seen, until, events: events.clone() };
                    log.pieces.put(shared_as.clone(), piece);
                }
                return Some(News::Changes(events));
            }
        }
    }

    /// The events of changes, as much as a connection takes at once, and the revision of the last of them. The others
    /// come when the connection has room again.
    fn render(&self, changes: &[Change], seen: u64, snapshot: &Snapshot) -> (u64, Bytes) {
        let (mut out, mut until) = (Vec::new(), seen);
        for change in changes {
            self.watched.push(&mut out, change, snapshot);
            until = change.revision();
            if out.len() > PIECE_BYTES {
                break;
            }
        }
        if !out.is_empty() && until == snapshot.revision {
            push_settled(&mut out, until);
        }
        (until, Bytes::from(out))
    }

    fn news_of(&mut self, snapshot: &Snapshot, reason: &str) -> Option<News> {
        self.snapshot(snapshot, reason).ok().map(|()| News::Snapshot)
    }

    /// Puts everything, at the revision of a snapshot, before what is sent next. The changes in the log up to there are
    /// part of it.
    fn snapshot(&mut self, snapshot: &Snapshot, reason: &str) -> Result<(), Problem> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"event: snapshot\ndata: {\"revision\":");
        push_number(&mut out, snapshot.revision);
        out.extend_from_slice(b",\"reason\":\"");
        out.extend_from_slice(reason.as_bytes());
        out.extend_from_slice(b"\",\"values\":[");
        let mut end = b"]}\n".to_vec();
        push_event_id(&mut end, snapshot.revision);
        let mut pieces = joined(b"", self.watched.items(snapshot).into_iter(), b"");
        pieces.insert(0, Bytes::from(out));
        pieces.push(Bytes::from(end));
        let reservation = self.budget.reserve(self.user.as_ref(), &pieces)?;
        self.waiting = Some((Slices::new(pieces), reservation));
        self.seen = Some(snapshot.revision);
        Ok(())
    }
}

/// Waits until labels have changed, if there is a choice by labels.
async fn relabelled(choice: Option<&mut NodeChoice>) {
    match choice {
        Some(choice) => choice.changed().await,
        None => std::future::pending().await,
    }
}
