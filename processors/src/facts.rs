//! A scope for tests, made of tables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use estimand_expressions::{Fact, PastPart, Sample, Scope};
use serde_json::Value;

/// The past of each input on one node, as ages and values, oldest first; the last is the latest.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    past: BTreeMap<String, Vec<(f64, Value)>>,
    /// The parameters of an expression.
    pub params: BTreeMap<String, Value>,
}

impl Facts {
    /// The latest of inputs, of now.
    pub fn now(latest: &Value) -> Self {
        let members = latest.as_object().into_iter().flatten();
        members.fold(Facts::default(), |facts, (name, value)| facts.with(name, &[(0.0, value.clone())]))
    }

    /// Adds the past of an input.
    pub fn with(mut self, input: &str, past: &[(f64, Value)]) -> Self {
        self.past.insert(input.to_owned(), past.to_vec());
        self
    }
}

impl Scope for Facts {
    fn node(&self) -> Option<&str> {
        Some("node-1")
    }

    fn fact(&self, input: &str) -> Option<Fact<'_>> {
        let (age, value) = self.past.get(input)?.last()?;
        Some(Fact { value, age: *age, state: "fresh" })
    }

    fn samples(&self, input: &str, part: &PastPart, window: Duration) -> Result<Vec<Sample<'_>>, String> {
        let past = self.past.get(input).into_iter().flatten();
        let within = past.filter(|(age, _)| *age <= window.as_secs_f64());
        Ok(within
            .filter_map(|(age, value)| Some(Sample { value: Cow::Borrowed(part.of(value)?), age: *age }))
            .collect())
    }

    fn across(&self, input: &str) -> Vec<(&str, Fact<'_>)> {
        self.fact(input).map(|fact| ("node-1", fact)).into_iter().collect()
    }

    fn param(&self, name: &str) -> Option<&Value> {
        self.params.get(name)
    }
}
