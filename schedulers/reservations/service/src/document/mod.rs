//! The document of a reservation: one that exists is right. If there is such capacity, and at which price, is not said here.

use std::collections::BTreeMap;

use estimand_api::declaration;
use estimand_api::duration::Span;
use estimand_api::fields::Fields;
use estimand_api::json::parse_object;
use estimand_api::problem::Problem;
use estimand_reservations::Money;
use serde_json::{Map, Value, json};

use crate::celery::CeleryStart;

mod fields;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use fields::{FIELDS, credits, user};

/// The largest document.
pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Of each unit: `cpu` in thousandths of a processor, `memory` in bytes.
    pub resources: BTreeMap<String, u64>,
    pub width: u64,
    pub class: Option<String>,
    /// Seconds.
    pub duration: u64,
    /// Seconds since 1970; none: as soon as can be.
    pub from: Option<u64>,
    /// None: as late as can be.
    pub by: Option<u64>,
    pub value: Option<Money>,
    pub user: Option<String>,
    pub task: Option<Map<String, Value>>,
    /// In place of a task.
    pub celery: Option<CeleryStart>,
    pub dry_run: bool,
    /// The instant from which spans are counted, in microseconds since 1970.
    now: i64,
}

/// The schema of a [`Document`].
#[derive(Debug)]
pub enum ReservationDocument {}

estimand_api::described!(ReservationDocument, [Span], described());

fn described() -> Value {
    json!({
        "type": "object",
        "required": ["resources", "duration"],
        "properties": declaration::properties(FIELDS),
        "additionalProperties": false,
        "examples": [
            { "resources": { "cpu": 4 }, "duration": "2h", "by": "2026-01-31T18:00:00Z", "value": 30 },
            { "resources": { "cpu": 1, "memory": "4GiB" }, "width": 8, "duration": "30m", "value": "12.5",
              "task": { "command": ["/opt/train"] } },
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
        let mut fields = Fields::new(map);
        let mut document = Document { now, ..Document::default() };
        declaration::read(FIELDS, &mut fields, &mut document);
        if document.resources.is_empty() && fields.value("resources").is_none_or(Value::is_object) {
            let error = fields.error("resources", "asks for nothing");
            error.expected = Some("an amount of at least one resource, such as {\"cpu\": 4}".to_owned());
        }
        if let (Some(from), Some(by)) = (document.from, document.by)
            && by <= from
        {
            let message =
                format!("is not after `from`, so the window is empty; {} s are needed", document.duration);
            fields.error("by", message);
        }
        if document.task.is_some() && document.celery.is_some() {
            fields.error("celery", "stands beside `task`: it has one or the other");
        }
        fields.end_body()?;
        document.now = 0;
        Ok(document)
    }

    /// Fields that say nothing are left out.
    pub fn to_map(&self) -> Map<String, Value> {
        declaration::write(FIELDS, self)
    }

    /// The same was asked for. A window that was said from now on is another one each time, and makes no difference.
    pub fn is_same(&self, other: &Document) -> bool {
        let window = |document: &Document| Document { from: None, by: None, ..document.clone() };
        window(self) == window(other)
    }
}
