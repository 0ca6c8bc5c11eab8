//! The labels of nodes, by which readers select.
//!
//! The manager sends all of them as one document, again whenever one changes and every few seconds, so that the next
//! one makes up for a missed one. Nothing is stored: until they have come after a start, reads by labels are asked to
//! come again, because an empty answer would be a wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_api::labels::{LabelMap, MAX_LABELS_OF_ALL_SOURCES, read_labels};
use estimand_api::names::NodeName;
use estimand_api::problem::{Problem, shorten};
use estimand_api::schema::of;
use estimand_api::selector::{KEY_PATTERN, Selector, VALUE_PATTERN};
use estimand_web::{Body, Failure};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::DataService;
use crate::http::named_items;

/// Room for the labels of very many nodes.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// How many keys a hint names.
const MAX_KEYS_NAMED: usize = 20;

type LabelsByNode = BTreeMap<NodeName, LabelMap>;

/// All labels; none until the manager has sent them.
#[derive(Debug, Default)]
pub struct NodeLabels(watch::Sender<Option<Arc<LabelsByNode>>>);

/// The nodes that a selector chooses.
#[derive(Debug)]
pub struct NodeChoice {
    selector: Selector,
    labels: watch::Receiver<Option<Arc<LabelsByNode>>>,
    nodes: BTreeSet<NodeName>,
}

impl NodeLabels {
    /// Waits until the manager has sent them.
    pub async fn told(&self) {
        // The sender lives as long as the service.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// The nodes that the selector chooses now.
    pub fn choose(&self, selector: Selector) -> Result<NodeChoice, Problem> {
        let mut labels = self.0.subscribe();
        let all = labels.borrow_and_update().clone();
        let all = all
            .ok_or_else(|| Problem::unavailable("the manager has not said yet which labels nodes have", 1))?;
        let nodes = chosen(&selector, &all);
        Ok(NodeChoice { selector, labels, nodes })
    }
}

fn chosen(selector: &Selector, all: &LabelsByNode) -> BTreeSet<NodeName> {
    let chosen = all.iter().filter(|(_, labels)| selector.matches(labels));
    chosen.map(|(node, _)| node.clone()).collect()
}

impl NodeChoice {
    pub fn nodes(&self) -> &BTreeSet<NodeName> {
        &self.nodes
    }

    /// Chooses again if labels have changed; true if other nodes are chosen than before.
    pub fn update(&mut self) -> bool {
        if !self.labels.has_changed().unwrap_or(false) {
            return false;
        }
        let Some(all) = self.labels.borrow_and_update().clone() else { return false };
        let nodes = chosen(&self.selector, &all);
        let changed = nodes != self.nodes;
        self.nodes = nodes;
        changed
    }

    /// Waits until labels have changed.
    pub async fn changed(&mut self) {
        if self.labels.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.labels.mark_changed();
    }

    /// Says why no node is chosen; none if one is.
    pub fn hint(&self) -> Option<String> {
        if !self.nodes.is_empty() {
            return None;
        }
        let all = self.labels.borrow().clone().unwrap_or_default();
        let there: BTreeSet<&str> =
            all.values().flat_map(|labels| labels.keys()).map(String::as_str).collect();
        let unknown = self.selector.keys().find(|key| !there.contains(key));
        let there: Vec<&str> = there.iter().take(MAX_KEYS_NAMED).copied().collect();
        let known = match there.as_slice() {
            [] => "no node has any label".to_owned(),
            there => format!("there are {}", there.join(", ")),
        };
        Some(match unknown {
            Some(key) => format!("no node has a label {key}; {known}"),
            None => format!("no node has labels that match {}", shorten(&self.selector.to_string())),
        })
    }
}

/// Node to its labels.
#[derive(Debug)]
enum LabelsBody {}

estimand_api::described!(
    LabelsBody,
    [NodeName],
    json!({
        "description": "Node to its labels",
        "type": "object",
        "propertyNames": of::<NodeName>(""),
        "additionalProperties": {
            "type": "object",
            "propertyNames": { "pattern": KEY_PATTERN },
            "maxProperties": MAX_LABELS_OF_ALL_SOURCES,
            "additionalProperties": { "type": "string", "pattern": VALUE_PATTERN },
        },
    })
);

/// Says which labels the nodes have; replaces what was said before.
#[utoipa::path(
    put,
    path = "/api/data/labels",
    tag = "data",
    request_body(content = LabelsBody, description = "Those of all nodes"),
    responses(
        (status = 200, description = "Taken"),
        (status = 400, description = "The body is not valid", body = Problem),
    )
)]
pub async fn set_labels(
    body: Body<MAX_BODY_BYTES>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let labels = |name: &str, value: &Value| read_labels(name, value, MAX_LABELS_OF_ALL_SOURCES);
    let all: LabelsByNode = body.parse(move |body| named_items::read(body, labels)).await?;
    service.labels().0.send_if_modified(|known| {
        let changed = known.as_deref() != Some(&all);
        if changed {
            *known = Some(Arc::new(all));
        }
        changed
    });
    Ok(HttpResponse::Ok().finish())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn all(pairs: &[(&str, &str)]) -> Option<Arc<LabelsByNode>> {
        let of = |node: &str| -> LabelMap {
            let own = pairs.iter().filter(|(of, _)| *of == node);
            own.map(|(_, zone)| ("zone".to_owned(), (*zone).to_owned())).collect()
        };
        Some(Arc::new(pairs.iter().map(|(node, _)| (node.parse().unwrap(), of(node))).collect()))
    }

    fn names(choice: &NodeChoice) -> Vec<&str> {
        choice.nodes().iter().map(NodeName::as_str).collect()
    }

    #[test]
    fn a_choice_follows_the_labels() {
        let labels = NodeLabels::default();
        let selector = || "zone=a".parse::<Selector>().unwrap();
        assert_eq!(labels.choose(selector()).unwrap_err().status, 503);
        labels.0.send_replace(all(&[("n1", "a"), ("n2", "b")]));
        let mut choice = labels.choose(selector()).unwrap();
        assert!(!choice.update() && choice.hint().is_none());
        assert_eq!(names(&choice), ["n1"]);
        labels.0.send_replace(all(&[("n1", "a"), ("n2", "c")]));
        assert!(!choice.update(), "the same nodes are chosen");
        labels.0.send_replace(all(&[("n1", "b"), ("n2", "a")]));
        assert!(choice.update());
        assert_eq!(names(&choice), ["n2"]);
    }

    #[test]
    fn a_choice_of_no_node_says_why() {
        let labels = NodeLabels::default();
        labels.0.send_replace(all(&[("n1", "a")]));
        let hint = |selector: &str| labels.choose(selector.parse().unwrap()).unwrap().hint().unwrap();
        assert_eq!(hint("zone=q"), "no node has labels that match zone=q");
        assert_eq!(hint("zoen=a"), "no node has a label zoen; there are zone");
    }
}
