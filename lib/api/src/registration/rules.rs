//! The rules over several fields of a registration: each as the parser checks it and as the schema says it.

use serde_json::{Map, Value, json};

use super::{Format, Kind, Mode, Phase, Registration, Timing};
use crate::command::LINE_PATTERN;
use crate::fields::Fields;
use crate::names::DataName;

/// The fields of which exactly one says when it runs.
pub const TIMING_FIELDS: [&str; 3] = ["max-Time", "gap", "schedule"];

/// A rule over several fields.
pub(super) struct Rule {
    /// Reports the fields that break it.
    pub check: fn(&Registration, &mut Fields),
    /// A schema that holds for the bodies that keep it.
    pub schema: fn() -> Value,
}

pub(super) const RULES: &[Rule] = &[
    Rule { check: one_timing, schema: one_timing_schema },
    Rule { check: fits_the_mode, schema: fits_the_mode_schema },
    Rule { check: |_, _| {}, schema: one_digest_schema },
    Rule { check: exits_of_a_run, schema: exits_of_a_run_schema },
    Rule { check: inputs_of_a_processor, schema: inputs_of_a_processor_schema },
    Rule { check: alignment_of_intervals, schema: alignment_of_intervals_schema },
    Rule { check: beginning_of_calendars, schema: beginning_of_calendars_schema },
    Rule { check: timing_of_streams, schema: timing_of_streams_schema },
    Rule { check: secrets_of_the_environment, schema: secrets_of_the_environment_schema },
];

fn one_timing(_: &Registration, fields: &mut Fields) {
    let given: Vec<&str> = TIMING_FIELDS.into_iter().filter(|name| fields.value(name).is_some()).collect();
    match given.as_slice() {
        [] => {
            let expected =
                "the interval in seconds (or `schedule`, a cron expression, or `gap`, from end to start)";
            fields.error("max-Time", "is missing").expected = Some(expected.to_owned());
        }
        [first, others @ ..] => {
            for other in others {
                fields.error(other, format!("and `{first}` exclude each other: give one of them"));
            }
        }
    }
}

fn one_timing_schema() -> Value {
    let when = |one: &str, types: Value| {
        let fields = TIMING_FIELDS.map(|name| {
            let type_of = if name == one { types.clone() } else { json!("null") };
            (name.to_owned(), json!({ "type": type_of }))
        });
        json!({ "required": [one], "properties": Map::from_iter(fields) })
    };
    json!({ "oneOf": [
        when("max-Time", json!("number")),
        when("gap", json!(["number", "string"])),
        when("schedule", json!("string")),
    ] })
}

fn fits_the_mode(registration: &Registration, fields: &mut Fields) {
    let prints = matches!(registration.mode, Mode::Exec | Mode::Stream);
    if registration.mode == Mode::Expr && registration.kind == Kind::Collector {
        fields.error("kind", "does not go with the mode `expr`, which reads inputs").expected =
            Some("processor".to_owned());
    }
    if !prints && !matches!(registration.format, Format::Auto | Format::Nodes) {
        fields.error("format", "is for what a program prints").expected =
            Some("none, or `nodes` for what answers for all nodes".to_owned());
    }
    if !prints && registration.upload.is_some() {
        fields.error("upload", "is for what runs an executable").expected =
            Some("none, or the mode `exec` or `stream`".to_owned());
    }
    if registration.upload.is_some() && registration.sha256.is_some() {
        fields.error("sha256", "does not go with `upload`, which names the file by its digest");
    }
    if !prints && registration.sha256.is_some() {
        fields.error("sha256", "is for what runs an executable").expected =
            Some("none, or the mode `exec` or `stream`".to_owned());
    }
}

/// With the form of `cmd`, which its reader checks.
fn fits_the_mode_schema() -> Value {
    json!({ "oneOf": [
        { "properties": {
            "mode": { "enum": ["exec", "stream", null] },
            "cmd": { "oneOf": [{ "type": "string", "pattern": LINE_PATTERN }, { "type": "array" }] },
        } },
        { "required": ["mode"], "properties": {
            "mode": { "const": "builtin" },
            "cmd": { "type": "string", "pattern": DataName::PATTERN },
            "format": { "enum": ["auto", "nodes", null] },
            "sha256": { "type": "null" },
            "upload": { "type": "null" },
        } },
        { "required": ["mode"], "properties": {
            "mode": { "const": "expr" },
            "cmd": { "type": "string" },
            "kind": { "enum": ["processor", null] },
            "format": { "enum": ["auto", "nodes", null] },
            "sha256": { "type": "null" },
            "upload": { "type": "null" },
        } },
    ] })
}

/// [`fits_the_mode`] checks it.
fn one_digest_schema() -> Value {
    json!({ "anyOf": [
        { "properties": { "sha256": { "type": "null" } } },
        { "properties": { "upload": { "type": "null" } } },
    ] })
}

fn exits_of_a_run(registration: &Registration, fields: &mut Fields) {
    if registration.ok_exits.is_empty() {
        return;
    }
    let wrong = match (registration.mode, registration.format) {
        (Mode::Exec, Format::Nagios) => {
            "does not go with the format `nagios`, where the exit code is the state"
        }
        (Mode::Exec, _) => return,
        _ => "goes with the mode `exec` alone",
    };
    fields.error("okExits", wrong).expected = Some("none".to_owned());
}

fn exits_of_a_run_schema() -> Value {
    json!({ "anyOf": [
        { "properties": { "okExits": { "type": "null" } } },
        { "properties": { "mode": { "enum": ["exec", null] }, "format": { "not": { "const": "nagios" } } } },
    ] })
}

fn inputs_of_a_processor(registration: &Registration, fields: &mut Fields) {
    if registration.kind == Kind::Collector && !registration.inputs.is_empty() {
        fields.error("inputs", "belong to a processor").expected =
            Some("`\"kind\": \"processor\"`".to_owned());
    }
    if registration.inputs.contains(&registration.data_name) {
        fields.error("inputs", "name the registration's own data name, which it would then wait for itself");
    }
}

fn inputs_of_a_processor_schema() -> Value {
    json!({ "anyOf": [
        { "properties": { "inputs": { "maxItems": 0 } } },
        given("kind", &json!({ "const": "processor" })),
        given("mode", &json!({ "const": "expr" })),
    ] })
}

fn alignment_of_intervals(registration: &Registration, fields: &mut Fields) {
    if registration.phase == Phase::Aligned && !matches!(registration.timing, Timing::Every(_)) {
        fields.error("phase", "`aligned` goes with `max-Time` alone").expected =
            Some("no `phase`: a calendar is the same on all nodes, and a gap never is".to_owned());
    }
}

fn alignment_of_intervals_schema() -> Value {
    json!({ "anyOf": [{ "properties": { "phase": { "enum": ["staggered", null] } } }, is_periodic()] })
}

fn beginning_of_calendars(registration: &Registration, fields: &mut Fields) {
    if registration.at_once && !matches!(registration.timing, Timing::Cron(_)) {
        fields.error("atOnce", "goes with `schedule` alone").expected =
            Some("no `atOnce`: with an interval or a gap it begins at once in any case".to_owned());
    }
}

fn beginning_of_calendars_schema() -> Value {
    json!({ "anyOf": [
        { "properties": { "atOnce": { "enum": [false, null] } } },
        given("schedule", &json!({ "type": "string" })),
    ] })
}

fn timing_of_streams(registration: &Registration, fields: &mut Fields) {
    for field in ["gap", "schedule"] {
        if registration.mode == Mode::Stream && fields.value(field).is_some() {
            fields.error(field, "does not go with the mode `stream`, whose process decides when it speaks");
        }
    }
}

fn timing_of_streams_schema() -> Value {
    json!({ "anyOf": [{ "properties": { "mode": { "enum": ["exec", "builtin", "expr", null] } } }, is_periodic()] })
}

fn secrets_of_the_environment(registration: &Registration, fields: &mut Fields) {
    let env = fields.value("env").and_then(Value::as_object);
    let missing = registration.secrets.iter().find(|name| env.is_none_or(|env| !env.contains_key(*name)));
    if let Some(missing) = missing {
        fields.error("secrets", format!("names `{missing}`, which `env` does not have")).expected =
            Some("names of `env`; there `null` stands for the value that is kept already".to_owned());
    }
}

fn secrets_of_the_environment_schema() -> Value {
    json!({ "anyOf": [
        { "properties": { "secrets": { "maxItems": 0 } } },
        given("env", &json!({ "type": "object", "minProperties": 1 })),
    ] })
}

fn given(name: &str, value: &Value) -> Value {
    json!({ "required": [name], "properties": { name: value } })
}

fn is_periodic() -> Value {
    given("max-Time", &json!({ "type": "number" }))
}
