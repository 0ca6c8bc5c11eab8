//! Values as series: the numbers that a scrape of `/metrics` shows, by the same names, places and limits.
//!
//! A batch has the values of many names, by node: a node is a resource. It is bounded, and its owner sends it when it is
//! full. A number has the time of its value; a state is of now.

use std::collections::BTreeMap;

use estimand_api::names::NodeName;
use estimand_api::numbers::numbers;
use estimand_api::value::{State, Value};

use crate::messages::{
    AnyValue, AnyValueKind, ExportMetricsServiceRequest, Gauge, KeyValue, Metric, NumberDataPoint, Resource,
    ResourceMetrics, ScopeMetrics,
};

/// From so many points on a batch is full. A value adds at most 257, of which none has more than a kilobyte.
pub const FULL_BATCH: usize = 2_000;

const VALUE: (&str, &str) = (
    "estimand_value",
    "A number of a value, or a boolean as 1 or 0; `path` says where it stands in the value.",
);
const STATE: (&str, &str) = (
    "estimand_value_state",
    "The state of a value: 0 fresh, 1 stale, 2 failed (the last good value), 3 node-lost.",
);

/// Points to be sent together.
#[derive(Debug, Default)]
pub struct Batch {
    nodes: BTreeMap<NodeName, OfNode>,
    points: usize,
    /// Numbers that are left out, because their value has too many.
    left_out: usize,
}

#[derive(Debug, Default)]
struct OfNode {
    numbers: Vec<NumberDataPoint>,
    states: Vec<NumberDataPoint>,
}

impl Batch {
    /// Adds a value. `now` is in nanoseconds since 1970.
    pub fn add(&mut self, value: &Value, now: u64) {
        let text = value.data_value.to_string();
        let found = numbers(&text);
        self.left_out += found.left_out;
        self.points += found.shown.len() + 1;
        let collected =
            u64::try_from(value.collected_at.timestamp_micros()).unwrap_or(0).saturating_mul(1_000);
        let labels = [("data_name", value.data_name.as_str()), ("node", value.node_name.as_str())];
        let of_node = self.nodes.entry(value.node_name.clone()).or_default();
        for number in &found.shown {
            let [name, node] = labels;
            let all = [name, node, ("path", &*number.place)];
            // The value itself stands at no place.
            let labels = if number.place.is_empty() { &all[..2] } else { &all };
            of_node.numbers.push(point(labels, collected, number.number));
        }
        of_node.states.push(point(&labels, now, code(value.state)));
    }

    pub fn is_full(&self) -> bool {
        self.points >= FULL_BATCH
    }

    pub fn points(&self) -> usize {
        self.points
    }

    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The request that sends it; none if there is nothing to send.
    pub fn into_request(self) -> Option<ExportMetricsServiceRequest> {
        let resource_metrics: Vec<_> = self.nodes.into_iter().map(of_node).collect();
        (!resource_metrics.is_empty()).then_some(ExportMetricsServiceRequest { resource_metrics })
    }
}

/// As `/metrics` shows it.
fn code(state: State) -> &'static str {
    match state {
        State::Fresh => "0",
        State::Stale => "1",
        State::Failed => "2",
        State::NodeLost => "3",
    }
}

fn point(labels: &[(&str, &str)], at: u64, number: &str) -> NumberDataPoint {
    let as_int = number.parse().ok();
    let as_double = if as_int.is_none() { number.parse().ok() } else { None };
    let attributes = labels.iter().map(|(key, value)| attribute(key, value)).collect();
    NumberDataPoint { attributes, time_unix_nano: at, as_double, as_int, flags: 0 }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(AnyValueKind::Text(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value) }
}

/// A backend that makes a series of `job` and `instance` finds them here.
fn of_node((node, OfNode { numbers, states }): (NodeName, OfNode)) -> ResourceMetrics {
    let attributes = vec![
        attribute("host.name", node.as_str()),
        attribute("service.name", "estimand"),
        attribute("service.instance.id", node.as_str()),
    ];
    let gauge = |(name, description): (&str, &str), data_points| Metric {
        name: name.to_owned(),
        description: description.to_owned(),
        gauge: Some(Gauge { data_points }),
        ..Metric::default()
    };
    let metrics = [(VALUE, numbers), (STATE, states)].into_iter().filter(|(_, points)| !points.is_empty());
    let metrics = metrics.map(|(metric, points)| gauge(metric, points)).collect();
    ResourceMetrics { resource: Some(Resource { attributes }), scope_metrics: vec![ScopeMetrics { metrics }] }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::values::{Settings, values};

    fn value(name: &str, node: &str, state: &str, data: &Json) -> Value {
        let document = json!({"dataName": name, "nodeName": node, "dataValue": data, "collectedAt": "2023-11-14T22:13:20.000001Z",
            "receivedAt": "2023-11-14T22:13:21Z", "validFor": 5, "state": state, "revision": 7});
        serde_json::from_value(document).unwrap()
    }

    /// The other half of this crate reads what this one writes.
    #[test]
    fn numbers_and_states_of_a_node_are_points_of_a_resource() {
        let mut batch = Batch::default();
        batch.add(&value("load", "n1", "fresh", &json!(0.5)), 1_700_000_009_000_000_000);
        batch.add(
            &value(
                "cpu",
                "n1",
                "stale",
                &json!({"idle": 3, "on": true, "model": "x", "a/b": [18446744073709551615u64]}),
            ),
            1_700_000_009_000_000_000,
        );
        batch.add(&value("text", "n2", "node-lost", &json!("none")), 1_700_000_009_000_000_000);
        assert_eq!((batch.points(), batch.left_out(), batch.is_full()), (7, 0, false));
        let found = values(batch.into_request().unwrap(), &Settings::default()).unwrap();
        let shown: Vec<_> = found
            .values
            .iter()
            .map(|one| {
                (
                    one.data_name.as_str(),
                    one.node_name.as_str(),
                    one.at,
                    serde_json::from_str::<Json>(&one.text).unwrap()["series"].clone(),
                )
            })
            .collect();
        assert_eq!(found.rejected.sentence(), None);
        assert_eq!(
            shown,
            [
                (
                    "estimand_estimand_value",
                    "n1",
                    Some(1_700_000_000_000_001),
                    json!({
                        "data_name=\"load\",node=\"n1\"": 0.5,
                        "data_name=\"cpu\",node=\"n1\",path=\"/idle\"": 3,
                        "data_name=\"cpu\",node=\"n1\",path=\"/on\"": 1,
                        "data_name=\"cpu\",node=\"n1\",path=\"/a~1b/0\"": 18446744073709551615.0,
                    })
                ),
                (
                    "estimand_estimand_value_state",
                    "n1",
                    Some(1_700_000_009_000_000),
                    json!({
                        "data_name=\"load\",node=\"n1\"": 0, "data_name=\"cpu\",node=\"n1\"": 1,
                    })
                ),
                (
                    "estimand_estimand_value_state",
                    "n2",
                    Some(1_700_000_009_000_000),
                    json!({"data_name=\"text\",node=\"n2\"": 3})
                ),
            ]
        );
    }

    #[test]
    fn a_batch_is_bounded_if_it_is_sent_when_it_is_full() {
        let many: Vec<u32> = (0..1_000).collect();
        let mut batch = Batch::default();
        while !batch.is_full() {
            batch.add(&value("many", "n1", "fresh", &json!(many)), 0);
        }
        assert_eq!(batch.points(), 8 * 257);
        assert_eq!(batch.left_out(), 8 * 744);
        assert_eq!(Batch::default().into_request(), None);
    }
}
