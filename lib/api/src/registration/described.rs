//! What a registration looks like on the wire, for the description of the interface.
//!
//! A field that is null is absent. Which fields go together stands in `allOf`, where those who make clients of a
//! description leave it alone. What no schema says, the parser says: whether an expression can be read, `secrets` are
//! names of `env`, an interval that is written as a text is within its bounds.

use serde_json::{Map, Value, json};

use super::expect::{ValueRange, ValueSchema, ValueUnit};
use super::parts::{MAX_ENTRIES, MAX_HISTORY_COUNT};
use super::{
    Format, History, Kind, MAX_INPUTS, MAX_INTERVAL_MICROS, MIN_INTERVAL_MICROS, Mode, Phase, Registration,
    Sha256,
};
use crate::command::{Command, LINE_PATTERN};
use crate::cron::CronExpr;
use crate::duration::schema_between;
use crate::names::DataName;
use crate::schema::{NO_NUL, of, optional};
use crate::selector::Selector;

const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";

/// A registration that is new: a [`Registration`] without what only the registry sets.
#[derive(Debug)]
pub enum NewRegistration {}

crate::described!(
    NewRegistration,
    [
        Command,
        CronExpr,
        DataName,
        Format,
        History,
        Kind,
        Mode,
        Phase,
        Selector,
        Sha256,
        ValueRange,
        ValueSchema,
        ValueUnit
    ],
    object(&env(&json!("string")), Map::new())
);
crate::described!(
    Registration,
    [
        Command,
        CronExpr,
        DataName,
        Format,
        History,
        Kind,
        Mode,
        Phase,
        Selector,
        Sha256,
        ValueRange,
        ValueSchema,
        ValueUnit
    ],
    object(&env(&json!(["string", "null"])), own())
);

fn object(env: &Value, more: Map<String, Value>) -> Value {
    let mut fields = fields(env);
    fields.extend(more);
    json!({
        "description": "How a data name is produced: what runs, where and when. Exactly one of `max-Time`, `gap` and \
                        `schedule` says when",
        "type": "object",
        "required": ["dataName", "cmd"],
        "properties": fields,
        "additionalProperties": false,
        "allOf": rules(),
        "examples": [
            { "dataName": "load", "cmd": "cat /proc/loadavg", "max-Time": 5 },
            {
                "dataName": "disk_root", "cmd": ["df", "--output=pcent", "/"], "schedule": "*/5 * * * *", "timeout": "10s",
                "nodes": "zone=a", "history": { "keep": "1d" }, "limits": { "memory": "64MiB" },
            },
            { "dataName": "answer", "mode": "expr", "cmd": "6.0 * 7.0", "max-Time": 60 },
        ],
    })
}

fn fields(env: &Value) -> Map<String, Value> {
    let fields = json!({
        "dataName": of::<DataName>(""),
        "cmd": of::<Command>(""),
        "max-Time": {
            "description": "How many seconds there are from the start of one run to that of the next",
            "type": ["number", "null"], "minimum": 0.01, "maximum": 31_622_400,
        },
        "gap": or_null(
            schema_between(MIN_INTERVAL_MICROS, MAX_INTERVAL_MICROS),
            "How long after the end of a run the next one starts",
        ),
        "schedule": optional::<CronExpr>("At which times of the calendar it runs"),
        "phase": optional::<Phase>("By default `staggered`; `aligned` goes with `max-Time` alone"),
        "kind": optional::<Kind>("By default `collector`; with the mode `expr` `processor`"),
        "mode": optional::<Mode>("By default `exec`"),
        "format": {
            "description": "How output becomes values, by default `auto`; `openmetrics` is `prometheus`",
            "oneOf": [of::<Format>(""), { "const": "openmetrics" }, { "type": "null" }],
        },
        "strict": { "description": "Whether one bad record spoils the whole output", "type": ["boolean", "null"] },
        "schema": optional::<ValueSchema>("The shape of its values; others are kept from readers"),
        "range": optional::<ValueRange>("The range of its values; others are kept from readers"),
        "unit": optional::<ValueUnit>("The unit of its values; others are kept from readers"),
        "timeout": or_null(schema_between(1_000, MAX_INTERVAL_MICROS), "After how long a run is ended"),
        "nodes": optional::<Selector>("On which nodes it runs; by default on all"),
        "replicas": {
            "description": "On how many of them. By default on all, but processors that are executables on one",
            "oneOf": [{ "const": "all" }, { "type": "integer", "minimum": 1, "maximum": 10_000 }, { "type": "null" }],
        },
        "inputs": {
            "description": "What a processor reads, which is not its own",
            "type": ["array", "null"], "items": of::<DataName>(""), "maxItems": MAX_INPUTS, "uniqueItems": true,
        },
        "params": {
            "description": "What an executable finds as `ESTIMAND_PARAM_…`; names that differ in case only are the same",
            "type": ["object", "null"], "propertyNames": { "pattern": VARIABLE }, "maxProperties": MAX_ENTRIES,
            "additionalProperties": { "type": ["string", "number", "boolean"], "pattern": NO_NUL },
        },
        "env": env,
        "secrets": {
            "description": "Those names of `env` whose values nobody is shown",
            "type": ["array", "null"], "items": { "type": "string", "pattern": VARIABLE }, "uniqueItems": true,
        },
        "sha256": optional::<Sha256>("What the executable's file must be"),
        "history": optional::<History>("How much of the past is kept; by default nothing"),
        "limits": limits(),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The variables of the environment, whose values are of these types.
fn env(value: &Value) -> Value {
    let words = if value.is_array() {
        ". `null` stands for the value of a secret that is registered already"
    } else {
        ""
    };
    json!({
        "description": format!("Variables of an executable's environment{words}"),
        "type": ["object", "null"],
        "propertyNames": { "pattern": VARIABLE, "not": { "pattern": "^ESTIMAND_" } },
        "maxProperties": MAX_ENTRIES,
        "additionalProperties": { "type": value, "pattern": NO_NUL },
    })
}

fn limits() -> Value {
    json!({
        "description": "What a run may use",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "memory": {
                "description": "Bytes: 1 MiB to 1 PiB",
                "oneOf": [
                    { "type": "integer", "minimum": 1_u64 << 20, "maximum": 1_u64 << 50 },
                    { "type": "string", "pattern": "^[0-9]{1,16} ?(B|KiB|Ki|MiB|Mi|GiB|Gi|KB|MB|GB)?$" },
                    { "type": "null" },
                ],
            },
            "cpu": { "description": "Cores", "type": ["number", "null"], "minimum": 0.01, "maximum": 1024 },
            "processes": { "type": ["integer", "null"], "minimum": 1, "maximum": 1_000_000 },
            "openFiles": { "type": ["integer", "null"], "minimum": 8, "maximum": 1_000_000 },
        },
    })
}

/// What the registry adds, and what may be sent back.
fn own() -> Map<String, Value> {
    let at =
        json!({ "description": "The registry's own", "type": ["string", "null"], "format": "date-time" });
    let version = json!({
        "description": "Which version it is. Sent back, it is replaced only if that is the current one",
        "type": ["integer", "null"], "minimum": 1, "maximum": u64::MAX,
    });
    Map::from_iter([
        ("version".to_owned(), version),
        ("createdAt".to_owned(), at.clone()),
        ("updatedAt".to_owned(), at),
    ])
}

/// The same schema for what may be null.
fn or_null(mut schema: Value, description: &str) -> Value {
    if let Some(schemas) = schema["oneOf"].as_array_mut() {
        schemas.push(json!({ "type": "null" }));
    }
    schema["description"] = description.into();
    schema
}

/// Which fields go together. Each of these is what the parser refuses the opposite of.
fn rules() -> Value {
    let when = |one: &str, types: Value| {
        let fields = ["max-Time", "gap", "schedule"].map(|name| {
            let type_of = if name == one { types.clone() } else { json!("null") };
            (name.to_owned(), json!({ "type": type_of }))
        });
        json!({ "required": [one], "properties": Map::from_iter(fields) })
    };
    let given = |name: &str, value: Value| json!({ "required": [name], "properties": { name: value } });
    let is_periodic = given("max-Time", json!({ "type": "number" }));
    json!([
        { "oneOf": [
            when("max-Time", json!("number")),
            when("gap", json!(["number", "string"])),
            when("schedule", json!("string")),
        ] },
        { "oneOf": [
            { "properties": {
                "mode": { "enum": ["exec", "stream", null] },
                "cmd": { "oneOf": [{ "type": "string", "pattern": LINE_PATTERN }, { "type": "array" }] },
            } },
            { "required": ["mode"], "properties": {
                "mode": { "const": "builtin" },
                "cmd": { "type": "string", "pattern": DataName::PATTERN },
                "format": { "enum": ["auto", "nodes", null] },
                "sha256": { "type": "null" },
            } },
            { "required": ["mode"], "properties": {
                "mode": { "const": "expr" },
                "cmd": { "type": "string" },
                "kind": { "enum": ["processor", null] },
                "format": { "enum": ["auto", "nodes", null] },
                "sha256": { "type": "null" },
            } },
        ] },
        { "anyOf": [
            { "properties": { "inputs": { "maxItems": 0 } } },
            given("kind", json!({ "const": "processor" })),
            given("mode", json!({ "const": "expr" })),
        ] },
        { "anyOf": [{ "properties": { "phase": { "enum": ["staggered", null] } } }, is_periodic] },
        { "anyOf": [{ "properties": { "mode": { "enum": ["exec", "builtin", "expr", null] } } }, is_periodic] },
        { "anyOf": [
            { "properties": { "secrets": { "maxItems": 0 } } },
            given("env", json!({ "type": "object", "minProperties": 1 })),
        ] },
    ])
}

crate::described!(History, [], history());

/// How much of the past is kept: a length of time alone, or with a number of values; both bounds hold.
fn history() -> Value {
    let keep = schema_between(1_000_000, MAX_INTERVAL_MICROS);
    let bounds = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "keep": or_null(keep.clone(), "No longer than this"),
            "max": {
                "description": "No more than so many values of each node",
                "type": ["integer", "null"], "minimum": 1, "maximum": MAX_HISTORY_COUNT,
            },
        },
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use utoipa::PartialSchema;

    use super::*;
    use crate::schema::told;

    fn parse(body: &Value) -> Result<Registration, crate::problem::Problem> {
        Registration::parse(body.to_string().as_bytes()).map(|submitted| submitted.registration)
    }

    fn registration(more: Value) -> Value {
        let mut body = json!({ "dataName": "a", "cmd": "x", "max-Time": 1 });
        let Value::Object(more) = more else { panic!("{more} is no object") };
        body.as_object_mut().unwrap().extend(more);
        body
    }

    #[test]
    fn the_fields_that_are_described_are_those_that_are_read() {
        let known = |body: Value| told::known(&parse(&body).unwrap_err());
        let schema = told::json(Registration::schema());
        assert_eq!(told::fields(&schema), known(json!({ "?": 1 })));
        let limits = &schema["properties"]["limits"];
        assert_eq!(told::fields(limits), known(registration(json!({ "limits": { "?": 1 } }))));
        let history = told::json(History::schema());
        assert_eq!(told::fields(&history["oneOf"][2]), known(registration(json!({ "history": { "?": 1 } }))));
        let values = told::json(ValueSchema::schema());
        assert_eq!(told::fields(&values), known(registration(json!({ "schema": { "?": 1 } }))));
    }

    #[test]
    fn examples_are_taken() {
        for schema in [told::json(Registration::schema()), told::json(NewRegistration::schema())] {
            for example in schema["examples"].as_array().unwrap() {
                let read = parse(example).unwrap();
                assert_eq!(parse(&Value::Object(read.to_map())).unwrap(), read);
            }
        }
    }

    #[test]
    fn words_are_those_that_are_read() {
        for (field, words) in [("phase", told::json(Phase::schema())), ("kind", told::json(Kind::schema()))] {
            for word in words["enum"].as_array().unwrap() {
                parse(&registration(json!({ field: word }))).unwrap();
            }
        }
        for format in
            told::json(Format::schema())["enum"].as_array().unwrap().iter().chain([&json!("openmetrics")])
        {
            parse(&registration(json!({ "format": format }))).unwrap();
        }
    }
}
