//! The variables of a registration's environment, and the secrets among them, whose values readers do not see.
//!
//! A secret value is written once and goes to the agents that need it. Any other reader of the registration finds
//! `null` in its place, and the name in `secrets`; sent back like that it means the value that is kept already. No
//! value, secret or not, is repeated in an error.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Registration;
use super::values::{MAX_ENTRIES, VARIABLE, check_variable, object};
use crate::declaration::FieldReader;
use crate::fields;
use crate::json::kind_of;
use crate::names::DataName;
use crate::problem::{FieldError, Problem};
use crate::schema::NO_NUL;

/// Stands for a value that is not shown.
pub const WITHHELD: Value = Value::Null;

/// Reads `env`, in which only secrets may be withheld: null.
pub(super) fn read_env(it: FieldReader<'_>) -> BTreeMap<String, String> {
    let FieldReader { fields, name, expected } = it;
    let secrets = fields.value("secrets").and_then(|value| names(value).ok()).unwrap_or_default();
    let wrong = |message| FieldError::new("env", message).expected(expected);
    let read = fields.part(name, |value| {
        let (mut env, mut errors) = (BTreeMap::new(), Vec::new());
        for (name, value) in object(value).map_err(|message| vec![wrong(message)])? {
            match read_variable(&name, &value, secrets.contains(&name)) {
                Ok(Some(text)) => drop(env.insert(name, text)),
                Ok(None) => {}
                Err(message) => errors.push(wrong(message)),
            }
        }
        if errors.is_empty() { Ok(env) } else { Err(errors) }
    });
    read.unwrap_or_default()
}

/// Reads `secrets`. A sender may take it for an object like `env` and write values into it, so it is not repeated.
pub(super) fn read_secrets(it: FieldReader<'_>) -> BTreeSet<String> {
    let expected = it.expected;
    let read = it.part(|value| {
        names(value).map_err(|message| vec![FieldError::new("secrets", message).expected(expected)])
    });
    read.unwrap_or_default()
}

/// The schema of the variables, whose values are of these types.
pub(super) fn env_schema(types: &Value) -> Value {
    json!({
        "type": ["object", "null"],
        "propertyNames": { "pattern": VARIABLE, "not": { "pattern": "^ESTIMAND_" } },
        "maxProperties": MAX_ENTRIES,
        "additionalProperties": { "type": types, "pattern": NO_NUL },
    })
}

fn names(value: &Value) -> Result<BTreeSet<String>, String> {
    let Value::Array(items) = value else {
        return Err(format!("is {}, not an array", kind_of(value)));
    };
    let names: Vec<&str> = items.iter().map(fields::string).collect::<Result<_, _>>()?;
    let all: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    if all.len() < names.len() { Err("names one twice".to_owned()) } else { Ok(all) }
}

/// The value of a variable; none if it is withheld.
fn read_variable(name: &str, value: &Value, secret: bool) -> Result<Option<String>, String> {
    check_variable(name)?;
    if name.starts_with("ESTIMAND_") {
        return Err(format!("has `{name}`: names that begin with ESTIMAND_ are set by the agent"));
    }
    match value {
        Value::String(text) if text.contains('\0') => {
            Err(format!("has `{name}`, whose value contains a NUL"))
        }
        Value::String(text) => Ok(Some(text.clone())),
        Value::Null if secret => Ok(None),
        Value::Null => Err(format!(
            "has `{name}`, which is null: only the value of a secret, which `secrets` names, may be left out"
        )),
        other => Err(format!("has `{name}`, which is {}", kind_of(other))),
    }
}

impl Registration {
    /// The same without the values of its secrets, for readers.
    #[must_use]
    pub fn redacted(&self) -> Registration {
        let mut shown = self.clone();
        shown.env.retain(|name, _| !self.secrets.contains(name));
        shown
    }

    /// The secrets whose values it does not have.
    pub fn withheld(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().filter(|name| !self.env.contains_key(*name)).map(String::as_str)
    }

    /// Takes the values that it does not have from the registration that it replaces.
    pub fn keep_secrets(&mut self, of: &Registration) {
        let kept: Vec<(String, String)> =
            self.withheld().filter_map(|name| Some((name.to_owned(), of.env.get(name)?.clone()))).collect();
        self.env.extend(kept);
    }

    pub(super) fn env_to_json(&self) -> Value {
        let values = self.env.iter().map(|(name, value)| (name.clone(), json!(value)));
        let withheld = self.withheld().map(|name| (name.to_owned(), WITHHELD));
        Value::Object(values.chain(withheld).collect())
    }
}

/// Refuses secrets that are null, where there is no value of theirs that could be kept.
pub fn no_secrets<'a>(of: &DataName, names: impl Iterator<Item = &'a str>) -> Problem {
    let unknown = |name: &str| {
        let message = format!("is null, and `{of}` has no value of it that could be kept");
        let error = FieldError::new(format!("env.{name}"), message);
        error.given("null").expected("its value: `null` keeps the one that is registered already")
    };
    Problem::invalid(names.map(unknown).collect())
}

/// Takes the values of these variables, and of its own secrets, out of a registration as JSON. An object that has not
/// the form of a registration loses its whole environment.
pub fn redact(registration: &mut Map<String, Value>, names: &BTreeSet<String>) {
    let own =
        registration.get("secrets").map_or_else(|| Some(BTreeSet::new()), |given| self::names(given).ok());
    match (registration.get_mut("env"), own) {
        (Some(Value::Object(env)), Some(own)) => {
            let secret = |name: &String| own.contains(name) || names.contains(name);
            env.iter_mut().filter(|(name, _)| secret(name)).for_each(|(_, value)| *value = WITHHELD);
        }
        (Some(other), _) => *other = WITHHELD,
        (None, _) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(more: &str) -> Result<Registration, crate::problem::Problem> {
        let body = format!(r#"{{"dataName":"a","cmd":"x","max-Time":1,{more}}}"#);
        Registration::parse(body.as_bytes()).map(|submitted| submitted.registration)
    }

    #[test]
    fn a_secret_is_not_shown_and_what_is_shown_can_be_sent_back() {
        let whole = parse(r#""env":{"A":"1","B":"hush"},"secrets":["B"]"#).unwrap();
        assert_eq!(whole.to_map()["env"], json!({ "A": "1", "B": "hush" }));
        let shown = whole.redacted().to_map();
        assert_eq!((&shown["env"], &shown["secrets"]), (&json!({ "A": "1", "B": null }), &json!(["B"])));
        let text = Value::Object(shown).to_string();
        let mut again = Registration::parse(text.as_bytes()).unwrap().registration;
        assert_eq!(again, whole.redacted());
        assert_eq!(again.withheld().collect::<Vec<_>>(), ["B"]);
        again.keep_secrets(&whole);
        assert_eq!(again, whole);
        assert!(!format!("{whole:?}").contains("hush"), "{whole:?}");
    }

    #[test]
    fn errors_repeat_no_value() {
        for (more, part) in [
            (r#""env":{"A":"hush","1":"hush"}"#, "not a variable's name"),
            (r#""env":{"ESTIMAND_A":"hush"}"#, "set by the agent"),
            (r#""env":{"A":null}"#, "only the value of a secret"),
            (r#""env":{"A":["hush"]},"secrets":["A"]"#, "an array"),
            (r#""env":"hush""#, "is a string"),
            (r#""env":["hush"]"#, "is an array"),
            (r#""env":{"A":"hush"},"secrets":["B"]"#, "`B`, which `env` does not have"),
            (r#""env":{"A":"hush"},"secrets":["A","A"]"#, "twice"),
            (r#""env":{"A":"hush\u0000"},"secrets":["A"]"#, "NUL"),
            (r#""env":{"A":"x"},"secrets":{"A":"hush"}"#, "not an array"),
        ] {
            let problem = parse(more).unwrap_err();
            let said = serde_json::to_string(&problem).unwrap();
            assert!(said.contains(part), "{more}: {said}");
            assert!(!said.contains("hush"), "{more}: {said}");
        }
    }

    #[test]
    fn any_json_is_redacted() {
        let check = |given: Value, expected: Value| {
            let Value::Object(mut map) = given else { panic!("no object") };
            redact(&mut map, &BTreeSet::from(["N".to_owned()]));
            assert_eq!(Value::Object(map), expected);
        };
        check(
            json!({ "env": { "A": "1", "B": "2", "N": "3" }, "secrets": ["B"] }),
            json!({ "env": { "A": "1", "B": null, "N": null }, "secrets": ["B"] }),
        );
        check(
            json!({ "env": { "A": "1" }, "secrets": ["B", 7] }),
            json!({ "env": null, "secrets": ["B", 7] }),
        );
        check(json!({ "env": ["A=1"] }), json!({ "env": null }));
        check(json!({ "cmd": "x" }), json!({ "cmd": "x" }));
    }
}
