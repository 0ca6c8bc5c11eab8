//! The reason why a registration runs on fewer nodes than it asks for, by what the manager knows of the nodes.

use std::time::Duration;

use estimand_api::node::{Node, NodeState};
use estimand_api::registration::{Registration, Replicas};
use estimand_client::Options;

use super::Session;
use crate::output::words;

/// A manager that is away must not hold up the rest of the answer.
const WITHIN: Duration = Duration::from_secs(5);
/// How many nodes one reason names.
const MAX_NODES: usize = 5;

/// The nodes, if a manager answers. It is asked once.
pub async fn nodes(session: &Session) -> Option<Vec<Node>> {
    let options = Options { read_timeout: WITHIN, total_timeout: WITHIN, attempts: 1, ..Options::default() };
    session.client_with(&options).ok()?.nodes().await.ok()
}

/// The reason why no node can run a registration; none if one can, also where more are wanted.
pub fn nowhere(registration: &Registration, nodes: &[Node]) -> Option<String> {
    let can_run = |node: &Node| registration.nodes.matches(&node.labels) && is_open(registration, node);
    if nodes.iter().any(can_run) { None } else { reason(registration, nodes) }
}

/// A node is open to a registration if it is heard of and, for a number of nodes, not cordoned.
fn is_open(registration: &Registration, node: &Node) -> bool {
    let counted = registration.replicas != Replicas::All;
    node.state == NodeState::Ready && !(counted && node.cordoned)
}

/// Why there are not as many nodes for a registration as it asks for; none if there are.
pub fn reason(registration: &Registration, nodes: &[Node]) -> Option<String> {
    let wanted = match registration.replicas {
        Replicas::All => 1,
        Replicas::Count(count) => count as usize,
    };
    if nodes.is_empty() {
        return Some("no node is known; `estimand agent` starts one".to_owned());
    }
    let labelled: Vec<&Node> = nodes.iter().filter(|node| registration.nodes.matches(&node.labels)).collect();
    if labelled.is_empty() {
        let selector = &registration.nodes;
        return Some(format!("no node has the labels `{selector}`; `estimand nodes` shows which they have"));
    }
    let counted = registration.replicas != Replicas::All;
    let (open, closed): (Vec<&Node>, Vec<&Node>) =
        labelled.into_iter().partition(|node| is_open(registration, node));
    if open.len() >= wanted {
        return None;
    }
    let of = match registration.nodes.is_empty() {
        true => String::new(),
        false => format!(" with the labels `{}`", registration.nodes),
    };
    let be = if open.len() == 1 { "is" } else { "are" };
    let mut reason = match counted {
        true => format!("{wanted} wanted, and there {be} {}{of}", words::count(open.len(), "node")),
        false => format!("there is no node{of}"),
    };
    for (state, is_so) in [("lost", true), ("cordoned", false)] {
        let names: Vec<&str> = closed
            .iter()
            .filter(|node| (node.state == NodeState::Lost) == is_so)
            .map(|node| node.node_name.as_str())
            .collect();
        if !names.is_empty() {
            reason += &format!("; {state}: {}", words::some_of(&names, MAX_NODES));
        }
    }
    Some(reason)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str, state: &str, cordoned: bool) -> Node {
        let node = json!({
            "nodeName": name, "state": state, "cordoned": cordoned, "labels": { "zone": zone }, "facts": {},
            "lastHeartbeat": "2026-01-31T12:00:00Z", "knownSince": "2026-01-31T12:00:00Z", "instances": 0,
            "delivery": {},
        });
        serde_json::from_value(node).unwrap()
    }

    fn check(nodes: &str, replicas: Option<u32>, expected: Option<&str>) {
        let mut registration = json!({ "dataName": "a", "cmd": "x", "max-Time": 1, "nodes": nodes });
        if let Some(replicas) = replicas {
            registration["replicas"] = json!(replicas);
        }
        let map = registration.as_object().unwrap().clone();
        let registration = Registration::from_map(map).unwrap().registration;
        let known =
            [node("n1", "a", "ready", false), node("n2", "a", "ready", true), node("n3", "b", "lost", false)];
        assert_eq!(reason(&registration, &known).as_deref(), expected, "{nodes} {replicas:?}");
        let has_none = expected.is_some_and(|reason| reason.contains("no node"));
        assert_eq!(nowhere(&registration, &known).is_some(), has_none, "{nodes} {replicas:?}");
        assert!(reason(&registration, &[]).unwrap().starts_with("no node is known"));
    }

    #[test]
    fn the_nodes_that_are_missing_are_named_with_the_reason() {
        check("", None, None);
        check("zone=a", Some(1), None);
        check("", Some(3), Some("3 wanted, and there is 1 node; lost: n3; cordoned: n2"));
        check(
            "zone=a",
            Some(2),
            Some("2 wanted, and there is 1 node with the labels `zone=a`; cordoned: n2"),
        );
        check("zone=b", None, Some("there is no node with the labels `zone=b`; lost: n3"));
        let none = "no node has the labels `zone=c`; `estimand nodes` shows which they have";
        check("zone=c", None, Some(none));
    }
}
