//! The schema of a registration, for the description of the interface.
//!
//! A field that is null is absent. The rules over several fields stand in `allOf`, which generators of clients
//! ignore. Only the parser checks that an expression can be read, that `secrets` are names of `env`, and that an
//! interval written as a text is within its bounds.

use serde_json::{Map, Value, json};

use super::env::env_schema;
use super::expect::{ValueRange, ValueSchema, ValueUnit};
use super::fields::FIELDS;
use super::rules::RULES;
use super::{Format, History, Kind, Mode, Phase, Registration, Sha256, Upload, UploadSignature};
use crate::command::Command;
use crate::cron::CronExpr;
use crate::declaration;
use crate::names::DataName;
use crate::selector::Selector;

/// A registration that is new: a [`Registration`] without the fields that only the registry sets.
#[derive(Debug)]
pub enum RegistrationInput {}

macro_rules! described_with_parts {
    ($name:ident, $schema:expr) => {
        crate::described!(
            $name,
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
                Upload,
                UploadSignature,
                ValueRange,
                ValueSchema,
                ValueUnit
            ],
            $schema
        );
    };
}
described_with_parts!(RegistrationInput, object(Map::new()));
described_with_parts!(Registration, object(stored()));

fn object(more: Map<String, Value>) -> Value {
    let mut fields = declaration::properties(FIELDS);
    fields.extend(more);
    let rules: Vec<Value> = RULES.iter().map(|rule| (rule.schema)()).collect();
    json!({
        "description": "How a data name is produced: what runs, where and when. Exactly one of `max-Time`, `gap` and \
                        `schedule` says when",
        "type": "object",
        "required": ["dataName", "cmd"],
        "properties": fields,
        "additionalProperties": false,
        "allOf": rules,
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

/// The fields of a stored registration that differ from those of a new one.
fn stored() -> Map<String, Value> {
    let at =
        json!({ "description": "The registry's own", "type": ["string", "null"], "format": "date-time" });
    let version = json!({
        "description": "Which version it is. Sent back, it is replaced only if that is the current one",
        "type": ["integer", "null"], "minimum": 1, "maximum": u64::MAX,
    });
    let mut env = env_schema(&json!(["string", "null"]));
    env["description"] =
        "Variables of the executable's environment. `null` stands for the value of a secret that is registered already"
            .into();
    Map::from_iter([
        ("env".to_owned(), env),
        ("version".to_owned(), version),
        ("createdAt".to_owned(), at.clone()),
        ("updatedAt".to_owned(), at),
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use utoipa::PartialSchema;

    use super::*;
    use crate::schema::testing;

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
        let known = |body: Value| testing::known(&parse(&body).unwrap_err());
        let schema = testing::json(Registration::schema());
        assert_eq!(testing::fields(&schema), known(json!({ "?": 1 })));
        let limits = &schema["properties"]["limits"];
        assert_eq!(testing::fields(limits), known(registration(json!({ "limits": { "?": 1 } }))));
        let upload = testing::json(Upload::schema());
        assert_eq!(
            testing::fields(&upload),
            known(registration(json!({ "upload": { "?": 1, "sha256": "0f".repeat(32) } })))
        );
        let history = testing::json(History::schema());
        assert_eq!(
            testing::fields(&history["oneOf"][2]),
            known(registration(json!({ "history": { "?": 1 } })))
        );
        let values = testing::json(ValueSchema::schema());
        assert_eq!(testing::fields(&values), known(registration(json!({ "schema": { "?": 1 } }))));
    }

    #[test]
    fn examples_are_taken() {
        for schema in [testing::json(Registration::schema()), testing::json(RegistrationInput::schema())] {
            for example in schema["examples"].as_array().unwrap() {
                let read = parse(example).unwrap();
                assert_eq!(parse(&Value::Object(read.to_map())).unwrap(), read);
            }
        }
    }

    #[test]
    fn words_are_those_that_are_read() {
        for (field, words) in
            [("phase", testing::json(Phase::schema())), ("kind", testing::json(Kind::schema()))]
        {
            for word in words["enum"].as_array().unwrap() {
                parse(&registration(json!({ field: word }))).unwrap();
            }
        }
        for format in
            testing::json(Format::schema())["enum"].as_array().unwrap().iter().chain([&json!("openmetrics")])
        {
            parse(&registration(json!({ "format": format }))).unwrap();
        }
    }
}
