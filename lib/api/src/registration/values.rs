//! Readers of single values in a registration, out of JSON and out of an option of the command line.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{
    Format, Kind, MAX_INPUTS, MAX_INTERVAL_MICROS, MIN_INTERVAL_MICROS, Mode, Registration, Replicas,
};
use crate::command::{Command, MAX_COMMAND_BYTES};
use crate::duration::Span;
use crate::fields::{self, Fields};
use crate::json::kind_of;
use crate::names::DataName;

/// The most entries of `params` and of `env`.
pub(super) const MAX_ENTRIES: usize = 128;
/// The name of a variable.
pub(super) const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";

/// A number of seconds, whole if it is whole.
pub(super) fn json_seconds(span: Span) -> Value {
    let micros = span.as_micros();
    match micros % 1_000_000 {
        0 => json!(micros / 1_000_000),
        _ => json!(micros as f64 / 1e6),
    }
}

/// A duration of at least `least` microseconds and at most a year.
pub(super) fn bounded_span(value: &Value, least: u64) -> Result<Span, String> {
    let span: Span = match value {
        Value::Number(_) | Value::String(_) => {
            serde_json::from_value(value.clone()).map_err(|e| e.to_string())?
        }
        other => return Err(format!("is {}, not a duration", kind_of(other))),
    };
    match (least..=MAX_INTERVAL_MICROS).contains(&span.as_micros()) {
        true => Ok(span),
        false => Err("is out of range".to_owned()),
    }
}

pub(super) fn interval(value: &Value) -> Result<Span, String> {
    let seconds = fields::number(value)?;
    if seconds <= 0.0 {
        return Err("is not more than 0".to_owned());
    }
    let span = Span::from_secs_f64(seconds).ok();
    let bounds = MIN_INTERVAL_MICROS..=MAX_INTERVAL_MICROS;
    span.filter(|span| bounds.contains(&span.as_micros())).ok_or("is out of range".to_owned())
}

/// The mode, for fields that stand before it and depend on it.
pub(super) fn mode_of(fields: &Fields) -> Mode {
    fields.value("mode").and_then(|value| fields::variant(value).ok()).unwrap_or_default()
}

pub(super) fn expected_cmd(mode: Mode) -> &'static str {
    match mode {
        Mode::Exec | Mode::Stream => "a command line, or an array of its words",
        Mode::Builtin => "the name of a built-in collector",
        Mode::Expr => "an expression",
    }
}

pub(super) fn read_cmd(value: &Value, mode: Mode) -> Result<Command, String> {
    match mode {
        Mode::Exec | Mode::Stream => Command::from_json(value).map_err(|e| e.to_string()),
        Mode::Builtin => match fields::string(value)? {
            name if DataName::is_valid(name) => Ok(Command::Line(name.to_owned())),
            _ => Err("is not a name".to_owned()),
        },
        Mode::Expr => match fields::string(value)? {
            text if text.trim().is_empty() => Err("is empty".to_owned()),
            text if text.len() > MAX_COMMAND_BYTES => Err("has more than 4 KiB".to_owned()),
            text if text.contains('\0') => Err("has a NUL".to_owned()),
            text => Ok(Command::Line(text.to_owned())),
        },
    }
}

pub(super) fn read_replicas(value: &Value) -> Result<Replicas, String> {
    match value {
        Value::String(word) if word == "all" => Ok(Replicas::All),
        Value::Number(_) => fields::whole(value, 1, 10_000).map(|count| Replicas::Count(count as u32)),
        _ => Err("is neither".to_owned()),
    }
}

/// The number of nodes of a registration that does not say it.
pub(super) fn default_replicas(registration: &Registration) -> Replicas {
    // Without a process of its own it speaks for the node on which it is.
    let at_the_node = matches!(registration.mode, Mode::Expr | Mode::Builtin);
    match registration.kind {
        // Several that answer for the same nodes would overwrite each other's values.
        _ if registration.format == Format::Nodes => Replicas::Count(1),
        Kind::Processor if !at_the_node => Replicas::Count(1),
        Kind::Collector | Kind::Processor => Replicas::All,
    }
}

pub(super) fn read_inputs(value: &Value) -> Result<Vec<DataName>, String> {
    let Value::Array(items) = value else {
        return Err(format!("is {}, not an array", kind_of(value)));
    };
    if items.len() > MAX_INPUTS {
        return Err(format!("has more than {MAX_INPUTS} names"));
    }
    let names: Vec<DataName> = items.iter().map(fields::data_name).collect::<Result<_, _>>()?;
    match names.iter().collect::<BTreeSet<_>>().len() == names.len() {
        true => Ok(names),
        false => Err("names one twice".to_owned()),
    }
}

/// The most exit codes of `okExits`.
const MAX_OK_EXITS: usize = 64;

pub(super) fn read_ok_exits(value: &Value) -> Result<BTreeSet<u8>, String> {
    let Value::Array(items) = value else {
        return Err(format!("is {}, not an array", kind_of(value)));
    };
    if items.is_empty() || items.len() > MAX_OK_EXITS {
        return Err(format!("has {} codes", items.len()));
    }
    let code = |item: &Value| {
        item.as_u64()
            .and_then(|code| u8::try_from(code).ok())
            .ok_or_else(|| format!("has {item}, which is no exit code"))
    };
    let codes: BTreeSet<u8> = items.iter().map(code).collect::<Result<_, _>>()?;
    match codes.len() == items.len() {
        true => Ok(codes),
        false => Err("has one twice".to_owned()),
    }
}

pub(super) fn ok_exits_schema() -> Value {
    json!({
        "type": ["array", "null"], "items": { "type": "integer", "minimum": 0, "maximum": 255 }, "minItems": 1,
        "maxItems": MAX_OK_EXITS, "uniqueItems": true,
    })
}

/// An exit code out of an option.
pub(super) fn exit_code(text: &str) -> Result<Value, String> {
    text.parse::<u8>()
        .map(Value::from)
        .map_err(|_| format!("`{text}` is no exit code; expected a number from 0 to 255"))
}

pub(super) fn read_params(value: &Value) -> Result<BTreeMap<String, Value>, String> {
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

/// The same schema for a field that may be null.
pub(super) fn or_null(mut schema: Value) -> Value {
    if let Some(schemas) = schema["oneOf"].as_array_mut() {
        schemas.push(json!({ "type": "null" }));
    }
    schema
}

/// JSON.
pub(super) fn json_text(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))
}

/// `0..1`, with either end open, or JSON.
pub(super) fn range_text(text: &str) -> Result<Value, String> {
    let Some((min, max)) = text.split_once("..").filter(|_| !text.starts_with('{')) else {
        return json_text(text);
    };
    let mut map = Map::new();
    for (name, end) in [("min", min), ("max", max)] {
        if !end.is_empty() {
            let number = json_text(end).ok().filter(Value::is_number);
            map.insert(
                name.to_owned(),
                number.ok_or_else(|| format!("`{end}` is no number; expected 0..1"))?,
            );
        }
    }
    Ok(Value::Object(map))
}

/// A unit, or JSON of several.
pub(super) fn unit_text(text: &str) -> Result<Value, String> {
    if text.starts_with('{') { json_text(text) } else { Ok(Value::from(text)) }
}

/// Sets a field that was given and right; otherwise it keeps its default.
pub(super) fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

/// The value of a field that does not have its default.
pub(super) fn unless_default<T: Default + PartialEq + serde::Serialize>(value: &T) -> Option<Value> {
    (*value != T::default()).then(|| json!(value))
}
