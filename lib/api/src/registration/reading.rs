//! Reads the fields of a registration that are not objects, and what goes with what.
//!
//! Each function takes its field, reports what is wrong with it, and returns what is meant if it is absent.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    Format, Kind, MAX_INPUTS, MAX_INTERVAL_MICROS, MIN_INTERVAL_MICROS, Mode, Phase, Replicas, Timing,
};
use crate::command::Command;
use crate::cron::CronExpr;
use crate::duration::Span;
use crate::fields::{self, Fields};
use crate::json::kind_of;
use crate::names::DataName;

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

pub(super) fn read_mode(fields: &mut Fields) -> Mode {
    let words =
        [("exec", Mode::Exec), ("stream", Mode::Stream), ("builtin", Mode::Builtin), ("expr", Mode::Expr)];
    fields
        .optional("mode", "exec, stream, builtin or expr", |value| fields::word(value, &words))
        .unwrap_or(Mode::Exec)
}

/// An expression has inputs, so it is a processor unless somebody says otherwise.
pub(super) fn read_kind(fields: &mut Fields, mode: Mode) -> Kind {
    let words = [("collector", Kind::Collector), ("processor", Kind::Processor)];
    let kind = fields
        .optional("kind", "collector or processor", |value| fields::word(value, &words))
        .unwrap_or(match mode {
            Mode::Expr => Kind::Processor,
            Mode::Exec | Mode::Stream | Mode::Builtin => Kind::Collector,
        });
    if mode == Mode::Expr && kind == Kind::Collector {
        fields.error("kind", "does not go with the mode `expr`, which reads inputs").expected =
            Some("processor".to_owned());
    }
    kind
}

pub(super) fn read_format(fields: &mut Fields, mode: Mode) -> Format {
    let words = [
        ("auto", Format::Auto),
        ("text", Format::Text),
        ("json", Format::Json),
        ("number", Format::Number),
        ("nodes", Format::Nodes),
        ("prometheus", Format::Prometheus),
        ("openmetrics", Format::Prometheus),
        ("influx", Format::Influx),
        ("nagios", Format::Nagios),
        ("munin", Format::Munin),
        ("netdata", Format::Netdata),
        ("csv", Format::Csv),
        ("logfmt", Format::Logfmt),
    ];
    let known = "auto, text, json, number, nodes, prometheus, influx, nagios, munin, netdata, csv or logfmt";
    let format =
        fields.optional("format", known, |value| fields::word(value, &words)).unwrap_or(Format::Auto);
    let prints = matches!(mode, Mode::Exec | Mode::Stream);
    if !prints && !matches!(format, Format::Auto | Format::Nodes) {
        fields.error("format", "is for what a program prints").expected =
            Some("none, or `nodes` for what answers for all nodes".to_owned());
    }
    format
}

pub(super) fn read_cmd(fields: &mut Fields, mode: Mode) -> Option<Command> {
    let expected = match mode {
        Mode::Exec | Mode::Stream => "a command line, or an array of its words",
        Mode::Builtin => "the name of a built-in collector",
        Mode::Expr => "an expression",
    };
    fields.required("cmd", expected, |value| match mode {
        Mode::Exec | Mode::Stream => Command::from_json(value).map_err(|e| e.to_string()),
        Mode::Builtin => match fields::string(value)? {
            name if DataName::is_valid(name) => Ok(Command::Line(name.to_owned())),
            _ => Err("is not a name".to_owned()),
        },
        Mode::Expr => match fields::string(value)? {
            text if text.trim().is_empty() => Err("is empty".to_owned()),
            text if text.len() > crate::command::MAX_COMMAND_BYTES => Err("has more than 4 KiB".to_owned()),
            text if text.contains('\0') => Err("has a NUL".to_owned()),
            text => Ok(Command::Line(text.to_owned())),
        },
    })
}

/// Reads the one of the three fields that say when it runs.
pub(super) fn read_timing(fields: &mut Fields, mode: Mode) -> Option<Timing> {
    const ALL: [&str; 3] = ["max-Time", "gap", "schedule"];
    let given: Vec<&str> = ALL.into_iter().filter(|name| fields.has(name)).collect();
    let every = fields.optional("max-Time", INTERVAL, |value| interval(value).map(Timing::Every));
    let gap =
        fields.optional("gap", INTERVAL, |value| bounded_span(value, MIN_INTERVAL_MICROS).map(Timing::Gap));
    let cron = fields.optional("schedule", "a cron expression such as \"*/5 * * * *\"", |value| {
        fields::string(value)?.parse::<CronExpr>().map(Timing::Cron).map_err(|e| e.to_string())
    });
    match given.as_slice() {
        [] => {
            let error = fields.error("max-Time", "is missing");
            let expected =
                "the interval in seconds (or `schedule`, a cron expression, or `gap`, from end to start)";
            error.expected = Some(expected.to_owned());
        }
        [_] => {}
        [first, others @ ..] => {
            for other in others {
                fields.error(other, format!("and `{first}` exclude each other: give one of them"));
            }
        }
    }
    for field in ["gap", "schedule"] {
        if mode == Mode::Stream && given.contains(&field) {
            fields.error(field, "does not go with the mode `stream`, whose process decides when it speaks");
        }
    }
    every.or(gap).or(cron)
}

const INTERVAL: &str = "seconds, from 0.01 to 31622400";

fn interval(value: &Value) -> Result<Span, String> {
    let seconds = fields::number(value)?;
    if seconds <= 0.0 {
        return Err("is not more than 0".to_owned());
    }
    let span = Span::from_secs_f64(seconds).ok();
    let bounds = MIN_INTERVAL_MICROS..=MAX_INTERVAL_MICROS;
    span.filter(|span| bounds.contains(&span.as_micros())).ok_or("is out of range".to_owned())
}

pub(super) fn read_phase(fields: &mut Fields, timing: Option<&Timing>) -> Phase {
    let words = [("staggered", Phase::Staggered), ("aligned", Phase::Aligned)];
    let phase = fields.optional("phase", "staggered or aligned", |value| fields::word(value, &words));
    if phase == Some(Phase::Aligned) && !matches!(timing, Some(Timing::Every(_)) | None) {
        fields.error("phase", "`aligned` goes with `max-Time` alone").expected =
            Some("no `phase`: a calendar is the same on all nodes, and a gap never is".to_owned());
    }
    phase.unwrap_or_default()
}

/// What needs no process and speaks for its own node runs everywhere; other processors run once.
pub(super) fn read_replicas(fields: &mut Fields, kind: Kind, mode: Mode, format: Format) -> Replicas {
    let replicas = fields.optional("replicas", "\"all\", or a number from 1 to 10000", |value| match value {
        Value::String(word) if word == "all" => Ok(Replicas::All),
        Value::Number(_) => fields::whole(value, 1, 10_000).map(|count| Replicas::Count(count as u32)),
        _ => Err("is neither".to_owned()),
    });
    let at_the_node = matches!(mode, Mode::Expr | Mode::Builtin) && format != Format::Nodes;
    replicas.unwrap_or(match kind {
        Kind::Processor if !at_the_node => Replicas::Count(1),
        Kind::Collector | Kind::Processor => Replicas::All,
    })
}

pub(super) fn read_inputs(fields: &mut Fields, kind: Kind, own: Option<&DataName>) -> Vec<DataName> {
    let inputs = fields.optional("inputs", "an array of data names, each once", |value| {
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
    });
    let inputs = inputs.unwrap_or_default();
    if kind == Kind::Collector && !inputs.is_empty() {
        fields.error("inputs", "belong to a processor").expected =
            Some("`\"kind\": \"processor\"`".to_owned());
    }
    if own.is_some_and(|own| inputs.contains(own)) {
        fields.error("inputs", "name the registration's own data name, which it would then wait for itself");
    }
    inputs
}
