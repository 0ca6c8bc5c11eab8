//! Nodes as the manager gives them, and what they offer.

use estimand_api::labels::{LabelMap, LabelSource, NODE_LABEL};
use estimand_api::node::{Node, NodeState};
use estimand_api::promise::{CLASS_LABEL, DEFAULT_CLASS};
use estimand_api::resources::PLACES;
use estimand_api::task::CONTAINERS_LABEL;
use estimand_capacity::{Amounts, Standing};

use super::cluster::CPU;

/// How many tasks a node takes at once, if its label `tasks` does not say otherwise.
pub const PLACES_OF_NODE: u64 = 256;
const MEMORY: &str = "memory";

/// A node, with all that matters for what may be on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    pub labels: LabelMap,
    /// Those of them that the node cannot say otherwise.
    pub bound_labels: LabelMap,
    pub capacity: Amounts,
    pub standing: Standing,
    /// It runs no processes of users' tasks.
    pub refuses_users: bool,
}

impl Offer {
    /// A node that is up, and only claims its labels.
    pub fn new(name: &str, labels: LabelMap, capacity: Amounts) -> Offer {
        Offer {
            name: name.to_owned(),
            labels,
            bound_labels: LabelMap::new(),
            capacity,
            standing: Standing::Up,
            refuses_users: false,
        }
    }

    pub fn class(&self) -> &str {
        self.labels.get(CLASS_LABEL).map_or(DEFAULT_CLASS, String::as_str)
    }

    /// It runs tasks with an image.
    pub fn runs_containers(&self) -> bool {
        self.labels.contains_key(CONTAINERS_LABEL)
    }
}

pub fn offers(nodes: &[Node]) -> Vec<Offer> {
    let offer = |node: &Node| Offer {
        name: node.node_name.to_string(),
        labels: node.labels.clone(),
        bound_labels: bound_labels(node),
        capacity: capacity(node),
        standing: standing(node),
        refuses_users: node.facts.refuses_users(),
    };
    nodes.iter().map(offer).collect()
}
/// The labels of a node that it cannot say otherwise.
fn bound_labels(node: &Node) -> LabelMap {
    let is_bound =
        |key: &str| node.label_sources.get(key).is_some_and(|source| *source >= LabelSource::Credential);
    let bound = node.labels.iter().filter(|(key, _)| is_bound(key));
    bound.map(|(key, value)| (key.clone(), value.clone())).collect()
}
fn standing(node: &Node) -> Standing {
    match (node.state == NodeState::Ready, node.cordoned) {
        (true, false) => Standing::Up,
        (true, true) => Standing::Cordoned,
        (false, _) => Standing::Lost,
    }
}
/// The resources of a node: processors, memory, places for tasks, and each label that is a number but for its name.
fn capacity(node: &Node) -> Amounts {
    let labels = node.labels.iter().filter(|(key, _)| *key != NODE_LABEL);
    let counts = labels.filter_map(|(key, value)| Some((key.as_str(), value.parse().ok()?)));
    let own =
        [(PLACES, PLACES_OF_NODE), (CPU, u64::from(node.facts.cores) * 1000), (MEMORY, node.facts.memory)];
    // The machine says more than somebody who labels it.
    let all = own[..1].iter().copied().chain(counts).chain(own[1..].iter().copied());
    Amounts::named(all)
}
