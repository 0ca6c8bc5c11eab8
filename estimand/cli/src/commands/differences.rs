//! The fields in which two versions of a registration or binding differ, for people.

use serde_json::{Map, Value};

/// The fields that the registry sets with every change, so that they say nothing about one.
const BOOKKEEPING: [&str; 3] = ["version", "createdAt", "updatedAt"];
/// The fields whose members are compared one by one.
const OBJECTS: [&str; 4] = ["env", "params", "limits", "history"];

/// A field, or a member of one, that is not the same on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// `timeout`, or `env.LANG`.
    pub field: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

impl Difference {
    /// `+ timeout: 10`, `- timeout: 10` or `~ timeout: 10 → 20`.
    pub fn line(&self) -> String {
        let field = &self.field;
        match (&self.before, &self.after) {
            (None, Some(after)) => format!("+ {field}: {}", shown(after)),
            (Some(before), None) => format!("- {field}: {}", shown(before)),
            (Some(before), Some(after)) => format!("~ {field}: {} → {}", shown(before), shown(after)),
            (None, None) => format!("  {field}"),
        }
    }
}

/// All differences, in order of field.
pub fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<Difference> {
    let mut all = Vec::new();
    for field in fields(before, after).filter(|field| !BOOKKEEPING.contains(&field.as_str())) {
        let (one, other) = (before.get(field), after.get(field));
        match (one, other) {
            (Some(Value::Object(one)), Some(Value::Object(other))) if OBJECTS.contains(&field.as_str()) => {
                for member in fields(one, other) {
                    push(&mut all, format!("{field}.{member}"), one.get(member), other.get(member));
                }
            }
            _ => push(&mut all, field.clone(), one, other),
        }
    }
    all
}

fn push(all: &mut Vec<Difference>, field: String, before: Option<&Value>, after: Option<&Value>) {
    if before != after {
        all.push(Difference { field, before: before.cloned(), after: after.cloned() });
    }
}

/// The names of both, each once.
fn fields<'m>(
    one: &'m Map<String, Value>,
    other: &'m Map<String, Value>,
) -> impl Iterator<Item = &'m String> {
    one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "(secret)".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_said() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let before = map(json!({"a": 1, "b": "x", "env": {"L": "C", "S": null}, "version": 1, "c": [1]}));
        let after = map(json!({"a": 2, "env": {"L": "de", "S": null, "N": ""}, "version": 2, "c": [1]}));
        let lines: Vec<String> = differences(&before, &after).iter().map(Difference::line).collect();
        assert_eq!(lines, ["~ a: 1 → 2", "- b: x", "~ env.L: C → de", "+ env.N: "]);
        assert_eq!(differences(&before, &before), []);
    }
}
