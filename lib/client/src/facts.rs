//! Facts: the values of names as they are now, kept up by one watch, for programs that decide by them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::value::Value;
use estimand_runtime::{BackOff, Trouble};

use crate::{Client, Event};

/// The pauses after a refusal.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The values of the names that are followed, by name and node.
#[derive(Debug, Default)]
pub struct Facts(BTreeMap<DataName, BTreeMap<NodeName, Value>>);

impl Facts {
    /// The value of a name on a node, with its revision and instant.
    pub fn get(&self, name: &str, node: &str) -> Option<&Value> {
        self.0.get(name)?.get(node)
    }

    /// The values of a name on all nodes.
    pub fn of_name(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.0.get(name).into_iter().flat_map(BTreeMap::values)
    }

    /// Applies an event, and returns the nodes that it is about.
    fn apply(&mut self, event: Event) -> BTreeSet<NodeName> {
        match event {
            Event::Snapshot { values, .. } => {
                let before = std::mem::take(self).0.into_values().flat_map(BTreeMap::into_keys);
                let now = values.into_iter().map(|value| self.put(value));
                before.chain(now).collect()
            }
            Event::Change(value) => BTreeSet::from([self.put(*value)]),
            Event::Delete { data_name, node_name, .. } => {
                if let Some(of_name) = self.0.get_mut(&data_name) {
                    of_name.remove(&node_name);
                }
                BTreeSet::from([node_name])
            }
        }
    }

    fn put(&mut self, value: Value) -> NodeName {
        let node = value.node_name.clone();
        self.0.entry(value.data_name.clone()).or_default().insert(node.clone(), value);
        node
    }
}

impl Client {
    /// Follows the facts of any number of names over one watch, for ever. After each event `told` gets all facts, and the nodes
    /// that the event is about. After a refusal the watch begins anew, with a snapshot. `title` names the facts in the log.
    pub async fn follow(
        &self,
        names: &[DataName],
        title: &str,
        mut told: impl FnMut(&Facts, BTreeSet<NodeName>),
    ) {
        let mut facts = Facts::default();
        let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut trouble = Trouble::default();
        loop {
            let mut watch = self.watch(names.to_vec());
            let error = loop {
                match watch.next().await {
                    Ok(event) => {
                        pauses.reset();
                        if trouble.over() {
                            tracing::info!("{title} can be read again");
                        }
                        let nodes = facts.apply(event);
                        told(&facts, nodes);
                    }
                    Err(error) => break error,
                }
            };
            let pause = pauses.pause();
            if trouble.failed(pause) {
                tracing::warn!(%error, "{title} cannot be read; it is tried again");
            }
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn facts_are_those_of_the_last_snapshot_and_the_events_since() {
        let value = |name: &str, node: &str, revision: u64| -> Value {
            let value = json!({
                "dataName": name, "nodeName": node, "dataValue": 1, "revision": revision, "state": "fresh",
                "collectedAt": "2026-01-01T00:00:00Z", "receivedAt": "2026-01-01T00:00:00Z", "validFor": null,
            });
            serde_json::from_value(value).unwrap()
        };
        let nodes = |names: &[&str]| -> BTreeSet<NodeName> {
            names.iter().map(|name| NodeName::parse(name).unwrap()).collect()
        };
        let mut facts = Facts::default();
        let snapshot = |values| Event::Snapshot { revision: 1, reason: String::new(), values };
        assert_eq!(
            facts.apply(snapshot(vec![value("load", "n1", 1), value("heat", "n2", 2)])),
            nodes(&["n1", "n2"])
        );
        assert_eq!(facts.apply(Event::Change(Box::new(value("load", "n3", 3)))), nodes(&["n3"]));
        let gone = value("heat", "n2", 4);
        let delete = Event::Delete { data_name: gone.data_name, node_name: gone.node_name, revision: 4 };
        assert_eq!(facts.apply(delete), nodes(&["n2"]));
        assert_eq!(facts.get("heat", "n2"), None);
        assert_eq!(facts.of_name("load").map(|value| value.revision).collect::<Vec<_>>(), [1, 3]);
        // Nodes whose values are gone are named, too.
        assert_eq!(facts.apply(snapshot(vec![value("load", "n1", 5)])), nodes(&["n1", "n3"]));
        assert_eq!(facts.get("load", "n1").map(|value| value.revision), Some(5));
        assert_eq!(facts.of_name("load").count(), 1);
    }
}
