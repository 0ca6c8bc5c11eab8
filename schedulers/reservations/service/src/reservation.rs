//! A reservation, and the states through which it goes.
//!
//! ```text
//!   PENDING ──promised──▶ PROMISED ──its time──▶ ACTIVE ──its end──▶ OVER
//!      │ no room, dearer       │ cancel, broken      │ cancel, broken
//!      ▼                       ▼                     ▼
//!   REFUSED             CANCELLED, BROKEN     CANCELLED, BROKEN
//! ```

use std::sync::Arc;

use estimand_api::promise::{PromiseRequest, PromiseResize, PromiseTasks};
use estimand_ordering::OrderKey;
use estimand_reservations::Money;
use serde::{Deserialize, Serialize};

use crate::celery::Standing;
use crate::document::Document;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// Its price is held, and the ledger is asked for the promise.
    Pending,
    Promised,
    Active,
    Over,
    Cancelled,
    /// The capacity was lost.
    Broken,
    /// It was never promised.
    Refused,
}

impl State {
    pub const ALL: [State; 7] = [
        State::Pending,
        State::Promised,
        State::Active,
        State::Over,
        State::Cancelled,
        State::Broken,
        State::Refused,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "PENDING",
            State::Promised => "PROMISED",
            State::Active => "ACTIVE",
            State::Over => "OVER",
            State::Cancelled => "CANCELLED",
            State::Broken => "BROKEN",
            State::Refused => "REFUSED",
        }
    }

    pub fn is_final(self) -> bool {
        matches!(self, State::Over | State::Cancelled | State::Broken | State::Refused)
    }
}

/// A price and a time for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub price: Money,
    /// Seconds since 1970.
    pub start: u64,
    pub end: u64,
    /// How many units; 0 in those of before widths could be open, which have the document's.
    #[serde(default)]
    pub width: u64,
}

/// A change that the ledger is asked for. The difference, if it costs more, is held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingChange {
    /// Its own among all changes.
    pub key: String,
    /// The reservation's document with it.
    #[serde(with = "document_text")]
    pub document: Arc<Document>,
    pub offer: Offer,
    /// The revision of the ledger for which it was priced.
    pub revision: u64,
    /// The credits held beyond the present price.
    pub held: Money,
}

impl PendingChange {
    /// The promise as it would be.
    pub fn resize(&self) -> PromiseResize {
        let Offer { start, end, width, .. } = self.offer;
        PromiseResize { from: Some(start), until: end, width: Some(width), if_revision: Some(self.revision) }
    }
}

/// A document in JSON.
mod document_text {
    use std::sync::Arc;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};
    use serde_json::{Map, Value};

    use crate::document::Document;

    pub fn serialize<S: Serializer>(document: &Arc<Document>, serializer: S) -> Result<S::Ok, S::Error> {
        document.to_map().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Document>, D::Error> {
        let map = Map::<String, Value>::deserialize(deserializer)?;
        Document::of_store(map).map(Arc::new).map_err(|problem| D::Error::custom(problem.detail))
    }
}

/// How it stands with the task that runs on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskStanding {
    /// There is none.
    #[default]
    None,
    /// It is to be submitted.
    Due,
    Submitted(String),
    /// It was submitted, and the reservation has another width since: it is to be cancelled, and submitted anew.
    Stale(String),
    Refused(String),
}

/// How far a reservation is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub state: State,
    pub offer: Offer,
    /// The order that asks for its promise, maybe with others', while it is pending.
    pub order: Option<OrderKey>,
    /// The ledger has a promise of it that it has to be told to release.
    pub is_to_release: bool,
    /// The revision of the ledger with which its promise changed last.
    pub revision: u64,
    /// The node of each unit.
    pub nodes: Vec<String>,
    pub moves: u32,
    pub task: TaskStanding,
    #[serde(default)]
    pub celery: Standing,
    pub refund: Money,
    /// Seconds of its time that were delivered.
    pub delivered: u64,
    /// Seconds of its time in which its task could have run and did not, of all units together.
    #[serde(default)]
    pub missed: u64,
    /// Seconds of its time that were given back before its end.
    #[serde(default)]
    pub given_back: u64,
    /// The tasks on its promise, as they were heard of last; none: it has no task of its own.
    #[serde(default)]
    pub tasks: Option<PromiseTasks>,
    /// Its promise is over, and it is not known yet how its task ended.
    #[serde(default)]
    pub is_past: bool,
    pub reason: Option<String>,
    /// The number of the first reservation of its list, if it was made in one.
    #[serde(default)]
    pub list: Option<u64>,
    /// A change that is being made.
    #[serde(default)]
    pub change: Option<PendingChange>,
    /// How often its task was made another one by a change.
    #[serde(default)]
    pub task_changes: u32,
    /// The cost of its changes.
    #[serde(default)]
    pub fees: Money,
}

impl Progress {
    pub fn new(offer: Offer, order: OrderKey, document: &Document) -> Progress {
        Progress {
            state: State::Pending,
            offer,
            order: Some(order),
            is_to_release: false,
            revision: 0,
            nodes: Vec::new(),
            moves: 0,
            task: if document.task.is_some() { TaskStanding::Due } else { TaskStanding::None },
            celery: if document.celery.is_some() { Standing::NEW } else { Standing::None },
            refund: Money::ZERO,
            delivered: 0,
            missed: 0,
            given_back: 0,
            tasks: None,
            is_past: false,
            reason: None,
            list: None,
            change: None,
            task_changes: 0,
            fees: Money::ZERO,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reservation {
    pub number: u64,
    pub id: String,
    pub key: Option<String>,
    /// The account that pays.
    pub account: String,
    pub document: Arc<Document>,
    pub progress: Progress,
    /// Microseconds since 1970.
    pub made_at: i64,
    pub made_by: String,
    pub ended_at: Option<i64>,
}

impl Reservation {
    pub fn state(&self) -> State {
        self.progress.state
    }

    /// The id of its promise in the ledger, which no other reservation's ever has.
    pub fn promise_id(&self) -> String {
        format!("{}.{:x}", self.id, self.made_at)
    }

    /// The key of the task, or the array, that runs on it. The task service makes it the same one if it is submitted again.
    pub fn task_key(&self) -> String {
        match self.progress.task_changes {
            0 => format!("reservation {}", self.promise_id()),
            changes => format!("reservation {} change {changes}", self.promise_id()),
        }
    }

    /// How many units it has.
    pub fn width(&self) -> u64 {
        match self.progress.offer.width {
            0 => self.document.width,
            width => width,
        }
    }

    /// The promise that it needs.
    pub fn promise(&self) -> PromiseRequest {
        let Document { resources, class, value, .. } = &*self.document;
        let value = value.map_or(0, Money::as_microcredits).min(i64::MAX as u64);
        PromiseRequest {
            id: Some(self.promise_id()),
            resources: resources.clone(),
            class: class.clone(),
            width: self.width(),
            from: Some(self.progress.offer.start),
            until: self.progress.offer.end,
            value,
            user: Some(self.account.clone()),
        }
    }

    /// Somebody still has to do something about it.
    pub fn is_open(&self) -> bool {
        !self.state().is_final() || self.is_untold()
    }

    /// The task service has to be told to release its promise, or of its task, or is to be asked how that ended.
    pub fn is_untold(&self) -> bool {
        let Progress { is_to_release, task, is_past, .. } = &self.progress;
        let has_to_know = matches!(task, TaskStanding::Due | TaskStanding::Stale(_)) || *is_past;
        *is_to_release || self.is_live() && (has_to_know || self.is_done())
    }

    /// All tasks on its promise seem to be over, its own among them.
    pub fn is_done(&self) -> bool {
        let Progress { task, tasks, .. } = &self.progress;
        let is_done = tasks.is_some_and(|tasks| tasks.open == 0 && tasks.over > 0);
        is_done && matches!(task, TaskStanding::Submitted(_))
    }

    /// It has a promise whose end was not heard of yet.
    pub fn awaits_end(&self) -> bool {
        let Progress { celery, is_past, .. } = &self.progress;
        self.is_live() && !is_past && !matches!(celery, Standing::Due { is_past: true, .. })
    }

    /// Its start is to be published, or it was late and its broker is asked whether a worker has taken it.
    pub fn is_for_broker(&self) -> bool {
        let Progress { celery, is_past, .. } = &self.progress;
        self.is_live() && (celery.is_due() || *is_past && *celery != Standing::None)
    }

    /// Its start was published late, by a second or more.
    pub fn is_late(&self) -> bool {
        self.progress.celery.late(self.progress.offer.start) >= 1_000_000
    }

    /// It has its promise.
    pub fn is_live(&self) -> bool {
        matches!(self.state(), State::Promised | State::Active)
    }
}
