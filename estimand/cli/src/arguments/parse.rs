//! Readers of single arguments, for what has no type in `estimand_api` that reads itself.

use std::net::SocketAddr;

use chrono::{DateTime, Local, NaiveTime, SecondsFormat, Utc};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use estimand_api::duration::Span;
use estimand_api::instant;
use estimand_api::labels::{NODE_LABEL, NODE_LABEL_IS_GIVEN};
use estimand_api::problem::shorten;
use estimand_api::selector::{KEY_EXPECTED, VALUE_EXPECTED, is_label_key, is_label_value};
use estimand_api::value::State;
use serde_json::{Map, Number, Value};

/// `key=value`; the value may be empty and may contain further `=`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// The label of a node; the value may be empty.
pub fn label(text: &str) -> Result<(String, String), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err("expected KEY=VALUE, such as zone=a".to_owned());
    };
    match (is_label_key(key), is_label_value(value)) {
        (false, _) => Err(format!("`{}` is not {KEY_EXPECTED}", shorten(key))),
        (true, false) => Err(format!("`{}` is not {VALUE_EXPECTED}", shorten(value))),
        (true, true) => Ok((key.to_owned(), value.to_owned())),
    }
}

/// A label of a node, `KEY=VALUE`.
pub fn label_of_node(text: &str) -> Result<(String, String), String> {
    match label(text)? {
        (key, _) if key == NODE_LABEL => Err(format!("`{key}` {NODE_LABEL_IS_GIVEN}")),
        label => Ok(label),
    }
}

/// The devices of a node, `gpu=ID,ID,…`. A task's agent hears how many GPUs it needs, and of no other resource.
pub fn devices_of_node(text: &str) -> Result<(String, Vec<String>), String> {
    let (resource, ids) = text.split_once('=').ok_or("expected gpu=ID,ID,…")?;
    if resource != "gpu" {
        return Err(format!("only of `gpu` ids can be given, not of `{}`", shorten(resource)));
    }
    let ids: Vec<String> = ids.split(',').map(str::to_owned).collect();
    match ids.iter().find(|id| id.is_empty() || id.chars().any(|c| c.is_whitespace() || c.is_control())) {
        Some(id) if id.is_empty() => Err("an id is empty; expected gpu=ID,ID,…".to_owned()),
        Some(id) => Err(format!("`{}` is no id of a device: it has a space", shorten(id))),
        None => Ok((resource.to_owned(), ids)),
    }
}

/// A change of a label: `KEY=VALUE` and `KEY` set it, `KEY-` takes it away.
pub fn label_change(text: &str) -> Result<(String, Option<String>), String> {
    if text.contains('=') {
        return label(text).map(|(key, value)| (key, Some(value)));
    }
    let (key, value) = match text.strip_suffix('-') {
        Some(key) => (key, None),
        None => (text, Some(String::new())),
    };
    match is_label_key(key) {
        true => Ok((key.to_owned(), value)),
        false => Err(format!("`{}` is not {KEY_EXPECTED}", shorten(key))),
    }
}

/// The address of a service. The rest of it is checked when it is used.
pub fn address(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_url = host.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', ':']));
    match is_url || text.starts_with("unix:/") {
        true => Ok(text.to_owned()),
        false => Err("expected http://HOST:PORT, https://HOST:PORT or unix:/PATH".to_owned()),
    }
}

/// An instant or a duration from now, as the interface takes it. `18:00` is the next time that clocks here show it.
pub fn time_to_come(text: &str) -> Result<String, String> {
    if let Ok(time) = NaiveTime::parse_from_str(text, "%H:%M") {
        return next(time, Local::now()).ok_or_else(|| format!("clocks here do not show {text} soon"));
    }
    match instant::parse_rfc3339(text).is_some() || Span::parse(text).is_ok() {
        true => Ok(text.to_owned()),
        false => {
            Err("expected 18:00, an instant such as 2026-01-31T18:00:00Z, or a duration such as 2h"
                .to_owned())
        }
    }
}

fn next(time: NaiveTime, now: DateTime<Local>) -> Option<String> {
    let today = now.date_naive();
    let days = [Some(today), today.succ_opt()].into_iter().flatten();
    let mut instants = days.filter_map(|day| day.and_time(time).and_local_timezone(Local).earliest());
    let next = instants.find(|at| *at > now)?;
    Some(next.with_timezone(&Utc).to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// An instant or how long ago, kept as it was written, which is how the interface takes it.
pub fn moment(text: &str) -> Result<String, String> {
    match instant::parse_rfc3339(text).is_some() || Span::parse(text).is_ok() {
        true => Ok(text.to_owned()),
        false => {
            Err("expected how long ago, such as 1h, or an instant such as 2026-01-31T23:59:59Z".to_owned())
        }
    }
}

/// A number of bytes, from a mebibyte on.
pub fn size(text: &str) -> Result<u64, String> {
    estimand_api::size::read(&Value::from(text), 1 << 20, 1 << 50)
        .map_err(|wrong| format!("it {wrong}: a size from 1MiB on, such as 2GiB"))
}

/// Reads JSON.
pub fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))
}

/// A parameter of a study that is a number: `NAME=LOW..HIGH`, with `:log` or `:STEP`.
pub fn float_parameter(text: &str) -> Result<Map<String, Value>, String> {
    range(text, "float")
}

/// A parameter of a study that is a whole number.
pub fn integer_parameter(text: &str) -> Result<Map<String, Value>, String> {
    range(text, "integer")
}

/// The numbers themselves are checked by the service, which knows what is right of them.
fn range(text: &str, kind: &str) -> Result<Map<String, Value>, String> {
    let wrong = || {
        format!(
            "expected NAME=LOW..HIGH, such as width=1..8, width=1..8:log or width=1..8:2, not `{}`",
            shorten(text)
        )
    };
    let (name, range) = pair(text).map_err(|_| wrong())?;
    let (bounds, scale) = match range.split_once(':') {
        Some((bounds, scale)) => (bounds, Some(scale)),
        None => (range.as_str(), None),
    };
    let (low, high) = bounds.split_once("..").ok_or_else(wrong)?;
    let number =
        |text: &str| serde_json::from_str::<Number>(text.trim()).map(Value::Number).map_err(|_| wrong());
    let mut parameter = Map::from_iter([
        ("name".to_owned(), Value::from(name)),
        ("type".to_owned(), Value::from(kind)),
        ("low".to_owned(), number(low)?),
        ("high".to_owned(), number(high)?),
    ]);
    match scale {
        Some("log") => drop(parameter.insert("log".to_owned(), Value::from(true))),
        Some(step) => drop(parameter.insert("step".to_owned(), number(step)?)),
        None => {}
    }
    Ok(parameter)
}

/// A parameter of a study that is one of some values: `NAME=A,B`. Numbers, true and false are such.
pub fn choice_parameter(text: &str) -> Result<Map<String, Value>, String> {
    let (name, values) =
        pair(text).map_err(|_| "expected NAME=A,B, such as optimizer=sgd,adam".to_owned())?;
    let value = |text: &str| match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::from(text),
    };
    Ok(Map::from_iter([
        ("name".to_owned(), Value::from(name)),
        ("type".to_owned(), Value::from("choice")),
        ("values".to_owned(), values.split(',').map(value).collect()),
    ]))
}

/// The name `localhost` is 127.0.0.1, as it is for clients.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    if let Some(port) = port {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse().map_err(|_| {
        "expected an IP address and a port, such as 127.0.0.1:7070, localhost:7070 or [::1]:7070".to_owned()
    })
}

pub fn state() -> impl TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.map(State::as_str)).try_map(|word| word.parse::<State>())
}
