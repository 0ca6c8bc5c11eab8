//! Labels of nodes: their sources, and changes to those that operators set.
//!
//! A node has labels from four sources; of the same key the one that is listed last in [`LabelSource`] counts. The
//! labels of operators and credentials are *bound*: the node cannot say otherwise. Others are only claimed. Each node has
//! the bound label `node` with its name, which nobody else gives it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::json::kind_of;
use crate::problem::{FieldError, Problem};
use crate::selector::{
    KEY_EXPECTED, KEY_PATTERN, VALUE_EXPECTED, VALUE_PATTERN, is_label_key, is_label_value,
};

/// The labels of a node, or some of them.
pub type LabelMap = BTreeMap<String, String>;

/// The beginning of data names whose values are labels: the value of `label:gpu` on a node is its label `gpu`.
pub const LABEL_NAMES: &str = "label:";

/// The label of each node whose value is its name: `node=n1` chooses the node `n1`.
pub const NODE_LABEL: &str = "node";

/// The most labels of a node.
pub const MAX_LABELS: usize = 64;
/// The most labels of a node of all sources together.
pub const MAX_LABELS_OF_ALL_SOURCES: usize = 4 * MAX_LABELS;

/// The source of a label.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LabelSource {
    /// A value of the node whose data name begins with `label:`.
    Value,
    /// The agent itself says so.
    Agent,
    /// The token or certificate that the agent shows; or an agent that runs with an operator's rights.
    Credential,
    /// An operator has set it.
    Operator,
}

/// Changes to the labels that operators have set on a node: a value sets one, none takes one away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelChanges(pub BTreeMap<String, Option<String>>);

crate::described!(
    LabelChanges,
    [],
    json!({
        "description": "Labels to set; null takes one away",
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_LABELS,
        "propertyNames": { "pattern": KEY_PATTERN },
        "additionalProperties": { "type": ["string", "null"], "pattern": VALUE_PATTERN },
        "examples": [{ "gpu": "a100", "old": null }],
    })
);

impl LabelChanges {
    /// Reads the body of a request.
    pub fn from_map(map: Map<String, Value>) -> Result<LabelChanges, Problem> {
        let mut errors = Vec::new();
        let mut changes = BTreeMap::new();
        match map.len() {
            0 => errors.push(FieldError::new("body", "changes no label").expected("e.g. {\"zone\": \"a\"}")),
            1..=MAX_LABELS => {}
            more => errors.push(
                FieldError::new("body", format!("changes {more} labels at once"))
                    .expected(format!("at most {MAX_LABELS}")),
            ),
        }
        for (key, value) in map {
            let change = match &value {
                Value::Null => Some(None),
                Value::String(text) => Some(Some(text.clone())),
                _ => None,
            };
            match change {
                None => {
                    let error = FieldError::new(key, format!("is {}, not a text", kind_of(&value)));
                    errors.push(error.given(&value).expected("the label's value, or null to take it away"));
                }
                Some(Some(_)) if key == NODE_LABEL => errors.push(FieldError::new(key, NODE_LABEL_IS_GIVEN)),
                Some(change) => {
                    errors.extend(label_error(&key, change.as_deref().unwrap_or_default(), &key, &key));
                    changes.insert(key, change);
                }
            }
        }
        if errors.is_empty() { Ok(LabelChanges(changes)) } else { Err(Problem::invalid(errors)) }
    }

    pub fn to_json(&self) -> Value {
        json!(self.0)
    }

    /// Applies the changes; false if nothing is another than before.
    pub fn apply(&self, labels: &mut LabelMap) -> bool {
        let before = labels.clone();
        for (key, change) in &self.0 {
            match change {
                Some(value) => drop(labels.insert(key.clone(), value.clone())),
                None => drop(labels.remove(key)),
            }
        }
        *labels != before
    }
}

/// The errors of labels that stand in a field, of which there may be so many.
pub fn label_errors(field: &str, labels: &LabelMap, most: usize) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if labels.len() > most {
        errors.push(FieldError::new(field, format!("are more than {most}")).given(labels.len()));
    }
    for (key, value) in labels {
        errors.extend(label_error(key, value, field, &format!("{field}.{key}")));
    }
    errors
}

/// The error of one label, in the key or in the value.
fn label_error(key: &str, value: &str, place_of_key: &str, place_of_value: &str) -> Option<FieldError> {
    if !is_label_key(key) {
        return Some(FieldError::new(place_of_key, "has a wrong key").given(key).expected(KEY_EXPECTED));
    }
    let error = || FieldError::new(place_of_value, "is not a label's value");
    (!is_label_value(value)).then(|| error().given(value).expected(VALUE_EXPECTED))
}

/// Nobody sets [`NODE_LABEL`].
pub const NODE_LABEL_IS_GIVEN: &str = "is the label that every node has with its name; nobody sets it";

/// Reads labels that are to be those of a node.
pub fn read_labels_of_node(field: &str, value: &Value, most: usize) -> Result<LabelMap, Vec<FieldError>> {
    let labels = read_labels(field, value, most)?;
    match labels.contains_key(NODE_LABEL) {
        true => Err(vec![FieldError::new(format!("{field}.{NODE_LABEL}"), NODE_LABEL_IS_GIVEN)]),
        false => Ok(labels),
    }
}

/// Reads labels of a field of a body.
pub fn read_labels(field: &str, value: &Value, most: usize) -> Result<LabelMap, Vec<FieldError>> {
    let Value::Object(map) = value else {
        let error = FieldError::new(field, format!("is {}, not an object", kind_of(value)));
        return Err(vec![error.expected("labels, such as {\"role\": \"db\"}")]);
    };
    let mut labels = LabelMap::new();
    let mut errors = Vec::new();
    for (key, value) in map {
        match value {
            Value::String(text) => drop(labels.insert(key.clone(), text.clone())),
            other => {
                let error =
                    FieldError::new(format!("{field}.{key}"), format!("is {}, not a text", kind_of(other)));
                errors.push(error.given(other).expected(VALUE_EXPECTED));
            }
        }
    }
    errors.extend(label_errors(field, &labels, most));
    if errors.is_empty() { Ok(labels) } else { Err(errors) }
}

/// The label that a value makes of its node, as its text: true is a label without a value, false and null are none.
/// None for a value that no label can have.
pub fn label_of_value(value: &Value) -> Option<String> {
    let text = match value {
        Value::Bool(true) => String::new(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    is_label_value(&text).then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_applied_and_say_if_they_change_anything() {
        let read = |body: Value| LabelChanges::from_map(body.as_object().unwrap().clone());
        let mut labels = LabelMap::from([("old".to_owned(), "x".to_owned())]);
        let changes = read(json!({ "gpu": "a100", "old": null, "never": null, "bare": "" })).unwrap();
        assert!(changes.apply(&mut labels));
        assert!(!changes.apply(&mut labels));
        assert_eq!(json!(labels), json!({ "gpu": "a100", "bare": "" }));
        assert_eq!(read(changes.to_json()).unwrap(), changes);
        assert!(read(json!({ "node": null })).is_ok(), "one from before it had a meaning goes");
        for (body, field) in [
            (json!({}), "body"),
            (json!({ "a b": "c" }), "a b"),
            (json!({ "a": "b c" }), "a"),
            (json!({ "a": 1 }), "a"),
            (json!({ "node": "n2" }), "node"),
        ] {
            assert_eq!(read(body.clone()).unwrap_err().errors[0].field, field, "{body}");
        }
    }

    #[test]
    fn a_value_becomes_a_label() {
        for (value, label) in [
            (json!(true), Some("")),
            (json!(false), None),
            (json!(null), None),
            (json!(2), Some("2")),
            (json!(0.5), Some("0.5")),
            (json!("a100"), Some("a100")),
            (json!("two words"), None),
            (json!({ "a": 1 }), None),
        ] {
            assert_eq!(label_of_value(&value).as_deref(), label, "{value}");
        }
    }

    #[test]
    fn wrong_labels_are_named() {
        let errors = read_labels("labels", &json!({ "a b": "c", "zone": "a b", "n": 1 }), 3).unwrap_err();
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["labels.n", "labels", "labels.zone"]);
    }
}
