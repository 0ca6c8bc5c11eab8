//! The view of one evaluation on the table: the facts of one node, or of the whole cluster, at one moment.

use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_expressions::{Fact, PastPart, Sample, Scope};
use serde_json::Value;

use super::table::{self, Moment, Table};

/// The table as an evaluation sees it.
pub struct View<'a> {
    pub table: &'a Table,
    /// None for the whole cluster.
    pub node: Option<&'a NodeName>,
    pub now: Moment,
    pub params: &'a std::collections::BTreeMap<String, Value>,
}

impl View<'_> {
    fn seconds_since(&self, at: i64) -> f64 {
        (self.now.wall_us - at).max(0) as f64 / 1e6
    }

    fn show<'f>(&self, fact: &'f table::Fact) -> Fact<'f> {
        let age = self.seconds_since(fact.collected_at);
        Fact { value: &fact.value, age, state: fact.state(self.now).as_str() }
    }

    /// Of how many nodes something is known.
    pub fn nodes(&self) -> usize {
        self.table.most_nodes()
    }
}

impl Scope for View<'_> {
    fn node(&self) -> Option<&str> {
        self.node.map(NodeName::as_str)
    }

    fn fact(&self, input: &str) -> Option<Fact<'_>> {
        self.table.get(input, self.node?.as_str()).map(|fact| self.show(fact))
    }

    fn samples(&self, input: &str, part: &PastPart, window: Duration) -> Result<Vec<Sample<'_>>, String> {
        let Some(node) = self.node else { return Ok(Vec::new()) };
        let Some(fact) = self.table.get(input, node.as_str()) else { return Ok(Vec::new()) };
        let window = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
        let oldest = self.now.wall_us.saturating_sub(window);
        let recent = fact.past().since(input, part, oldest)?;
        Ok(recent.map(|(at, value)| Sample { value, age: self.seconds_since(at) }).collect())
    }

    fn across(&self, input: &str) -> Vec<(&str, Fact<'_>)> {
        self.table.of(input).map(|(node, fact)| (node.as_str(), self.show(fact))).collect()
    }

    fn param(&self, name: &str) -> Option<&Value> {
        self.params.get(name)
    }
}
