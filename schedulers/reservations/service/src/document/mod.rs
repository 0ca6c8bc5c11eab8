//! The document of a reservation: one that exists is right. If there is such capacity, and at which price, is not said here.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::access::forbidden_field;
use estimand_api::declaration;
use estimand_api::duration::Span;
use estimand_api::fields::Fields;
use estimand_api::json::parse_object;
use estimand_api::names::UserName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::resources::{PLACES, ResourceAmount};
use estimand_api::task_document::TaskDocument;
use estimand_reservations::Money;
use estimand_web::Scope;
use serde_json::{Map, Value, json};

use crate::celery::{self, CeleryStart};

mod change;
mod fields;
mod list;
mod task;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use change::ReservationChange;
pub use fields::{FIELDS, credits, user};
pub use list::{ListDocument, ReservationList};
pub use task::ReservedTask;

/// The bytes of a reservation beside those of the texts in its document.
const FIXED_BYTES: u64 = 1024;
/// The largest document.
pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Of each unit: `cpu` in thousandths of a processor, `memory` in bytes.
    pub resources: BTreeMap<String, u64>,
    /// How many units; the least of them if `widest` is there.
    pub width: u64,
    /// The most units, if their number is open.
    pub widest: Option<u64>,
    pub class: Option<String>,
    /// Seconds; 0 with `work`.
    pub duration: u64,
    /// The seconds that one unit alone would take.
    pub work: Option<u64>,
    /// Seconds since 1970; none: as soon as can be.
    pub from: Option<u64>,
    /// None: as late as can be.
    pub by: Option<u64>,
    pub value: Option<Money>,
    pub user: Option<String>,
    pub task: Option<ReservedTask>,
    /// In place of a task.
    pub celery: Option<Arc<CeleryStart>>,
    pub dry_run: bool,
    /// About as many as it takes in memory and in the store.
    pub bytes: u64,
    /// The instant from which spans are counted, in microseconds since 1970.
    now: i64,
}

/// The schema of a [`Document`].
#[derive(Debug)]
pub enum ReservationDocument {}

estimand_api::described!(ReservationDocument, [ResourceAmount, Span, TaskDocument], described());

fn described() -> Value {
    json!({
        "type": "object",
        "required": ["resources"],
        "properties": declaration::properties(FIELDS),
        "additionalProperties": false,
        "examples": [
            { "resources": { "cpu": 4 }, "duration": "2h", "by": "2026-01-31T18:00:00Z", "value": 30 },
            { "resources": { "cpu": 1, "memory": "4GiB" }, "width": 8, "duration": "30m", "value": "12.5",
              "task": { "command": ["/opt/train"] } },
            { "resources": { "gpu": 1 }, "width": "2..8", "work": "16h", "by": "12h", "value": 80 },
        ],
    })
}

impl Document {
    /// Reads a body, checks all of it, and says all that is wrong. `now` is in microseconds since 1970.
    pub fn parse(body: &[u8], now: i64) -> Result<Document, Problem> {
        Self::from_map(parse_object(body)?, now)
    }

    /// The same from an object that is parsed already.
    pub fn from_map(map: Map<String, Value>, now: i64) -> Result<Document, Problem> {
        let (document, errors) = Document::read(String::new(), map, now);
        if errors.is_empty() { Ok(document) } else { Err(Problem::invalid(errors)) }
    }

    /// The document that stands at `prefix`, and all that is wrong with it.
    pub fn read(prefix: String, map: Map<String, Value>, now: i64) -> (Document, Vec<FieldError>) {
        let mut fields = Fields::within(prefix, map);
        let mut document = Document { now, ..Document::default() };
        declaration::read(FIELDS, &mut fields, &mut document);
        if document.resources.is_empty() && fields.value("resources").is_none_or(Value::is_object) {
            let error = fields.error("resources", "asks for nothing");
            error.expected = Some("an amount of at least one resource, such as {\"cpu\": 4}".to_owned());
        }
        if document.work.is_some() && document.duration > 0 {
            let error = fields.error("duration", "goes not with `work`, of which it follows");
            error.expected = Some("one of them".to_owned());
        }
        if document.widest.is_some() && fields.value("work").is_none() {
            let error = fields.error("width", "is open, so how long it takes depends on it");
            error.expected = Some("`work` in place of `duration`, or one number".to_owned());
        }
        if let (Some(from), Some(by)) = (document.from, document.by)
            && by <= from
        {
            let needed = document.length(document.widest.unwrap_or(document.width));
            let message = format!("is not after `from`, so the window is empty; {needed} s are needed");
            fields.error("by", message);
        }
        if document.task.is_some() && document.celery.is_some() {
            fields.error("celery", "stands beside `task`: it has one or the other");
        }
        if let (Some(user), Some(ReservedTask::Document(task))) = (&document.user, &document.task)
            && task.user.is_none()
            && task.has_files()
            && !UserName::is_valid(user)
        {
            fields.error("user", format!("is no name of a user who has files: {}", UserName::EXPECTED));
        }
        document.now = 0;
        document.bytes = document.weight();
        (document, fields.end())
    }

    /// A document out of the store. It was right when it was stored, but its task may not be: versions before this one did not read
    /// it.
    pub fn of_store(mut map: Map<String, Value>) -> Result<Document, Problem> {
        let task = match map.remove("task") {
            Some(Value::Object(task)) => Some(ReservedTask::of_store(task)),
            _ => None,
        };
        Ok(Document::from_map(map, 0)?.with_task(task))
    }

    /// The document with this task.
    fn with_task(self, task: Option<ReservedTask>) -> Document {
        let document = Document { task, ..self };
        Document { bytes: document.weight(), ..document }
    }

    fn weight(&self) -> u64 {
        FIXED_BYTES + self.free_texts().map(|text| text.len() as u64).sum::<u64>()
    }

    /// Makes it the caller's own, if that is a user, and says so if it names another one, also in its task. The service submits the
    /// task for them: so what is not theirs to name is refused here. `prefix` is where the document stands.
    pub fn claim(&mut self, scope: &Scope, prefix: &str) -> Result<(), Problem> {
        scope.claim(&format!("{prefix}user"), &mut self.user)?;
        scope.check_places(&format!("{prefix}resources"), self.resources.contains_key(PLACES))?;
        if scope.user().is_some() && self.celery.is_some() {
            // Workers of Celery run whatever comes, and belong to no user.
            let error = FieldError::new(format!("{prefix}celery"), "is for operators to give");
            return Err(forbidden_field(
                error.expected("`task`, or an operator who reserves it with `user`"),
            ));
        }
        let (Some(_), Some(ReservedTask::Document(task))) = (scope.user(), &self.task) else { return Ok(()) };
        if !task.after.is_empty() {
            let error = FieldError::new(format!("{prefix}task.after"), "is for operators to give");
            return Err(forbidden_field(error.expected("nothing: it runs in the time that is reserved")));
        }
        // The service submits it as nobody, so nothing else would compare it with the user's highest.
        scope.check_priority(&format!("{prefix}task.priority"), task.priority)?;
        scope.claim(&format!("{prefix}task.user"), &mut task.user.clone())
    }

    /// The parts of it whose length is up to whoever asks.
    fn free_texts(&self) -> impl Iterator<Item = String> {
        let task = self.task.as_ref().and_then(|task| serde_json::to_string(&task.to_map()).ok());
        let celery = self.celery.as_ref().map(|celery| celery::write(celery).to_string());
        let resources = self.resources.keys().cloned().collect();
        [task, celery, Some(resources)].into_iter().flatten()
    }

    /// The same with another value.
    #[must_use]
    pub fn worth(&self, value: Money) -> Document {
        Document { value: Some(value), ..self.clone() }
    }

    /// The seconds that it takes with so many units.
    pub fn length(&self, width: u64) -> u64 {
        self.work.map_or(self.duration, |work| work.div_ceil(width.max(1)))
    }

    /// Fields that say nothing are left out.
    pub fn to_map(&self) -> Map<String, Value> {
        declaration::write(FIELDS, self)
    }

    /// The same for readers: the values of its task's secrets are left out.
    pub fn shown(&self) -> Map<String, Value> {
        let mut map = self.to_map();
        if let Some(task) = &self.task {
            map.insert("task".to_owned(), Value::Object(task.shown()));
        }
        map
    }

    /// The same was asked for. A window that was said from now on is another one each time, and makes no difference.
    pub fn is_same(&self, other: &Document) -> bool {
        self.value == other.value && self.is_same_but_value(other)
    }

    pub fn is_same_but_value(&self, other: &Document) -> bool {
        let rest = |document: &Document| Document { from: None, by: None, value: None, ..document.clone() };
        rest(self) == rest(other)
    }
}
