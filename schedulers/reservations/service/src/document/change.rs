//! A change of a reservation: another window, width, length or value.

use estimand_api::declaration;
use estimand_api::duration::Span;
use estimand_api::instant::parse_rfc3339;
use estimand_api::problem::{FieldError, Problem};
use serde_json::{Map, Value, json};

use super::{Document, FIELDS};

/// The fields that can be changed.
const CHANGEABLE: [&str; 6] = ["width", "duration", "work", "from", "by", "value"];

/// The schema of a change.
#[derive(Debug)]
pub enum ReservationChange {}

estimand_api::described!(ReservationChange, [Span], described());

fn described() -> Value {
    let is_part = |name: &str| CHANGEABLE.contains(&name) || name == "dryRun";
    let mut properties = declaration::properties(FIELDS);
    properties.retain(|name, _| is_part(name));
    json!({
        "type": "object",
        "minProperties": 1,
        "properties": properties,
        "additionalProperties": false,
        "examples": [{ "by": "2026-01-31T20:00:00Z" }, { "width": 4, "duration": "3h", "value": 40 }],
    })
}

impl Document {
    /// The document with some fields replaced; null stands for a field's default. `now` is in microseconds since 1970.
    pub fn changed(&self, change: &Map<String, Value>, now: i64) -> Result<Document, Problem> {
        let other = change.keys().filter(|name| !CHANGEABLE.contains(&name.as_str()) && *name != "dryRun");
        let errors: Vec<FieldError> = other
            .map(|name| {
                let error = FieldError::new(name.clone(), "cannot be changed");
                error.expected(format!("one of {}, dryRun; or another reservation", CHANGEABLE.join(", ")))
            })
            .collect();
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        if !change.keys().any(|name| name != "dryRun") {
            let error = FieldError::new("body", "changes nothing");
            return Err(Problem::invalid_field(
                error.expected(format!("at least one of {}", CHANGEABLE.join(", "))),
            ));
        }
        let mut map = self.to_map();
        map.remove("task");
        for (one, other) in [("duration", "work"), ("work", "duration")] {
            if change.get(one).is_some_and(|value| !value.is_null()) {
                map.remove(other);
            }
        }
        // A window that has begun begins now.
        let is_over = |from: &Value| from.as_str().and_then(parse_rfc3339).is_some_and(|from| from < now);
        if map.get("from").is_some_and(is_over) {
            map.remove("from");
        }
        map.extend(change.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(Document::from_map(map, now)?.with_task(self.task.clone()))
    }
}
