//! Promises that are asked for: their fields, and the bodies that have them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::LAST_TICK;
use crate::declaration::{self, Field};
use crate::fields::{self, Fields};
use crate::json::{kind_of, parse_object};
use crate::problem::{FieldError, Problem};
use crate::resources::not_a_name;
use crate::selector::is_label_key;

/// The largest body.
pub const MAX_PROMISES_BYTES: usize = 1024 * 1024;
/// The most promises of one request.
pub const MAX_BATCH: usize = 1_000;
/// The most units of a promise.
pub const MAX_WIDTH: u64 = 10_000;
const MAX_RESOURCES: usize = 32;
const MAX_TEXT_BYTES: usize = 256;

const ID_EXPECTED: &str = "1 to 64 of letters, digits and `._-`, a letter or digit first";
const RESOURCES_EXPECTED: &str =
    "an object of amounts such as {\"cpu\": 2000}: `cpu` in thousandths of a processor, `memory` in bytes";
const TICK_EXPECTED: &str = "a whole number of seconds since 1970";

/// A promise that is asked for: so many units, all with one window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromiseRequest {
    pub id: Option<String>,
    /// Of each unit. A unit is on one node.
    pub resources: BTreeMap<String, u64>,
    pub class: Option<String>,
    /// How many units; 0 is read as 1.
    pub width: u64,
    /// None: from now on.
    pub from: Option<u64>,
    /// The first tick after it.
    pub until: u64,
    pub value: u64,
    pub user: Option<String>,
}

/// The fields of a promise that is asked for, each declared once.
pub const FIELDS: &[Field<PromiseRequest>] = &[
    Field {
        name: "id",
        expected: ID_EXPECTED,
        description: "Its name; by default one is made",
        schema: || json!({ "type": ["string", "null"], "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }),
        read: |it, asked| asked.id = it.optional(fields::id),
        write: |asked| asked.id.as_ref().map(|id| json!(id)),
        ..Field::PLAIN
    },
    Field {
        name: "resources",
        expected: RESOURCES_EXPECTED,
        description: "The amounts of each unit: `cpu` in thousandths of a processor, `memory` in bytes",
        schema: || json!({ "type": "object", "minProperties": 1, "additionalProperties": { "type": "integer", "minimum": 0 } }),
        read: |it, asked| asked.resources = it.required(resources).unwrap_or_default(),
        write: |asked| Some(json!(asked.resources)),
        ..Field::PLAIN
    },
    Field {
        name: "class",
        expected: "the label `class` of nodes",
        description: "The nodes that it may be on: those with this label `class`; by default those without one",
        schema: || json!({ "type": ["string", "null"], "minLength": 1 }),
        read: |it, asked| asked.class = it.optional(|value| fields::text(value, MAX_TEXT_BYTES)),
        write: |asked| asked.class.as_ref().map(|class| json!(class)),
        ..Field::PLAIN
    },
    Field {
        name: "width",
        expected: "a whole number from 1 to 10000",
        description: "How many units; by default 1. Units may share a node",
        schema: || json!({ "type": ["integer", "null"], "minimum": 1, "maximum": MAX_WIDTH }),
        read: |it, asked| {
            asked.width = it.optional(|value| fields::whole(value, 1, MAX_WIDTH)).unwrap_or(1);
        },
        write: |asked| (asked.width > 1).then(|| json!(asked.width)),
        ..Field::PLAIN
    },
    Field {
        name: "from",
        expected: TICK_EXPECTED,
        description: "Its first tick; by default the present one",
        schema: || json!({ "type": ["integer", "null"], "minimum": 0, "maximum": LAST_TICK }),
        read: |it, asked| asked.from = it.optional(tick),
        write: |asked| asked.from.map(|from| json!(from)),
        ..Field::PLAIN
    },
    Field {
        name: "until",
        expected: TICK_EXPECTED,
        description: "The first tick after it",
        schema: || json!({ "type": "integer", "minimum": 0, "maximum": LAST_TICK }),
        read: |it, asked| asked.until = it.required(tick).unwrap_or(u64::MAX),
        write: |asked| Some(json!(asked.until)),
        ..Field::PLAIN
    },
    Field {
        name: "value",
        expected: "a whole number of at least 0",
        description: "Its rank should capacity be lost: the least is broken first; by default 0",
        schema: || json!({ "type": ["integer", "null"], "minimum": 0 }),
        read: |it, asked| {
            asked.value = it.optional(|value| fields::whole(value, 0, MOST)).unwrap_or(0);
        },
        write: |asked| (asked.value > 0).then(|| json!(asked.value)),
        ..Field::PLAIN
    },
    Field {
        name: "user",
        expected: "a text of 1 to 256 bytes",
        description: "Whose promise it is",
        schema: || json!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_TEXT_BYTES }),
        read: |it, asked| asked.user = it.optional(|value| fields::text(value, MAX_TEXT_BYTES)),
        write: |asked| asked.user.as_ref().map(|user| json!(user)),
        ..Field::PLAIN
    },
];

/// The largest amount and value, which every database and every reader of JSON takes.
const MOST: u64 = i64::MAX as u64;

/// Promises of which all are given or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromiseBatch {
    /// The revision of the ledger on which this was decided; refused if it is another one.
    pub if_revision: Option<u64>,
    pub all_or_none: Vec<PromiseRequest>,
}

crate::described!(
    PromiseBatch,
    [],
    json!({
        "type": "object",
        "required": ["allOrNone"],
        "additionalProperties": false,
        "properties": {
            "ifRevision": { "type": ["integer", "null"], "minimum": 0,
                "description": "The revision of the ledger on which this was decided; refused with 409 if it is another one" },
            "allOrNone": { "type": "array", "minItems": 1, "maxItems": MAX_BATCH,
                "description": "All of these are promised, or none",
                "items": { "type": "object", "required": ["resources", "until"], "additionalProperties": false,
                    "properties": declaration::properties(FIELDS) } },
        },
        "examples": [{ "ifRevision": 7, "allOrNone": [
            { "resources": { "cpu": 4000 }, "from": 1_800_000_000, "until": 1_800_007_200, "value": 30 },
        ] }],
    })
);

impl PromiseBatch {
    /// Reads a body, checks all of it, and says all that is wrong.
    pub fn parse(body: &[u8]) -> Result<PromiseBatch, Problem> {
        let mut fields = Fields::new(parse_object(body)?);
        let if_revision = fields.optional("ifRevision", "a revision", |value| fields::whole(value, 0, MOST));
        let expected = format!("an array of 1 to {MAX_BATCH} promises");
        let asked = fields.required("allOrNone", &expected, |value| batch(value).map(<[Value]>::to_vec));
        let mut all_or_none = Vec::new();
        for (place, item) in asked.unwrap_or_default().into_iter().enumerate() {
            match PromiseRequest::read(&format!("allOrNone[{place}]"), item) {
                Ok(asked) => all_or_none.push(asked),
                Err(errors) => fields.extend(errors),
            }
        }
        fields.end_body()?;
        Ok(PromiseBatch { if_revision, all_or_none })
    }

    pub fn to_map(&self) -> Map<String, Value> {
        let asked = self.all_or_none.iter().map(|asked| Value::Object(asked.to_map()));
        let mut map = Map::from_iter([("allOrNone".to_owned(), Value::Array(asked.collect()))]);
        map.extend(self.if_revision.map(|revision| ("ifRevision".to_owned(), json!(revision))));
        map
    }
}

impl PromiseRequest {
    /// The same as [`Self::to_map`] wrote.
    pub fn from_json(value: Value) -> Result<PromiseRequest, String> {
        let said =
            |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        PromiseRequest::read("promise", value).map_err(said)
    }

    fn read(place: &str, value: Value) -> Result<PromiseRequest, Vec<FieldError>> {
        let Value::Object(map) = value else {
            let message = format!("is {}, not an object", kind_of(&value));
            return Err(vec![FieldError::new(place, message).given(value)]);
        };
        let mut fields = Fields::within(format!("{place}."), map);
        let mut asked = PromiseRequest::default();
        declaration::read(FIELDS, &mut fields, &mut asked);
        if asked.from.is_some_and(|from| asked.until <= from) {
            fields.error("until", "is not after `from`, so the window is empty");
        }
        match fields.end() {
            errors if errors.is_empty() => Ok(asked),
            errors => Err(errors),
        }
    }

    /// Fields that say nothing are left out.
    pub fn to_map(&self) -> Map<String, Value> {
        declaration::write(FIELDS, self)
    }
}

/// A promise with another end; or one that has not begun with another window and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromiseResize {
    /// The first tick; as it is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The first tick after it.
    pub until: u64,
    /// How many units; as it is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// The revision of the ledger on which this was decided; refused with 409 if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_revision: Option<u64>,
}

impl PromiseResize {
    pub fn parse(body: &[u8]) -> Result<PromiseResize, Problem> {
        let mut fields = Fields::new(parse_object(body)?);
        let width = |value: &Value| fields::whole(value, 1, MAX_WIDTH);
        let resize = PromiseResize {
            from: fields.optional("from", TICK_EXPECTED, tick),
            until: fields.required("until", TICK_EXPECTED, tick).unwrap_or_default(),
            width: fields.optional("width", "a whole number from 1 to 10000", width),
            if_revision: fields.optional("ifRevision", "a revision", |value| fields::whole(value, 0, MOST)),
        };
        fields.end_body()?;
        Ok(resize)
    }
}

/// Promises that are given back together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PromiseReleases {
    pub ids: Vec<String>,
}

crate::described!(
    PromiseReleases,
    [],
    json!({
        "type": "object",
        "required": ["ids"],
        "additionalProperties": false,
        "properties": {
            "ids": { "type": "array", "minItems": 1, "maxItems": MAX_BATCH, "items": { "type": "string" },
                "description": "The promises; those that are over or not known are passed over" },
        },
        "examples": [{ "ids": ["p7", "night"] }],
    })
);

impl PromiseReleases {
    pub fn parse(body: &[u8]) -> Result<PromiseReleases, Problem> {
        let mut fields = Fields::new(parse_object(body)?);
        let expected = format!("an array of 1 to {MAX_BATCH} ids of promises");
        let ids = fields.required("ids", &expected, |value| batch(value)?.iter().map(fields::id).collect());
        fields.end_body()?;
        Ok(PromiseReleases { ids: ids.unwrap_or_default() })
    }
}

/// The items of an array that has as many as a request may have.
fn batch(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::Array(items) if (1..=MAX_BATCH).contains(&items.len()) => Ok(items),
        Value::Array(items) => Err(format!("has {}", items.len())),
        other => Err(format!("is {}, not an array", kind_of(other))),
    }
}

fn tick(value: &Value) -> Result<u64, String> {
    fields::whole(value, 0, LAST_TICK)
}

fn resources(value: &Value) -> Result<BTreeMap<String, u64>, String> {
    let Value::Object(map) = value else { return Err(format!("is {}, not an object", kind_of(value))) };
    if map.len() > MAX_RESOURCES {
        return Err(format!("has more than {MAX_RESOURCES}"));
    }
    let mut amounts = BTreeMap::new();
    for (name, value) in map {
        let amount =
            fields::whole(value, 0, MOST).map_err(|message| format!("has `{name}`, which {message}"))?;
        if !is_label_key(name) {
            return Err(not_a_name(name));
        }
        amounts.insert(name.clone(), amount);
    }
    match amounts.values().any(|amount| *amount > 0) {
        true => Ok(amounts),
        false => Err("asks for nothing".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "request_tests.rs"]
mod tests;
