//! A change of a registration that says only what becomes different: a JSON merge patch (RFC 7396).

use serde_json::{Map, Value, json};

use super::SubmittedRegistration;
use super::{Registration, RegistrationRecord};
use crate::fields::whole;
use crate::json::parse_object;
use crate::problem::{FieldError, Problem};

/// The media type of a merge patch.
pub const MERGE_PATCH_MEDIA_TYPE: &str = "application/merge-patch+json";

/// A merge patch of a registration.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistrationPatch {
    /// The version that it was made for: then it is refused if there is a newer one.
    pub version: Option<u64>,
    changes: Map<String, Value>,
}

crate::described!(
    RegistrationPatch,
    [],
    json!({
        "description": "The fields of a registration that become different, each with its new value; `null` takes a field \
                        out. In objects (`env`, `params`, `history`, `limits`) the members that are not named stay. With \
                        `version`, only if that is the current one",
        "type": "object",
        "examples": [{ "max-Time": 7 }, { "max-Time": null, "schedule": "*/5 * * * *" }, { "env": { "LANG": "C" } }],
    })
);

impl RegistrationPatch {
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        let mut changes = parse_object(body)?;
        let version = changes.remove("version").filter(|value| !value.is_null());
        let version = version.map(|value| match whole(&value, 1, u64::MAX) {
            Ok(version) => Ok(version),
            Err(message) => {
                let error = FieldError::new("version", message).given(&value);
                Err(Problem::invalid_field(error.expected("the version that the patch was made for")))
            }
        });
        Ok(RegistrationPatch { version: version.transpose()?, changes })
    }

    /// The registration with the changes, checked. The values of secrets are withheld in it, so that they are kept.
    pub fn apply(&self, to: &RegistrationRecord) -> Result<Registration, Problem> {
        let name = &to.registration.data_name;
        if let Some(other) = self.changes.get("dataName").filter(|other| **other != json!(name)) {
            let error = FieldError::new("dataName", "is another name than that of the path").given(other);
            let expected = format!("`{name}`; POST /api/registry/{name}/rename renames");
            return Err(Problem::invalid_field(error.expected(expected)));
        }
        let mut merged = Value::Object(to.registration.redacted().to_map());
        merge(&mut merged, Value::Object(self.changes.clone()));
        let Value::Object(merged) = merged else { return Err(Problem::internal()) };
        let SubmittedRegistration { registration, .. } = Registration::from_map(merged)?;
        Ok(registration)
    }
}

/// RFC 7396, section 2.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        match value {
            Value::Null => drop(target.remove(&name)),
            value => merge(target.entry(name).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn a_patch_is_merged_as_the_standard_says() {
        for (original, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            let mut target = original.clone();
            merge(&mut target, patch.clone());
            assert_eq!(target, result, "{original} and {patch}");
        }
    }

    fn registered(more: &str) -> RegistrationRecord {
        let body = format!(r#"{{"dataName":"a","cmd":"x","max-Time":5,"version":3{more}}}"#);
        RegistrationRecord::from_map(serde_json::from_str(&body).unwrap()).unwrap()
    }

    #[test]
    fn what_a_patch_does_not_name_stays() {
        let before =
            registered(r#","env":{"T":"hush","A":"1"},"secrets":["T"],"history":"1h","paused":true"#);
        let patch = RegistrationPatch::parse(br#"{"max-Time":7,"env":{"A":null,"B":"2"}}"#).unwrap();
        let mut after = patch.apply(&before).unwrap();
        assert_eq!(after.withheld().collect::<Vec<_>>(), ["T"]);
        after.keep_secrets(&before.registration);
        let expected = registered(
            r#","max-Time":7,"env":{"T":"hush","B":"2"},"secrets":["T"],"history":"1h","paused":true"#,
        );
        assert_eq!(after, expected.registration);
    }

    #[test]
    fn a_patch_that_makes_something_wrong_says_so() {
        let check = |patch: &str, field: &str| {
            let patch = RegistrationPatch::parse(patch.as_bytes());
            let problem = patch.and_then(|patch| patch.apply(&registered(""))).unwrap_err();
            assert_eq!(problem.errors[0].field, field, "{problem:?}");
        };
        check(r#"{"schedule":"@daily"}"#, "schedule");
        check(r#"{"max-Time":null}"#, "max-Time");
        check(r#"{"every":7}"#, "every");
        check(r#"{"dataName":"b"}"#, "dataName");
        check(r#"{"version":"x"}"#, "version");
        check("[]", "body");
    }
}
