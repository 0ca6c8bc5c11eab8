//! The fields of a registration, each declared once.
//!
//! A new field is a member of [`Registration`], its default in [`Registration::blank`] and an entry here. Rules over
//! several fields stand in [`rules`](super::rules).

use serde_json::{Value, json};

use super::env::{env_schema, read_env, read_secrets};
use super::expect::{Ranges, Schema, Units, ValueRange, ValueSchema, ValueUnit};
use super::values::*;
use super::{
    Format, History, Kind, Limits, MAX_INPUTS, MAX_INTERVAL_MICROS, MIN_INTERVAL_MICROS, Mode, Phase,
    Registration, Replicas, SHA256_EXPECTED, Sha256, Timing, Upload,
};
use crate::command::Command;
use crate::cron::CronExpr;
use crate::declaration::{Field, FieldReader, Flag, Input, words};
use crate::duration::{Span, schema_between};
use crate::fields;
use crate::names::DataName;
use crate::option_text::*;
use crate::schema::{NO_NUL, of, optional};
use crate::selector::Selector;

const WHEN: &str = "When it runs";
const WHAT: &str = "What it is";
const VALUES: &str = "What its values are";
const WHERE: &str = "Where it runs";
const KEPT: &str = "What is kept";

const INTERVAL: &str = "seconds, from 0.01 to 31622400";

/// All fields, in the order in which they are rendered and documented.
pub const FIELDS: &[Field<Registration>] = &[
    Field {
        name: "dataName",
        expected: DataName::EXPECTED,
        description: "The data name whose values it produces",
        schema: || of::<DataName>(""),
        read: |it, r| set(&mut r.data_name, it.required(fields::data_name)),
        write: |r| Some(json!(r.data_name)),
        ..Field::PLAIN
    },
    Field {
        name: "cmd",
        expected: "a command line, or an array of its words; the name of a built-in collector; an expression",
        description: "The command, collector or expression, depending on `mode`. A command line is split like a shell splits words, an array is taken as it \
                      is; no shell is started",
        schema: || of::<Command>(""),
        read: |it, r| {
            let mode = mode_of(it.fields);
            let it = FieldReader { expected: expected_cmd(mode), ..it };
            set(&mut r.cmd, it.required(|value| read_cmd(value, mode)));
        },
        write: |r| Some(json!(r.cmd)),
        label: Some("command"),
        text: Some(|r| r.cmd.to_string()),
        ..Field::PLAIN
    },
    Field {
        name: "max-Time",
        expected: INTERVAL,
        description: "The interval from the start of one run to the start of the next",
        schema: || json!({ "type": ["number", "null"], "minimum": 0.01, "maximum": 31_622_400 }),
        read: |it, r| set(&mut r.timing, it.optional(|value| interval(value).map(Timing::Every))),
        write: |r| if let Timing::Every(span) = &r.timing { Some(json_seconds(*span)) } else { None },
        label: Some("every"),
        text: Some(|r| r.timing.to_string()),
        flags: &[Flag::new(
            "every",
            "TIME",
            WHEN,
            Input::Text(|text| Span::parse(text).map(json_seconds).map_err(|e| e.to_string())),
        )
        .note("e.g. 5s or 250ms")],
    },
    Field {
        name: "gap",
        expected: INTERVAL,
        description: "The time from the end of one run to the start of the next",
        schema: || or_null(schema_between(MIN_INTERVAL_MICROS, MAX_INTERVAL_MICROS)),
        read: |it, r| {
            let gap = it.optional(|value| bounded_span(value, MIN_INTERVAL_MICROS));
            set(&mut r.timing, gap.map(Timing::Gap));
        },
        write: |r| if let Timing::Gap(span) = &r.timing { Some(json_seconds(*span)) } else { None },
        label: Some("every"),
        text: Some(|r| r.timing.to_string()),
        flags: &[Flag::new("gap", "TIME", WHEN, SPAN)],
    },
    Field {
        name: "schedule",
        expected: "a cron expression such as \"*/5 * * * *\"",
        description: "The times of the calendar at which it runs: five cron fields, or six with seconds first; in UTC, or in \
                      the zone of a `TZ=Europe/Berlin` in front",
        schema: || optional::<CronExpr>(""),
        read: |it, r| set(&mut r.timing, it.optional(fields::parsed::<CronExpr>).map(Timing::Cron)),
        write: |r| if let Timing::Cron(expr) = &r.timing { Some(json!(expr)) } else { None },
        flags: &[Flag::new("schedule", "CRON", WHEN, Input::Text(text_of::<CronExpr>))],
        ..Field::PLAIN
    },
    Field {
        name: "atOnce",
        expected: "true or false",
        description: "With `schedule`: it also runs as soon as a node has it, after a registration, a replacement, a move or a \
                      restart of the agent. Without, it runs at the times of the calendar alone, and those that pass while \
                      the agent is away are not made up for. Other schedules always begin at once",
        schema: || json!({ "type": ["boolean", "null"] }),
        read: |it, r| set(&mut r.at_once, it.optional(fields::truth)),
        write: |r| unless_default(&r.at_once),
        flags: &[Flag::new("at-once", "", WHEN, Input::Switch)],
        ..Field::PLAIN
    },
    Field {
        name: "phase",
        expected: "staggered or aligned",
        description: "Each node runs it at moments of its own (`staggered`, the default), or all nodes at the same moments \
                      of the wall clock (`aligned`, only with `max-Time`)",
        schema: || optional::<Phase>(""),
        read: |it, r| set(&mut r.phase, it.word()),
        write: |r| unless_default(&r.phase),
        flags: &[Flag::new("phase", "PHASE", WHEN, Input::Word(words::<Phase>))],
        ..Field::PLAIN
    },
    Field {
        name: "paused",
        expected: "true or false",
        description: "It runs nowhere until this is taken back; its values and their history stay",
        schema: || json!({ "type": ["boolean", "null"] }),
        read: |it, r| set(&mut r.paused, it.optional(fields::truth)),
        write: |r| unless_default(&r.paused),
        flags: &[Flag::new("paused", "", WHEN, Input::Switch)],
        ..Field::PLAIN
    },
    Field {
        name: "kind",
        expected: "collector or processor",
        description: "A `collector` (the default) measures, a `processor` (the default with the mode `expr`) derives",
        schema: || optional::<Kind>(""),
        read: |it, r| {
            let default = if mode_of(it.fields) == Mode::Expr { Kind::Processor } else { Kind::Collector };
            r.kind = it.word().unwrap_or(default);
        },
        write: |r| Some(json!(r.kind)),
        flags: &[Flag::new("kind", "KIND", WHAT, Input::Word(words::<Kind>))
            .note("`processor` is also the default with --inputs")],
        ..Field::PLAIN
    },
    Field {
        name: "mode",
        expected: "exec, stream, builtin or expr",
        description: "How it runs: a process a run (`exec`, the default), one process that prints a value a line \
                      (`stream`), a collector inside the agent (`builtin`), or an expression over its inputs (`expr`)",
        schema: || optional::<Mode>(""),
        read: |it, r| set(&mut r.mode, it.word()),
        write: |r| Some(json!(r.mode)),
        flags: &[Flag::new("mode", "MODE", WHAT, Input::Word(words::<Mode>))],
        ..Field::PLAIN
    },
    Field {
        name: "format",
        expected: "auto, text, json, number, nodes, prometheus, influx, nagios, munin, netdata, csv, logfmt or ndjson",
        description: "How output becomes values, by default `auto`: JSON if it parses, else the text; `nodes` is an object of \
                      node name to value, `openmetrics` is `prometheus`",
        schema: || json!({ "oneOf": [of::<Format>(""), { "const": "openmetrics" }, { "type": "null" }] }),
        read: |it, r| set(&mut r.format, it.word()),
        write: |r| Some(json!(r.format)),
        flags: &[Flag::new("format", "FORMAT", WHAT, Input::Word(words::<Format>))],
        ..Field::PLAIN
    },
    Field {
        name: "strict",
        expected: "true or false",
        description: "One bad record spoils the whole output, instead of being left out",
        schema: || json!({ "type": ["boolean", "null"] }),
        read: |it, r| set(&mut r.strict, it.optional(fields::truth)),
        write: |r| unless_default(&r.strict),
        flags: &[Flag::new("strict", "", WHAT, Input::Switch)],
        ..Field::PLAIN
    },
    Field {
        name: "okExits",
        expected: "an array of 1 to 64 exit codes from 0 to 255, each once",
        description: "The exit codes after which the output of a run is read, by default 0; after all others it has failed",
        schema: ok_exits_schema,
        read: |it, r| set(&mut r.ok_exits, it.optional(read_ok_exits)),
        write: |r| unless_default(&r.ok_exits),
        flags: &[Flag::new("ok-exits", "CODES", WHAT, Input::List(exit_code)).note("e.g. 0,4,64")],
        ..Field::PLAIN
    },
    Field {
        name: "schema",
        expected: "a part of JSON Schema",
        description: "The shape of its values; others are kept from readers",
        schema: || optional::<ValueSchema>(""),
        read: |it, r| r.expect.schema = it.part(Schema::from_json),
        write: |r| r.expect.schema.as_ref().map(Schema::to_json),
        flags: &[Flag::new("schema", "JSON", VALUES, Input::Text(json_text))],
        ..Field::PLAIN
    },
    Field {
        name: "range",
        expected: "{\"min\": 0, \"max\": 1}, or {\"/load1\": {\"min\": 0}}",
        description: "The range of its values, or of places in them; others are kept from readers",
        schema: || optional::<ValueRange>(""),
        read: |it, r| r.expect.range = it.part(Ranges::from_json),
        write: |r| r.expect.range.as_ref().map(Ranges::to_json),
        flags: &[Flag::new("range", "RANGE", VALUES, Input::Text(range_text))
            .note("0..1, 0.., ..100, or JSON such as {\"/load\": {\"min\": 0}}")],
        ..Field::PLAIN
    },
    Field {
        name: "unit",
        expected: "a text of 1 to 64 characters, or {\"/load1\": \"s\"}",
        description: "The unit of its values, or of places in them; those with another one are kept from readers",
        schema: || optional::<ValueUnit>(""),
        read: |it, r| r.expect.unit = it.part(Units::from_json),
        write: |r| r.expect.unit.as_ref().map(Units::to_json),
        flags: &[Flag::new("unit", "UNIT", VALUES, Input::Text(unit_text))],
        ..Field::PLAIN
    },
    Field {
        name: "timeout",
        expected: "more than 0 and at most a year: seconds, or \"5s\"",
        description: "The time after which a run is ended; by default the interval, at most 30 s",
        schema: || or_null(schema_between(1_000, MAX_INTERVAL_MICROS)),
        read: |it, r| r.timeout = it.optional(|value| bounded_span(value, 1_000)),
        write: |r| r.timeout.map(json_seconds),
        text: Some(|r| r.timeout.unwrap_or_default().to_string()),
        flags: &[Flag::new("timeout", "TIME", WHEN, SPAN)],
        ..Field::PLAIN
    },
    Field {
        name: "nodes",
        expected: "a label selector such as \"zone=a,gpu\" or \"node=n1\"",
        description: "The nodes on which it runs, by their labels; by default all",
        schema: || optional::<Selector>(""),
        read: |it, r| set(&mut r.nodes, it.optional(fields::parsed)),
        write: |r| (!r.nodes.is_empty()).then(|| json!(r.nodes)),
        flags: &[
            Flag::new("nodes", "SELECTOR", WHERE, Input::Text(text_of::<Selector>)).note("e.g. 'zone=a,gpu'")
        ],
        ..Field::PLAIN
    },
    Field {
        name: "replicas",
        expected: "\"all\", or a number from 1 to 10000",
        description: "The number of these nodes on which it runs, or `all`; by default all, and 1 of a processor that is an \
                      executable and of whatever answers for other nodes (`format: nodes`)",
        schema: || {
            json!({ "oneOf": [
                { "const": "all" }, { "type": "integer", "minimum": 1, "maximum": 10_000 }, { "type": "null" },
            ] })
        },
        read: |it, r| r.replicas = it.optional(read_replicas).unwrap_or(default_replicas(r)),
        write: |r| match r.replicas {
            Replicas::All => Some(json!("all")),
            Replicas::Count(count) => Some(json!(count)),
        },
        flags: &[Flag::new("replicas", "N", WHERE, Input::Text(|text| Ok(scalar(text))))],
        ..Field::PLAIN
    },
    Field {
        name: "inputs",
        expected: "an array of data names, each once",
        description: "The data names that a processor reads, without its own",
        schema: || {
            json!({
                "type": ["array", "null"], "items": of::<DataName>(""), "maxItems": MAX_INPUTS, "uniqueItems": true,
            })
        },
        read: |it, r| set(&mut r.inputs, it.optional(read_inputs)),
        write: |r| unless_default(&r.inputs),
        label: Some("reads"),
        flags: &[Flag::new("inputs", "NAMES", WHAT, Input::List(text_of::<DataName>))
            .alias("input")
            .note("with commas between them")],
        ..Field::PLAIN
    },
    Field {
        name: "params",
        expected: "an object of name to string, number or boolean",
        description: "Parameters, which the executable finds as `ESTIMAND_PARAM_NAME`; names that differ in case only are the \
                      same",
        schema: || {
            json!({
                "type": ["object", "null"], "propertyNames": { "pattern": VARIABLE }, "maxProperties": MAX_ENTRIES,
                "additionalProperties": { "type": ["string", "number", "boolean"], "pattern": NO_NUL },
            })
        },
        read: |it, r| set(&mut r.params, it.optional(read_params)),
        write: |r| unless_default(&r.params),
        flags: &[Flag::new("param", "KEY=VALUE", WHAT, Input::Pairs(pair_of_scalar)).note("may be repeated")],
        ..Field::PLAIN
    },
    Field {
        name: "env",
        expected: "an object of name to string",
        description: "Variables of the executable's environment",
        schema: || env_schema(&json!("string")),
        read: |it, r| r.env = read_env(it),
        write: |r| (!r.env.is_empty() || !r.secrets.is_empty()).then(|| r.env_to_json()),
        flags: &[Flag::new("env", "KEY=VALUE", WHAT, Input::Pairs(pair_of_text)).note("may be repeated")],
        ..Field::PLAIN
    },
    Field {
        name: "secrets",
        expected: "an array of names of `env`, each once",
        description: "The variables of `env` whose values are shown to nobody: they read as null, and null written back keeps \
                      the value",
        schema: || json!({ "type": ["array", "null"], "items": { "type": "string", "pattern": VARIABLE }, "uniqueItems": true }),
        read: |it, r| r.secrets = read_secrets(it),
        write: |r| unless_default(&r.secrets),
        ..Field::PLAIN
    },
    Field {
        name: "sha256",
        expected: SHA256_EXPECTED,
        description: "The SHA-256 of the executable's file, which does not run with any other content",
        schema: || optional::<Sha256>(""),
        read: |it, r| r.sha256 = it.optional(fields::parsed),
        write: |r| r.sha256.map(|digest| json!(digest)),
        flags: &[Flag::new(
            "sha256",
            "DIGEST",
            WHAT,
            Input::Text(|text| text.parse::<Sha256>().map(|digest| json!(digest))),
        )],
        ..Field::PLAIN
    },
    Field {
        name: "upload",
        expected: "an object of sha256 and signature",
        description: "A file that was uploaded: agents that take such files fetch it, and run it with the words of `cmd` \
                      behind the first one as its arguments",
        schema: || optional::<Upload>(""),
        read: |it, r| r.upload = it.part(Upload::from_json),
        write: |r| r.upload.map(|upload| upload.to_json()),
        text: Some(|r| r.upload.map(|upload| upload.sha256.to_string()).unwrap_or_default()),
        ..Field::PLAIN
    },
    Field {
        name: "history",
        expected: "\"1h\", or {\"keep\": \"1h\", \"max\": 1000}",
        description: "How much of the past is kept; by default nothing",
        schema: || optional::<History>(""),
        read: |it, r| r.history = it.part(History::from_json),
        write: |r| r.history.as_ref().map(History::to_json),
        text: Some(|r| r.history.map(|history| history.to_string()).unwrap_or_default()),
        flags: &[
            Flag::new("history", "TIME", KEPT, SPAN)
                .member("keep")
                .meaning("Keep its past values for so long, e.g. 1h"),
            Flag::new(
                "history-max",
                "N",
                KEPT,
                Input::Text(|text| text.parse::<u64>().map(Value::from).map_err(|e| e.to_string())),
            )
            .member("max")
            .meaning("Keep so many past values of each node"),
        ],
        ..Field::PLAIN
    },
    Field {
        name: "limits",
        expected: "an object of memory, cpu, processes, openFiles, disk",
        description: "The resources that a run may use",
        schema: Limits::schema,
        read: |it, r| r.limits = Limits::read(it),
        write: |r| (r.limits != Limits::default()).then(|| r.limits.to_json()),
        text: Some(|r| r.limits.to_string()),
        flags: &[Flag::new(
            "limit",
            "KEY=VALUE",
            WHAT,
            Input::Pairs(|key, text| (key.replace("open-files", "openFiles"), scalar(text))),
        )
        .note("e.g. memory=256MiB, cpu=0.5, processes=20, open-files=100, disk=100MiB; may be repeated")],
        ..Field::PLAIN
    },
    Field {
        name: "configSet",
        expected: "the name of a set, of the form of a data name",
        description: "The set of the `apply` that registered it; `apply --prune` for the same set removes it once the files have \
                      it no more",
        schema: || optional::<DataName>(""),
        read: |it, r| r.config_set = it.optional(fields::data_name),
        write: |r| r.config_set.as_ref().map(|set| json!(set)),
        ..Field::PLAIN
    },
];
