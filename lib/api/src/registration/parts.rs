//! The optional parts of a registration that are objects themselves: parameters, history, limits.
//!
//! Each is read by one function that reports what is wrong at the place where it stands.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::reading::bounded_span;
use crate::duration::Span;
use crate::fields::{self, Fields};
use crate::json::kind_of;
use crate::problem::FieldError;

/// The most entries of `params` and of `env`.
pub(super) const MAX_ENTRIES: usize = 128;
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

/// What an instance may use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Cores.
    pub cpu: Option<f64>,
    pub processes: Option<u64>,
    pub open_files: Option<u64>,
}

impl History {
    /// Reads `{"keep": …, "max": …}`, or a duration alone.
    pub fn from_json(value: &Value) -> Result<Self, Vec<FieldError>> {
        let Value::Object(map) = value else {
            return match bounded_span(value, 1_000_000) {
                Ok(keep) => Ok(History { keep: Some(keep), max: None }),
                Err(message) => Err(vec![
                    FieldError::new("history", message)
                        .given(value)
                        .expected("{\"keep\": \"1h\", \"max\": 1000}"),
                ]),
            };
        };
        let mut fields = Fields::nested("history", map.clone());
        let keep =
            fields.optional("keep", "a duration of 1 s to a year", |value| bounded_span(value, 1_000_000));
        let max = fields.optional("max", "1 to 1000000", |value| fields::whole(value, 1, MAX_HISTORY_COUNT));
        if map.values().all(Value::is_null) {
            fields.error("keep", "or `max` is missing: a history needs a bound");
        }
        match fields.end() {
            errors if errors.is_empty() => Ok(History { keep, max }),
            errors => Err(errors),
        }
    }

    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        if let Some(keep) = self.keep {
            map.insert("keep".to_owned(), json!(keep));
        }
        if let Some(max) = self.max {
            map.insert("max".to_owned(), json!(max));
        }
        Value::Object(map)
    }
}

impl Limits {
    pub(super) fn to_json(self) -> Value {
        let mut map = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(name.to_owned(), value);
            }
        };
        put("memory", self.memory.map(|bytes| json!(bytes)));
        put("cpu", self.cpu.map(|cores| json!(cores)));
        put("processes", self.processes.map(|count| json!(count)));
        put("openFiles", self.open_files.map(|count| json!(count)));
        Value::Object(map)
    }
}

pub(super) fn read_history(fields: &mut Fields) -> Option<History> {
    let mut wrong = Vec::new();
    let history = fields
        .optional("history", "", |value| Ok(History::from_json(value).map_err(|errors| wrong = errors).ok()));
    fields.extend(wrong);
    history.flatten()
}

pub(super) fn read_limits(fields: &mut Fields) -> Limits {
    let expected = "an object of memory, cpu, processes, openFiles";
    let Some(map) = fields.optional("limits", expected, object) else {
        return Limits::default();
    };
    let mut inner = Fields::nested("limits", map);
    let limits = Limits {
        memory: inner.optional("memory", "bytes of at least 1 MiB, or \"256MiB\"", read_bytes),
        cpu: inner.optional("cpu", "a number of cores from 0.01 to 1024", |value| {
            let cores = fields::number(value)?;
            (0.01..=1024.0).contains(&cores).then_some(cores).ok_or("is out of range".to_owned())
        }),
        processes: inner.optional("processes", "1 to 1000000", |value| fields::whole(value, 1, 1_000_000)),
        open_files: inner.optional("openFiles", "8 to 1000000", |value| fields::whole(value, 8, 1_000_000)),
    };
    fields.extend(inner.end());
    limits
}

pub(super) fn read_params(fields: &mut Fields) -> BTreeMap<String, Value> {
    let expected = "an object of name to string, number or boolean";
    let read = fields.optional("params", expected, |value| {
        let mut params = BTreeMap::new();
        let mut variables = BTreeSet::new();
        for (name, value) in object(value)? {
            check_variable(&name)?;
            if !matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_)) {
                return Err(format!("has `{name}`, which is {}", kind_of(&value)));
            }
            if value.as_str().is_some_and(|text| text.contains('\0')) {
                return Err(format!("has `{name}`, whose value contains a NUL"));
            }
            if !variables.insert(name.to_ascii_uppercase()) {
                return Err(format!("has `{name}` twice: ESTIMAND_PARAM_* ignores case"));
            }
            params.insert(name, value);
        }
        Ok(params)
    });
    read.unwrap_or_default()
}

pub(super) fn object(value: &Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(map) if map.len() > MAX_ENTRIES => Err(format!("has more than {MAX_ENTRIES} entries")),
        Value::Object(map) => Ok(map.clone()),
        other => Err(format!("is {}, not an object", kind_of(other))),
    }
}

pub(super) fn check_variable(name: &str) -> Result<(), String> {
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    match starts && name.len() <= 128 && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        true => Ok(()),
        false => Err(format!("has `{name}`, which is not a variable's name: letters, digits and `_`")),
    }
}

fn read_bytes(value: &Value) -> Result<u64, String> {
    const LEAST: u64 = 1 << 20;
    const MOST: u64 = 1 << 50;
    let Value::String(text) = value else {
        return fields::whole(value, LEAST, MOST);
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        unit => return Err(format!("has the unknown unit `{unit}` (KiB, MiB, GiB, KB, MB, GB)")),
    };
    let number: u64 = digits.trim().parse().map_err(|_| "is not a whole number with a unit".to_owned())?;
    match number.checked_mul(unit) {
        Some(bytes) if (LEAST..=MOST).contains(&bytes) => Ok(bytes),
        _ => Err("is out of range".to_owned()),
    }
}
