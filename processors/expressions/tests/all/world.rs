//! A small cluster whose facts never change.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use estimand_expressions::{Budget, Error, Expression, Fact, PastPart, Sample, Scope};
use serde_json::{Value, json};

/// A fact with its age and state.
pub struct WorldFact {
    pub value: Value,
    pub age: f64,
    pub state: &'static str,
}

pub struct World {
    pub node: Option<String>,
    pub facts: BTreeMap<String, WorldFact>,
    pub samples: BTreeMap<String, Vec<(f64, Value)>>,
    pub nodes: BTreeMap<String, Vec<(String, WorldFact)>>,
    pub params: BTreeMap<String, Value>,
}

fn fresh(value: Value) -> WorldFact {
    WorldFact { value, age: 1.5, state: "fresh" }
}

impl World {
    pub fn new() -> World {
        let cpu = json!({"usageFraction": 0.25, "freeFraction": 0.75, "count": 8, "model": "Ada",
            "iowaitPerSecond": null, "cores": {"0": {"usageFraction": 0.1}, "1": {"usageFraction": 0.4}}});
        let node = |name: &str, value: Value, state| (name.to_owned(), WorldFact { value, age: 2.0, state });
        World {
            node: Some("node-1".to_owned()),
            facts: BTreeMap::from([
                ("cpu".to_owned(), fresh(cpu)),
                ("load".to_owned(), WorldFact { value: json!({"one": 1.5}), age: 40.0, state: "stale" }),
                ("disk-io".to_owned(), fresh(json!({"sda": {"read": 7}}))),
                ("number".to_owned(), fresh(json!(7))),
                ("large".to_owned(), fresh(json!(9_007_199_254_740_993_u64))),
                ("rows".to_owned(), fresh(json!({"rows": [{"n": 1}, {"n": 2}, {"n": 3}]}))),
                ("words".to_owned(), fresh(json!(["a", "b", "c"]))),
                ("text".to_owned(), fresh(json!("grün"))),
                ("nothing".to_owned(), fresh(json!(null))),
            ]),
            samples: BTreeMap::from([
                (
                    "cpu".to_owned(),
                    [(40.0, 0.5), (30.0, 0.1), (20.0, 0.4), (0.0, 0.2)]
                        .map(|(age, usage)| (age, json!({"usageFraction": usage})))
                        .into(),
                ),
                (
                    "counter".to_owned(),
                    [
                        (40.0, json!(10)),
                        (30.0, json!(30)),
                        (20.0, json!(5)),
                        (10.0, json!("?")),
                        (0.0, json!(25)),
                    ]
                    .into(),
                ),
                ("single".to_owned(), vec![(3.0, json!(4))]),
                (
                    "holes".to_owned(),
                    vec![(3.0, json!({"a": null})), (2.0, json!({})), (1.0, json!({"a": "x"}))],
                ),
            ]),
            nodes: BTreeMap::from([(
                "cpu".to_owned(),
                vec![
                    node("node-1", json!({"usageFraction": 0.25, "count": 8}), "fresh"),
                    node("node-2", json!({"usageFraction": 0.75, "count": 4}), "stale"),
                    node("node-3", json!({"count": null}), "failed"),
                    node("node-4", json!({"usageFraction": 0.5, "count": 64}), "node-lost"),
                ],
            )]),
            params: BTreeMap::from([
                ("low".to_owned(), json!(0.2)),
                ("name".to_owned(), json!("sda")),
                ("a-b".to_owned(), json!([1])),
            ]),
        }
    }
}

impl Scope for World {
    fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    fn fact(&self, input: &str) -> Option<Fact<'_>> {
        let known = self.facts.get(input)?;
        Some(Fact { value: &known.value, age: known.age, state: known.state })
    }

    fn samples(&self, input: &str, part: &PastPart, window: Duration) -> Result<Vec<Sample<'_>>, String> {
        let samples = self.samples.get(input).map_or(&[][..], Vec::as_slice);
        let within = samples.iter().filter(|(age, _)| *age <= window.as_secs_f64());
        let shown = within.filter_map(|(age, value)| Some((*age, part.of(value)?)));
        Ok(shown.map(|(age, value)| Sample { value: Cow::Borrowed(value), age }).collect())
    }

    fn across(&self, input: &str) -> Vec<(&str, Fact<'_>)> {
        let nodes = self.nodes.get(input).map_or(&[][..], Vec::as_slice);
        nodes
            .iter()
            .map(|(node, known)| (&**node, Fact { value: &known.value, age: known.age, state: known.state }))
            .collect()
    }

    fn param(&self, name: &str) -> Option<&Value> {
        self.params.get(name)
    }
}

/// The value of an expression as JSON text, or its error.
pub fn outcome(source: &str, world: &World) -> String {
    let evaluated = || -> Result<Value, Error> {
        Expression::parse(source)?.evaluate(world, Budget::default())?.to_json()
    };
    evaluated().map_or_else(|error| error.to_string(), |json| json.to_string())
}

/// Holds each expression to what it should be; says all that differ.
pub fn check(world: &World, rows: &[(&str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .map(|(source, expected)| (source, expected, outcome(source, world)))
        .filter(|(_, expected, given)| *expected != given)
        .map(|(source, expected, given)| format!("{source}\n  expected {expected}\n  is       {given}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
