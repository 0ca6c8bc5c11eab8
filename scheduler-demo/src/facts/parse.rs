//! Parses values into facts: the one place that knows the accepted forms of a value.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::DataName;
use estimand_api::value::{State, Value};
use serde_json::Value as Json;

use super::{Capability, Error, Facts, Names, NodeFacts};
use crate::plan::Item;

/// An invalid value is quoted up to this length.
const SHOWN_CHARS: usize = 80;

pub(super) fn parse(values: &[Value], revision: u64, names: &Names) -> Result<Facts, Error> {
    let of = |name: &DataName| values.iter().filter(|value| value.data_name == *name).collect::<Vec<_>>();
    let (held, capabilities) = (of(&names.distribution), of(&names.capability));
    if held.is_empty() {
        return Err(Error::NoDistribution { name: names.distribution.clone() });
    }
    if capabilities.is_empty() {
        return Err(Error::NoCapability { name: names.capability.clone() });
    }
    let mut nodes: BTreeMap<&str, NodeFacts> = BTreeMap::new();
    let mut items: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for value in held {
        for item in items_of(value)? {
            items.entry(item).or_default().insert(value.node_name.to_string());
        }
        let node = known(&mut nodes, value);
        if value.state == State::NodeLost {
            node.state = State::NodeLost;
        }
    }
    for value in of(&names.load) {
        known(&mut nodes, value).load = Some(amount(value, &value.data_value, "a number, 0 or more")?);
    }
    for value in capabilities {
        let node = known(&mut nodes, value);
        node.capability = Some(capability_of(value)?);
        if node.state != State::NodeLost {
            node.state = value.state;
        }
    }
    let items = items.into_iter().map(|(name, on)| Item { name, on: on.into_iter().collect() }).collect();
    Ok(Facts { revision, items, nodes: nodes.into_values().collect() })
}

fn known<'n, 'v>(nodes: &'n mut BTreeMap<&'v str, NodeFacts>, value: &'v Value) -> &'n mut NodeFacts {
    let name = value.node_name.as_str();
    nodes.entry(name).or_insert_with(|| NodeFacts {
        name: name.to_owned(),
        load: None,
        capability: None,
        state: State::Fresh,
    })
}

fn items_of(value: &Value) -> Result<Vec<String>, Error> {
    const EXPECTED: &str = r#"the names of the items it holds: ["a",…] or {"items":["a",…]}"#;
    let list = match &value.data_value {
        Json::Object(map) => map.get("items"),
        other => Some(other),
    };
    let list = list.and_then(Json::as_array).ok_or_else(|| wrong(value, &value.data_value, EXPECTED))?;
    list.iter()
        .map(|item| match item.as_str() {
            Some(name) if !name.is_empty() => Ok(name.to_owned()),
            _ => Err(wrong(value, item, EXPECTED)),
        })
        .collect()
}

fn capability_of(value: &Value) -> Result<Capability, Error> {
    const EXPECTED: &str = r#"a number, 0 or more, or {"value":…,"spread":…,"samples":…} of such numbers"#;
    let Json::Object(map) = &value.data_value else {
        return Ok(Capability {
            value: amount(value, &value.data_value, EXPECTED)?,
            spread: 0.0,
            samples: None,
        });
    };
    let estimate = map.get("value").unwrap_or(&value.data_value);
    let spread = match map.get("spread") {
        None | Some(Json::Null) => 0.0,
        Some(spread) => amount(value, spread, EXPECTED)?,
    };
    Ok(Capability {
        value: amount(value, estimate, EXPECTED)?,
        spread,
        samples: map.get("samples").and_then(Json::as_u64),
    })
}

fn amount(value: &Value, given: &Json, expected: &'static str) -> Result<f64, Error> {
    given.as_f64().filter(|number| *number >= 0.0).ok_or_else(|| wrong(value, given, expected))
}

fn wrong(value: &Value, given: &Json, expected: &'static str) -> Error {
    let mut given = given.to_string();
    if let Some((end, _)) = given.char_indices().nth(SHOWN_CHARS) {
        given.truncate(end);
        given.push('…');
    }
    Error::InvalidValue { name: value.data_name.clone(), node: value.node_name.to_string(), given, expected }
}
