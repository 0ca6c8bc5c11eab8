//! The schemas of a registration's expectations, for the description of the interface.

use serde_json::{Value, json};

use super::schema::{MAX_ENTRIES, TYPES};
use super::{MAX_PLACES, MAX_UNIT_CHARS};
use crate::pointer::Pointer;
use crate::schema::of;

/// The shape of values: see [`Schema`](super::Schema).
#[derive(Debug)]
pub enum ValueSchema {}

/// The bounds of a number.
#[derive(Debug)]
pub enum Range {}

/// Bounds of numbers by where they stand.
#[derive(Debug)]
pub enum ValueRange {}

/// Units of numbers by where they stand.
#[derive(Debug)]
pub enum ValueUnit {}

crate::described!(ValueSchema, [], schema());
crate::described!(Range, [], range());
crate::described!(
    ValueRange,
    [Pointer, Range],
    at("The range of a value, or of places in it", &of::<Range>(""), &of::<Range>(""))
);
crate::described!(ValueUnit, [Pointer], at("The unit of a value, or of places in it", &unit(1), &unit(0)));

/// A schema of the value itself, or by place.
fn at(description: &str, top: &Value, inner: &Value) -> Value {
    let places = json!({
        "description": "By place in the value",
        "type": "object",
        "propertyNames": of::<Pointer>(""),
        "minProperties": 1,
        "maxProperties": MAX_PLACES,
        "additionalProperties": inner,
    });
    json!({ "description": description, "oneOf": [top, places] })
}

fn unit(least: usize) -> Value {
    json!({
        "type": "string", "minLength": least, "maxLength": MAX_UNIT_CHARS,
        "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$",
    })
}

fn range() -> Value {
    let given = |name: &str| json!({ "required": [name], "properties": { name: { "type": "number" } } });
    json!({
        "description": "The bounds of a number, which belong to what is allowed; the least one first",
        "type": "object",
        "additionalProperties": false,
        "properties": { "min": { "type": ["number", "null"] }, "max": { "type": ["number", "null"] } },
        "allOf": [{ "anyOf": [given("min"), given("max")] }],
        "examples": [{ "min": 0, "max": 1 }],
    })
}

fn schema() -> Value {
    let this = of::<ValueSchema>("");
    let word = json!({ "type": "string", "enum": TYPES.map(|(word, _)| word) });
    let number = json!({ "type": ["number", "null"] });
    let count = json!({ "type": ["integer", "null"], "minimum": 0, "maximum": u64::MAX });
    json!({
        "description": "A part of JSON Schema, with its meaning unchanged: at most 1,000 schemas, 16 levels deep",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "type": { "oneOf": [
                word,
                { "type": "array", "items": word, "minItems": 1, "maxItems": TYPES.len() },
                { "type": "null" },
            ] },
            "properties": { "type": ["object", "null"], "additionalProperties": this },
            "required": {
                "type": ["array", "null"], "items": { "type": "string" }, "maxItems": MAX_ENTRIES, "uniqueItems": true,
            },
            "additionalProperties": { "oneOf": [{ "type": ["boolean", "null"] }, this] },
            "items": { "oneOf": [this, { "type": "null" }] },
            "minimum": number,
            "maximum": number,
            "enum": { "type": ["array", "null"], "items": {}, "minItems": 1, "maxItems": MAX_ENTRIES },
            "const": {},
            "minItems": count,
            "maxItems": count,
            "minLength": count,
            "maxLength": count,
        },
        "examples": [{ "type": "object", "required": ["load1"], "properties": { "load1": { "type": "number", "minimum": 0 } } }],
    })
}
