//! Changes of several registrations that take effect together or not at all.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Registration, SubmittedRegistration};
use crate::fields::{self, Fields};
use crate::json::{kind_of, parse_object};
use crate::names::DataName;
use crate::problem::{FieldError, Problem};
use crate::schema::{of, optional};

/// The largest body of a batch.
pub const MAX_BATCH_BYTES: usize = 8 << 20;
/// The most names that a batch changes.
pub const MAX_BATCH_NAMES: usize = 10_000;

const REGISTRATIONS_EXPECTED: &str = "an array of registrations";
const REMOVE_EXPECTED: &str = "an array of data names, each once";

/// The changes.
#[derive(Debug, Default, PartialEq)]
pub struct Batch {
    /// Each is registered, or replaces what is there.
    pub registrations: Vec<SubmittedRegistration>,
    pub remove: Vec<DataName>,
    /// The set to which belongs what is registered or replaced.
    pub config_set: Option<DataName>,
}

/// The outcome of a batch for one data name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchOutcome {
    pub data_name: DataName,
    pub outcome: BatchAction,
    /// The version of the registration from then on; of a deletion the one that it took.
    pub version: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BatchAction {
    Created,
    Replaced,
    Unchanged,
    Deleted,
}

crate::described!(
    Batch,
    [DataName, Registration],
    json!({
        "description": "Registrations that are registered or replaced, and names that are removed, all or nothing",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "registrations": {
                "description": "Each is registered, or replaces what is there; with `version`, only if that is the current one",
                "type": ["array", "null"], "items": of::<Registration>(""), "maxItems": MAX_BATCH_NAMES,
            },
            "remove": {
                "description": "The names whose registrations are removed",
                "type": ["array", "null"], "items": of::<DataName>(""), "maxItems": MAX_BATCH_NAMES, "uniqueItems": true,
            },
            "configSet": optional::<DataName>("The set to which belongs what is registered or replaced, unless it names its own"),
        },
        "examples": [{
            "registrations": [{ "dataName": "load", "cmd": "cat /proc/loadavg", "max-Time": 5 }], "remove": ["old"],
        }],
    })
);

impl Batch {
    /// Reads the body of a request, and says all that is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields::new(parse_object(body)?);
        let registrations = fields.part("registrations", read_registrations).unwrap_or_default();
        let remove = fields.optional("remove", REMOVE_EXPECTED, read_names).unwrap_or_default();
        let config_set = fields.optional("configSet", DataName::EXPECTED, fields::data_name);
        let batch = Batch { registrations, remove, config_set };
        let mut seen = BTreeSet::new();
        if let Some(twice) = batch.names().find(|name| !seen.insert((*name).clone())) {
            let message = format!("names `{twice}` twice");
            fields.error("body", message).expected = Some("one wish for each data name".to_owned());
        }
        if batch.names().count() > MAX_BATCH_NAMES {
            fields.error("body", format!("has more than {MAX_BATCH_NAMES} data names"));
        }
        fields.end_body()?;
        Ok(batch)
    }

    /// Every name that it is about.
    pub fn names(&self) -> impl Iterator<Item = &DataName> {
        let registered = self.registrations.iter().map(|one| &one.registration.data_name);
        registered.chain(&self.remove)
    }
}

fn read_registrations(value: &Value) -> Result<Vec<SubmittedRegistration>, Vec<FieldError>> {
    let Value::Array(items) = value else {
        let error = FieldError::new("registrations", format!("is {}, not an array", kind_of(value)));
        return Err(vec![error.expected(REGISTRATIONS_EXPECTED)]);
    };
    let (mut read, mut errors) = (Vec::with_capacity(items.len()), Vec::new());
    for (place, item) in items.iter().enumerate() {
        let at = format!("registrations[{place}]");
        match object(item, &at).and_then(|map| Registration::from_map(map).map_err(|problem| problem.errors))
        {
            Ok(submitted) => read.push(submitted),
            Err(wrong) => errors.extend(wrong.into_iter().map(|error| match error.field == at {
                true => error,
                false => FieldError { field: format!("{at}.{}", error.field), ..error },
            })),
        }
    }
    if errors.is_empty() { Ok(read) } else { Err(errors) }
}

fn object(value: &Value, at: &str) -> Result<Map<String, Value>, Vec<FieldError>> {
    match value {
        Value::Object(map) => Ok(map.clone()),
        other => {
            let error = FieldError::new(at, format!("is {}, not an object", kind_of(other)));
            Err(vec![error.expected("a registration")])
        }
    }
}

fn read_names(value: &Value) -> Result<Vec<DataName>, String> {
    let Value::Array(items) = value else {
        return Err(format!("is {}, not an array", kind_of(value)));
    };
    items.iter().map(fields::data_name).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use utoipa::PartialSchema as _;

    use super::*;
    use crate::schema::testing;

    #[test]
    fn the_described_fields_are_those_that_are_read() {
        let schema = testing::json(Batch::schema());
        let problem = Batch::parse(br#"{"?":1}"#).unwrap_err();
        assert_eq!(testing::fields(&schema), testing::known(&problem));
        Batch::parse(schema["examples"][0].to_string().as_bytes()).unwrap();
    }

    #[test]
    fn every_error_has_its_place() {
        let check = |body: &str, expected: &[&str]| {
            let problem = Batch::parse(body.as_bytes()).unwrap_err();
            let errors: Vec<String> = problem.errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors.len(), expected.len(), "{errors:?}");
            for (error, part) in errors.iter().zip(expected) {
                assert!(error.contains(part), "{error} does not say {part}");
            }
        };
        let one = r#"{"dataName":"a","cmd":"x","max-Time":1}"#;
        check(
            r#"{"registrations":[{"dataName":"a","cmd":"x"},7],"remove":["1"]}"#,
            &[
                "registrations[0].max-Time: is missing",
                "registrations[1]: is a number",
                "remove: is not a data name",
            ],
        );
        check(&format!(r#"{{"registrations":[{one},{one}]}}"#), &["names `a` twice"]);
        check(&format!(r#"{{"registrations":[{one}],"remove":["a"]}}"#), &["names `a` twice"]);
    }
}
