//! Readers of single values in a task's document.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use super::{After, Input, On, Retries, Volume};
use crate::duration::Span;
use crate::fields::{self, Fields};
use crate::file::{FilePath, FilePathError};
use crate::file_share::{ReadPath, ReadPathError};
use crate::json::kind_of;
use crate::problem::FieldError;
use crate::resources;
use crate::task::{LEASE_EXPECTED, LEASES, PARAMETERS_VARIABLE};
use crate::task_files::{MAX_TASK_FILES, OutputPattern};
use crate::task_stop::{CHECKPOINT_GRACE_EXPECTED, CHECKPOINT_GRACES};

/// The width of the paper's columns.
pub(super) const MAX_TEXT_BYTES: usize = 256;
const MAX_VOLUMES: usize = 64;
const MAX_VARIABLES: usize = 512;
pub(super) const MAX_PRIORITY: i32 = 1_000_000;
/// The most tasks of an array.
pub(super) const MAX_COUNT: u32 = 10_000;
pub(super) const MAX_AFTER: usize = 64;

pub(super) const RETRIES_EXPECTED: &str =
    "a number from 0 to 1000, or {\"count\": 3, \"backOff\": \"1s\", \"maxBackOff\": \"5m\"}";

pub(super) const COUNT_EXPECTED: &str = "a whole number from 1 to 10000";
pub(super) const AFTER_EXPECTED: &str =
    "ids of tasks or arrays, each as a text or as {\"id\": \"a\", \"on\": \"end\"}";

pub(super) const INPUTS_EXPECTED: &str =
    "paths of files, each as a text or as {\"file\": \"data/train.csv\", \"as\": \"train.csv\"}";
pub(super) const OUTPUTS_EXPECTED: &str =
    "paths in its folder, such as \"model.bin\" or \"logs/*\", as an array or one alone";

pub(super) const PORT_EXPECTED: &str = "a whole number from 1 to 65535, or 0 for one that the agent chooses";

pub(super) fn port(value: &Value) -> Result<u16, String> {
    let number = value.as_u64().ok_or_else(|| format!("is {}, not a whole number", kind_of(value)))?;
    u16::try_from(number).map_err(|_| "is no port".to_owned())
}

pub(super) fn id(value: &Value) -> Result<String, String> {
    match fields::id(value)? {
        // The paths of requests.
        id if ["events", "news", "progress", "tunnels", "watch"].contains(&&*id) => {
            Err("is a word of the interface".to_owned())
        }
        id => Ok(id),
    }
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    fields::text(value, MAX_TEXT_BYTES)
}

pub(super) fn image(value: &Value) -> Result<String, String> {
    let image = text(value)?;
    let wrong = image.contains(|c: char| c.is_whitespace() || c.is_control()) || image.starts_with('-');
    if wrong { Err("is not the name of an image".to_owned()) } else { Ok(image) }
}

pub(super) fn directory(value: &Value) -> Result<String, String> {
    let path = text(value)?;
    if path.starts_with('/') { Ok(path) } else { Err("is not an absolute path".to_owned()) }
}

pub(super) fn priority(value: &Value) -> Result<i32, String> {
    let number = value.as_i64().ok_or_else(|| format!("is {}, not a whole number", kind_of(value)))?;
    let number = i32::try_from(number).ok().filter(|number| number.abs() <= MAX_PRIORITY);
    number.ok_or("is out of range".to_owned())
}

/// An array of volumes, or one alone.
pub(super) fn volumes(value: &Value) -> Result<Vec<Volume>, String> {
    let items = match value {
        Value::Array(items) if items.len() > MAX_VOLUMES => {
            return Err(format!("has more than {MAX_VOLUMES}"));
        }
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let volumes: Vec<Volume> = items.iter().map(volume).collect::<Result<_, _>>()?;
    let targets: BTreeSet<&str> = volumes.iter().map(|volume| volume.target.as_str()).collect();
    if targets.len() < volumes.len() { Err("has two volumes at one place".to_owned()) } else { Ok(volumes) }
}

fn volume(value: &Value) -> Result<Volume, String> {
    let text = text(value)?;
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, mode) = match parts.as_slice() {
        [source, target] => (*source, *target, "rw"),
        [source, target, mode] => (*source, *target, *mode),
        _ => return Err(format!("has `{text}`, which is not SOURCE:TARGET or SOURCE:TARGET:ro")),
    };
    let absolute = |path: &str| path.starts_with('/') && !path.split('/').any(|part| part == "..");
    if !absolute(source) || !absolute(target) {
        return Err(format!("has `{text}`, in which not both are absolute paths without `..`"));
    }
    match mode {
        "rw" | "ro" => Ok(Volume { source: source.into(), target: target.into(), read_only: mode == "ro" }),
        _ => Err(format!("has `{text}`, whose mode is neither ro nor rw")),
    }
}

pub(super) fn volumes_to_json(volumes: &[Volume]) -> Option<Value> {
    let text = |volume: &Volume| {
        format!("{}:{}{}", volume.source, volume.target, if volume.read_only { ":ro" } else { "" })
    };
    (!volumes.is_empty()).then(|| json!(volumes.iter().map(text).collect::<Vec<_>>()))
}

/// An object, an array of `NAME=VALUE`, or lines of them. No value is repeated in an error.
pub(super) fn environment(value: &Value) -> Result<BTreeMap<String, String>, Vec<FieldError>> {
    let error = |message: String| {
        FieldError::new("environment", message)
            .expected("an object of name to text, or NAME=VALUE as an array or as lines")
    };
    let pairs: Vec<Result<(String, String), String>> = match value {
        Value::Object(map) => map.iter().map(|(name, value)| variable(name, value)).collect(),
        Value::Array(items) => items.iter().map(|item| fields::string(item).and_then(pair)).collect(),
        Value::String(text) => text.lines().filter(|line| !line.trim().is_empty()).map(pair).collect(),
        other => return Err(vec![error(format!("is {}", kind_of(other)))]),
    };
    if pairs.len() > MAX_VARIABLES {
        return Err(vec![error(format!("has more than {MAX_VARIABLES} variables"))]);
    }
    let (mut environment, mut errors) = (BTreeMap::new(), Vec::new());
    for pair in pairs {
        match pair.and_then(|(name, value)| check_variable(&name, &value).map(|()| (name, value))) {
            Ok((name, _)) if environment.contains_key(&name) => {
                errors.push(error(format!("has `{name}` twice")));
            }
            Ok((name, value)) => drop(environment.insert(name, value)),
            Err(message) => errors.push(error(message)),
        }
    }
    if errors.is_empty() { Ok(environment) } else { Err(errors) }
}

fn variable(name: &str, value: &Value) -> Result<(String, String), String> {
    match value {
        Value::String(text) => Ok((name.to_owned(), text.clone())),
        other => Err(format!("has `{name}`, which is {}", kind_of(other))),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("has a variable without a `=`")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

fn check_variable(name: &str, value: &str) -> Result<(), String> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !first || name.len() > 128 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("has `{name}`, which is not a variable's name: letters, digits and `_`"));
    }
    if name.starts_with("ESTIMAND_") && name != PARAMETERS_VARIABLE {
        return Err(format!("has `{name}`: names that begin with ESTIMAND_ are set by the agent"));
    }
    if value.contains('\0') { Err(format!("has `{name}`, whose value contains a NUL")) } else { Ok(()) }
}

pub(super) fn names(value: &Value) -> Result<BTreeSet<String>, String> {
    let Value::Array(items) = value else { return Err(format!("is {}, not an array", kind_of(value))) };
    items.iter().map(|item| fields::string(item).map(str::to_owned)).collect()
}

/// Amounts of resources, without those of which nothing is asked for.
pub(super) fn some_resources(value: &Value) -> Result<BTreeMap<String, u64>, Vec<FieldError>> {
    let mut amounts = resources::read("resources", value)?;
    amounts.retain(|_, amount| *amount > 0);
    Ok(amounts)
}

pub(super) fn millis(value: &Value) -> Result<u64, String> {
    let span: Span = match value {
        Value::Number(_) | Value::String(_) => {
            serde_json::from_value(value.clone()).map_err(|e| e.to_string())?
        }
        other => return Err(format!("is {}, not a duration", kind_of(other))),
    };
    match span.as_micros() / 1000 {
        0 => Err("is less than a millisecond".to_owned()),
        millis => Ok(millis),
    }
}

pub(super) fn lease(value: &Value) -> Result<Span, String> {
    span_within(value, &LEASES, LEASE_EXPECTED)
}

pub(super) fn checkpoint_grace(value: &Value) -> Result<Span, String> {
    span_within(value, &CHECKPOINT_GRACES, CHECKPOINT_GRACE_EXPECTED)
}

fn span_within(value: &Value, bounds: &RangeInclusive<Duration>, expected: &str) -> Result<Span, String> {
    let micros = millis(value)?.saturating_mul(1000);
    match Span::from_micros(micros) {
        Ok(span) if bounds.contains(&span.as_std()) => Ok(span),
        _ => Err(format!("is not {expected}")),
    }
}

pub(super) fn retries(value: &Value) -> Result<Retries, Vec<FieldError>> {
    const MOST: u64 = 1000;
    let count = |value: &Value| fields::whole(value, 0, MOST).map(|count| count as u32);
    let Value::Object(map) = value else {
        let wrong =
            |message| vec![FieldError::new("retries", message).given(value).expected(RETRIES_EXPECTED)];
        return count(value).map(|count| Retries { count, ..Retries::default() }).map_err(wrong);
    };
    let mut inner = Fields::nested("retries", map.clone());
    let plain = Retries::default();
    let read = Retries {
        count: inner.required("count", "0 to 1000", count).unwrap_or(0),
        back_off: inner.optional("backOff", "a duration such as \"1s\"", millis).unwrap_or(plain.back_off),
        max_back_off: inner
            .optional("maxBackOff", "a duration such as \"5m\"", millis)
            .unwrap_or(plain.max_back_off),
    };
    match inner.end() {
        errors if errors.is_empty() => Ok(read),
        errors => Err(errors),
    }
}

pub(super) fn retries_to_json(retries: &Retries) -> Option<Value> {
    let Retries { count, back_off, max_back_off } = *retries;
    let plain = Retries { count, ..Retries::default() };
    let seconds = |millis: u64| json!(millis as f64 / 1000.0);
    match retries {
        _ if *retries == Retries::default() => None,
        _ if *retries == plain => Some(json!(count)),
        _ => {
            Some(json!({ "count": count, "backOff": seconds(back_off), "maxBackOff": seconds(max_back_off) }))
        }
    }
}

pub(super) fn count(value: &Value) -> Result<u32, String> {
    fields::whole(value, 1, u64::from(MAX_COUNT)).map(|count| u32::try_from(count).unwrap_or(MAX_COUNT))
}

/// An array of dependencies, or one alone.
pub(super) fn after(value: &Value) -> Result<Vec<After>, Vec<FieldError>> {
    let error = |message: String| vec![FieldError::new("after", message).expected(AFTER_EXPECTED)];
    let items = match value {
        Value::Array(items) if items.len() > MAX_AFTER => {
            return Err(error(format!("has more than {MAX_AFTER}")));
        }
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut all: Vec<After> = Vec::new();
    for item in items {
        let next = dependency(item)?;
        if all.iter().any(|known| known.id == next.id) {
            return Err(error(format!("names `{}` twice", next.id)));
        }
        all.push(next);
    }
    Ok(all)
}

fn dependency(value: &Value) -> Result<After, Vec<FieldError>> {
    let Value::Object(map) = value else {
        let wrong = |message| vec![FieldError::new("after", message).given(value).expected(AFTER_EXPECTED)];
        return id(value).map(|id| After { id, on: On::default() }).map_err(wrong);
    };
    let mut inner = Fields::nested("after", map.clone());
    let read = After {
        id: inner.required("id", "the id of a task or array", id).unwrap_or_default(),
        on: inner.optional("on", "success or end", fields::parsed).unwrap_or_default(),
    };
    match inner.end() {
        errors if errors.is_empty() => Ok(read),
        errors => Err(errors),
    }
}

pub(super) fn after_to_json(after: &[After]) -> Option<Value> {
    let one = |After { id, on }: &After| match on {
        On::Success => json!(id),
        On::End => json!({ "id": id, "on": on }),
    };
    (!after.is_empty()).then(|| after.iter().map(one).collect())
}

/// An array of inputs, or one alone. No two of them have one place, or one lies in another.
pub(super) fn inputs(value: &Value) -> Result<Vec<Input>, Vec<FieldError>> {
    let error = |message: String| vec![FieldError::new("inputs", message).expected(INPUTS_EXPECTED)];
    let all: Vec<Input> = some(value).map_err(error)?.iter().map(input).collect::<Result<_, _>>()?;
    let places: BTreeSet<&str> = all.iter().map(|input| input.place.as_str()).collect();
    if places.len() < all.len() {
        return Err(error("has two files at one place".to_owned()));
    }
    let within = all.iter().find_map(|input| {
        let place = input.place.as_str();
        let folders = place.match_indices('/').map(|(at, _)| &place[..at]);
        folders.into_iter().find(|folder| places.contains(folder)).map(|folder| (place, folder))
    });
    match within {
        Some((place, folder)) => {
            Err(error(format!("has a file at `{place}`, and `{folder}` is a file already")))
        }
        None => Ok(all),
    }
}

/// A file lies under the path that it has in its owner's folder, if nothing else is said.
fn input(value: &Value) -> Result<Input, Vec<FieldError>> {
    let Value::Object(map) = value else {
        let wrong = |message| vec![FieldError::new("inputs", message).given(value).expected(INPUTS_EXPECTED)];
        return read_path(value).map(|file| Input { place: file.path().clone(), file }).map_err(wrong);
    };
    let mut inner = Fields::nested("inputs", map.clone());
    let file = inner.required("file", "the path of a file", read_path);
    let place = inner.optional("as", "a path in the task's folder", file_path);
    match (inner.end(), file) {
        (errors, Some(file)) if errors.is_empty() => {
            Ok(Input { place: place.unwrap_or_else(|| file.path().clone()), file })
        }
        (errors, _) => Err(errors),
    }
}

fn file_path(value: &Value) -> Result<FilePath, String> {
    let text = fields::string(value)?;
    match text.ends_with('/') {
        true => Err("is a folder".to_owned()),
        false => text.parse().map_err(|error: FilePathError| error.to_string()),
    }
}

fn read_path(value: &Value) -> Result<ReadPath, String> {
    let text = fields::string(value)?;
    match text.ends_with('/') {
        true => Err("is a folder".to_owned()),
        false => text.parse().map_err(|error: ReadPathError| error.to_string()),
    }
}

pub(super) fn inputs_to_json(inputs: &[Input]) -> Option<Value> {
    let one = |Input { file, place }: &Input| match place == file.path() {
        true => json!(file),
        false => json!({ "file": file, "as": place }),
    };
    (!inputs.is_empty()).then(|| inputs.iter().map(one).collect())
}

/// An array of patterns, or one alone.
pub(super) fn outputs(value: &Value) -> Result<Vec<OutputPattern>, String> {
    let mut all: Vec<OutputPattern> = Vec::new();
    for item in some(value)? {
        let pattern: OutputPattern = fields::string(item)?
            .parse()
            .map_err(|error: FilePathError| format!("has a path that is none: {error}"))?;
        if !all.contains(&pattern) {
            all.push(pattern);
        }
    }
    Ok(all)
}

/// The items of an array that is not too long, or one value alone.
fn some(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::Array(items) if items.len() > MAX_TASK_FILES => Err(format!("has more than {MAX_TASK_FILES}")),
        Value::Array(items) => Ok(items),
        one => Ok(std::slice::from_ref(one)),
    }
}
