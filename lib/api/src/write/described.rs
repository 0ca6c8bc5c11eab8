//! The schema of a write, for the description of the interface.

use serde_json::{Value, json};

use super::{MAX_ORDER, MAX_PROVENANCE_BYTES, Write};
use crate::duration::Span;
use crate::names::{DataName, NodeName};
use crate::schema::{of, optional};

crate::described!(Write, [DataName, NodeName, Span], write());

fn write() -> Value {
    let place = |words: &str| json!({ "description": words, "type": ["integer", "null"], "minimum": 0, "maximum": MAX_ORDER });
    let together = json!({ "epoch": { "type": "integer" }, "sequence": { "type": "integer" } });
    json!({
        "description": "A value for a data name on a node, or the report that the run which should have renewed it failed",
        "type": "object",
        "required": ["dataName", "nodeName"],
        "additionalProperties": false,
        "properties": {
            "dataName": of::<DataName>(""),
            "nodeName": of::<NodeName>(""),
            "dataValue": { "description": "Any JSON of at most 64 KiB" },
            "collectedAt": {
                "description": "When it was measured; absent: when it arrives",
                "type": ["string", "null"], "format": "date-time",
            },
            "validFor": optional::<Span>("For how long it holds; absent: for ever"),
            "epoch": place("With `sequence` its place among the writes of a slot; of two the smaller one is the older"),
            "sequence": place("Counts the writes of an epoch"),
            "state": {
                "description": "`failed` for the report of a failure",
                "type": ["string", "null"], "enum": ["fresh", "failed", null],
            },
            "provenance": {
                "description": format!("What produced it; at most {MAX_PROVENANCE_BYTES} bytes"),
                "type": ["object", "null"],
            },
        },
        "allOf": [
            { "oneOf": [
                { "required": ["dataValue"], "properties": { "state": { "enum": ["fresh", null] } } },
                { "required": ["state"], "not": { "required": ["dataValue"] }, "properties": {
                    "state": { "const": "failed" }, "validFor": { "type": "null" }, "provenance": { "type": "null" },
                } },
            ] },
            { "oneOf": [
                { "properties": { "epoch": { "type": "null" }, "sequence": { "type": "null" } } },
                { "required": ["epoch", "sequence"], "properties": together },
            ] },
        ],
        "examples": [
            { "dataName": "cpu_usage", "nodeName": "node-1", "dataValue": 0.42 },
            {
                "dataName": "load", "nodeName": "node-1", "dataValue": { "load1": 0.7 }, "collectedAt": "2026-01-31T23:59:59Z",
                "validFor": "15s", "epoch": 1, "sequence": 7,
            },
            { "dataName": "load", "nodeName": "node-1", "state": "failed" },
        ],
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::testing;

    #[test]
    fn the_described_fields_are_those_that_are_read() {
        let schema = write();
        let problem = Write::parse(br#"{"?":1}"#).unwrap_err();
        assert_eq!(testing::fields(&schema), testing::known(&problem));
        for example in schema["examples"].as_array().unwrap() {
            Write::parse(example.to_string().as_bytes()).unwrap();
        }
    }
}
