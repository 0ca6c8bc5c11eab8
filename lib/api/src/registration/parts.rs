//! The parts of a registration that are objects themselves: its history and its limits.

use std::fmt;

use serde_json::{Value, json};

use super::MAX_INTERVAL_MICROS;
use super::values::{bounded_span, object, or_null};
use crate::declaration::{self, Field, FieldReader};
use crate::duration::{Span, schema_between};
use crate::fields::{self, Fields};
use crate::problem::FieldError;
use crate::size;

/// The most values a history may keep of each node.
pub const MAX_HISTORY_COUNT: u64 = 1_000_000;

/// How much of the past is kept; both bounds hold if both are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// No longer than this.
    pub keep: Option<Span>,
    /// No more than this many of each node.
    pub max: Option<u64>,
}

/// The resources that an instance may use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Cores.
    pub cpu: Option<f64>,
    pub processes: Option<u64>,
    pub open_files: Option<u64>,
    /// Bytes of disk in the slot's folder.
    pub disk: Option<u64>,
}

/// The fields of a history.
pub const HISTORY_FIELDS: &[Field<History>] = &[
    Field {
        name: "keep",
        expected: "a duration of 1 s to a year",
        description: "No longer than this",
        schema: || or_null(schema_between(LEAST_KEEP_MICROS, MAX_INTERVAL_MICROS)),
        read: |it, history| history.keep = it.optional(|value| bounded_span(value, LEAST_KEEP_MICROS)),
        write: |history| history.keep.map(|keep| json!(keep)),
        ..Field::PLAIN
    },
    Field {
        name: "max",
        expected: "1 to 1000000",
        description: "No more than so many values of each node",
        schema: || json!({ "type": ["integer", "null"], "minimum": 1, "maximum": MAX_HISTORY_COUNT }),
        read: |it, history| history.max = it.optional(|value| fields::whole(value, 1, MAX_HISTORY_COUNT)),
        write: |history| history.max.map(|max| json!(max)),
        ..Field::PLAIN
    },
];

/// The fields of the limits.
pub const LIMIT_FIELDS: &[Field<Limits>] = &[
    Field {
        name: "memory",
        expected: "bytes of at least 1 MiB, or \"256MiB\"",
        description: "Bytes of memory: 1 MiB to 1 PiB",
        schema: bytes_schema,
        read: |it, limits| limits.memory = it.optional(read_bytes),
        write: |limits| limits.memory.map(|bytes| json!(bytes)),
        text: Some(|limits| size::text(limits.memory.unwrap_or_default())),
        ..Field::PLAIN
    },
    Field {
        name: "cpu",
        expected: "a number of cores from 0.01 to 1024",
        description: "Cores",
        schema: || json!({ "type": ["number", "null"], "minimum": 0.01, "maximum": 1024 }),
        read: |it, limits| {
            limits.cpu = it.optional(|value| {
                let cores = fields::number(value)?;
                (0.01..=1024.0).contains(&cores).then_some(cores).ok_or("is out of range".to_owned())
            });
        },
        write: |limits| limits.cpu.map(|cores| json!(cores)),
        ..Field::PLAIN
    },
    Field {
        name: "processes",
        expected: "1 to 1000000",
        description: "Processes and threads at the same time",
        schema: || json!({ "type": ["integer", "null"], "minimum": 1, "maximum": 1_000_000 }),
        read: |it, limits| limits.processes = it.optional(|value| fields::whole(value, 1, 1_000_000)),
        write: |limits| limits.processes.map(|count| json!(count)),
        ..Field::PLAIN
    },
    Field {
        name: "openFiles",
        expected: "8 to 1000000",
        description: "Open files of each process",
        schema: || json!({ "type": ["integer", "null"], "minimum": 8, "maximum": 1_000_000 }),
        read: |it, limits| limits.open_files = it.optional(|value| fields::whole(value, 8, 1_000_000)),
        write: |limits| limits.open_files.map(|count| json!(count)),
        ..Field::PLAIN
    },
    Field {
        name: "disk",
        expected: "bytes of at least 1 MiB, or \"100MiB\"",
        description: "Bytes of disk in the slot's folder, which is emptied when it has more: 1 MiB to 1 PiB",
        schema: bytes_schema,
        read: |it, limits| limits.disk = it.optional(read_bytes),
        write: |limits| limits.disk.map(|bytes| json!(bytes)),
        text: Some(|limits| size::text(limits.disk.unwrap_or_default())),
        ..Field::PLAIN
    },
];

const LEAST_KEEP_MICROS: u64 = 1_000_000;
const LEAST_BYTES: u64 = 1 << 20;
const MOST_BYTES: u64 = 1 << 50;

impl History {
    /// Reads `{"keep": …, "max": …}`, or a duration alone.
    pub fn from_json(value: &Value) -> Result<Self, Vec<FieldError>> {
        let Value::Object(map) = value else {
            return match bounded_span(value, LEAST_KEEP_MICROS) {
                Ok(keep) => Ok(History { keep: Some(keep), max: None }),
                Err(message) => Err(vec![
                    FieldError::new("history", message)
                        .given(value)
                        .expected("{\"keep\": \"1h\", \"max\": 1000}"),
                ]),
            };
        };
        let mut fields = Fields::nested("history", map.clone());
        let mut history = History { keep: None, max: None };
        declaration::read(HISTORY_FIELDS, &mut fields, &mut history);
        if map.values().all(Value::is_null) {
            fields.error("keep", "or `max` is missing: a history needs a bound");
        }
        match fields.end() {
            errors if errors.is_empty() => Ok(history),
            errors => Err(errors),
        }
    }

    pub fn to_json(&self) -> Value {
        Value::Object(declaration::write(HISTORY_FIELDS, self))
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&declaration::text(HISTORY_FIELDS, self))
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&declaration::text(LIMIT_FIELDS, self))
    }
}

crate::described!(History, [], history_schema());

/// A length of time alone, or an object with at least one bound.
fn history_schema() -> Value {
    let keep = schema_between(LEAST_KEEP_MICROS, MAX_INTERVAL_MICROS);
    let bounds = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": declaration::properties(HISTORY_FIELDS),
        "allOf": [{ "anyOf": [
            { "required": ["keep"], "properties": { "keep": { "type": ["number", "string"] } } },
            { "required": ["max"], "properties": { "max": { "type": "integer" } } },
        ] }],
    });
    let schemas = keep["oneOf"].as_array().into_iter().flatten().cloned().chain([bounds]);
    json!({
        "description": "How much of the past is kept: a length of time, a number of values, or both",
        "oneOf": schemas.collect::<Vec<_>>(),
        "examples": ["1h", { "keep": "1h", "max": 1000 }],
    })
}

impl Limits {
    pub(super) fn read(it: FieldReader<'_>) -> Self {
        let mut limits = Limits::default();
        let FieldReader { fields, name, expected } = it;
        if let Some(map) = fields.optional(name, expected, object) {
            let mut inner = Fields::nested(name, map);
            declaration::read(LIMIT_FIELDS, &mut inner, &mut limits);
            fields.extend(inner.end());
        }
        limits
    }

    pub(super) fn to_json(self) -> Value {
        Value::Object(declaration::write(LIMIT_FIELDS, &self))
    }

    pub(super) fn schema() -> Value {
        json!({
            "type": ["object", "null"],
            "additionalProperties": false,
            "properties": declaration::properties(LIMIT_FIELDS),
        })
    }
}

fn bytes_schema() -> Value {
    json!({ "oneOf": [
        { "type": "integer", "minimum": LEAST_BYTES, "maximum": MOST_BYTES },
        { "type": "string", "pattern": size::PATTERN },
        { "type": "null" },
    ] })
}

fn read_bytes(value: &Value) -> Result<u64, String> {
    size::read(value, LEAST_BYTES, MOST_BYTES)
}
