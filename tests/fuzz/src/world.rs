//! A small cluster for expressions: every kind of fact, and a past; it never changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use estimand_expressions::{Fact, PastPart, Sample, Scope};
use serde_json::{Value, json};

/// The inputs of the expressions.
pub struct World {
    facts: BTreeMap<&'static str, Value>,
    cluster: Vec<(&'static str, Value, &'static str)>,
    past: Vec<(f64, Value)>,
    params: BTreeMap<&'static str, Value>,
}

impl World {
    pub fn new() -> World {
        // As deep as values may nest.
        let deep = (0..63).fold(json!([1]), |inner, _| json!([inner]));
        let cpu = json!({"usage": 0.25, "count": 8, "model": "Ada", "none": null, "cores": [0.1, 0.4, 0.2]});
        World {
            facts: BTreeMap::from([
                ("cpu", cpu),
                ("number", json!(7)),
                ("large", json!(9_007_199_254_740_993_u64)),
                ("rows", json!({"rows": [{"n": 1}, {"n": 2}, {"n": 3}]})),
                ("words", json!(["a", "b", "c"])),
                ("text", json!("grün\u{1}")),
                ("long", json!("x".repeat(4_000))),
                ("deep", deep),
                ("nothing", Value::Null),
            ]),
            cluster: vec![
                ("node-1", json!({"usage": 0.25, "count": 8}), "fresh"),
                ("node-2", json!({"usage": 0.75}), "stale"),
                ("node-3", json!({"usage": null}), "failed"),
                ("node-4", json!({"usage": 0.5, "count": 64}), "node-lost"),
            ],
            past: vec![
                (40.0, json!(10)),
                (30.0, json!(30)),
                (20.0, json!(5)),
                (10.0, json!("?")),
                (0.0, json!(25)),
            ],
            params: BTreeMap::from([("low", json!(0.2)), ("name", json!("sda")), ("a-b", json!([1]))]),
        }
    }
}

impl Default for World {
    fn default() -> Self {
        World::new()
    }
}

impl Scope for World {
    fn node(&self) -> Option<&str> {
        Some("node-1")
    }

    fn fact(&self, input: &str) -> Option<Fact<'_>> {
        self.facts.get(input).map(|value| Fact { value, age: 1.5, state: "fresh" })
    }

    fn samples(&self, input: &str, part: &PastPart, window: Duration) -> Result<Vec<Sample<'_>>, String> {
        let within = self.past.iter().filter(|(age, _)| input == "number" && *age <= window.as_secs_f64());
        let shown = within.filter_map(|(age, value)| Some((*age, part.of(value)?)));
        Ok(shown.map(|(age, value)| Sample { value: Cow::Borrowed(value), age }).collect())
    }

    fn across(&self, input: &str) -> Vec<(&str, Fact<'_>)> {
        let known = self.cluster.iter().filter(|_| input == "cpu");
        known.map(|(node, value, state)| (*node, Fact { value, age: 2.0, state })).collect()
    }

    fn param(&self, name: &str) -> Option<&Value> {
        self.params.get(name)
    }
}
