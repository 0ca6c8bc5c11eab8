//! The labels of one node, by their sources, and which of them a registration may choose it by.
//!
//! Invariant: what an agent says of itself, and what follows from values, chooses the node only for registrations that
//! give it neither secrets nor a say for other nodes. For those the bound labels must match as well. The label `node` is the
//! node's name, whatever any source says.

use std::collections::BTreeMap;

use estimand_api::labels::{LabelChanges, LabelMap, LabelSource, NODE_LABEL};
use estimand_api::names::NodeName;
use estimand_api::registration::Registration;
use serde::{Deserialize, Serialize};

/// The labels that are not the agent's own, as they are stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GivenLabels {
    /// Set by operators.
    pub operator: LabelMap,
    /// Of the agent's credential.
    pub credential: LabelMap,
    /// Of values of the node.
    pub value: LabelMap,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeLabels {
    node: NodeName,
    claimed: LabelMap,
    given: GivenLabels,
    /// Those that count, of all sources.
    all: LabelMap,
    /// Those of operators and of the credential, and the node's name.
    bound: LabelMap,
}

/// True if a registration chooses a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelMatch {
    No,
    Yes,
    /// The labels match, but some of them are only claimed, and that is not enough for this registration.
    OnlyClaimed,
}

impl NodeLabels {
    pub fn new(node: NodeName, claimed: LabelMap, given: GivenLabels) -> Self {
        let (all, bound) = (LabelMap::new(), LabelMap::new());
        let mut labels = NodeLabels { node, claimed, given, all, bound };
        labels.combine();
        labels
    }

    pub fn claimed(&self) -> &LabelMap {
        &self.claimed
    }

    pub fn given(&self) -> &GivenLabels {
        &self.given
    }

    pub fn all(&self) -> &LabelMap {
        &self.all
    }

    /// The source of each label; the credential lets the agent speak for that name.
    pub fn sources(&self) -> BTreeMap<String, LabelSource> {
        let source = |key: &String| match () {
            () if key == NODE_LABEL => LabelSource::Credential,
            () if self.given.operator.contains_key(key) => LabelSource::Operator,
            () if self.given.credential.contains_key(key) => LabelSource::Credential,
            () if self.claimed.contains_key(key) => LabelSource::Agent,
            () => LabelSource::Value,
        };
        self.all.keys().map(|key| (key.clone(), source(key))).collect()
    }

    /// Takes what the agent claims; true if that is news.
    pub fn claim(&mut self, claimed: &LabelMap) -> bool {
        self.replace(|labels| {
            let changed = labels.claimed != *claimed;
            if changed {
                labels.claimed.clone_from(claimed);
            }
            changed
        })
    }

    /// Takes the labels of its credential; true if they are others than before.
    pub fn set_credential(&mut self, credential: &LabelMap) -> bool {
        self.replace(|labels| {
            let changed = labels.given.credential != *credential;
            if changed {
                labels.given.credential.clone_from(credential);
            }
            changed
        })
    }

    /// Takes the labels that follow from values; true if they are others than before.
    pub fn set_of_values(&mut self, value: &LabelMap) -> bool {
        self.replace(|labels| {
            let changed = labels.given.value != *value;
            if changed {
                labels.given.value.clone_from(value);
            }
            changed
        })
    }

    /// Makes an operator's changes; true if anything is another than before.
    pub fn change(&mut self, changes: &LabelChanges) -> bool {
        self.replace(|labels| changes.apply(&mut labels.given.operator))
    }

    pub fn matches(&self, registration: &Registration) -> LabelMatch {
        let selector = &registration.nodes;
        match selector.matches(&self.all) {
            false => LabelMatch::No,
            true if !needs_bound_labels(registration) || selector.matches(&self.bound) => LabelMatch::Yes,
            true => LabelMatch::OnlyClaimed,
        }
    }

    /// Says why a registration that the labels match is not for the node.
    pub fn refusal(&self, registration: &Registration, node: &str) -> String {
        let only_claimed = self.all.iter().filter(|(key, value)| self.bound.get(*key) != Some(value));
        let named: Vec<String> = only_claimed
            .filter(|(key, _)| registration.nodes.keys().any(|asked| asked == key.as_str()))
            .map(|(key, value)| if value.is_empty() { key.clone() } else { format!("{key}={value}") })
            .collect();
        let gives = match registration.secrets.is_empty() {
            false => "has secrets",
            true => "speaks for other nodes",
        };
        format!(
            "the registration {gives}, and nothing but the node itself says that it has {}; an operator binds a label with \
             `estimand nodes label {node} {}`",
            words(&named),
            named.join(" "),
        )
    }

    fn replace(&mut self, change: impl FnOnce(&mut Self) -> bool) -> bool {
        let changed = change(self);
        if changed {
            self.combine();
        }
        changed
    }

    fn combine(&mut self) {
        let given = &self.given;
        let over = |labels: [&LabelMap; 2]| -> LabelMap {
            labels.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        self.bound = over([&given.credential, &given.operator]);
        self.bound.insert(NODE_LABEL.to_owned(), self.node.to_string());
        self.all = over([&given.value, &self.claimed]);
        self.all.extend(self.bound.clone());
    }
}

/// True if a node that is chosen gets secrets, or may write values of others.
fn needs_bound_labels(registration: &Registration) -> bool {
    !registration.secrets.is_empty() || registration.answers_for_others()
}

fn words(labels: &[String]) -> String {
    match labels {
        [one] => format!("the label `{one}`"),
        more => format!("the labels `{}`", more.join("`, `")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> LabelMap {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn of(node: &str, claimed: LabelMap) -> NodeLabels {
        NodeLabels::new(node.parse().unwrap(), claimed, GivenLabels::default())
    }

    fn registration(changes: &Value) -> Registration {
        let mut body = json!({ "dataName": "a", "cmd": "x", "max-Time": 1 });
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        Registration::parse(body.to_string().as_bytes()).unwrap().registration
    }

    #[test]
    fn the_label_of_the_stronger_source_counts() {
        let mut labels = of("n1", map(&[]));
        assert!(labels.set_of_values(&map(&[
            ("a", "value"),
            ("b", "value"),
            ("c", "value"),
            ("d", "value")
        ])));
        assert!(labels.claim(&map(&[("a", "agent"), ("b", "agent"), ("c", "agent")])));
        assert!(labels.set_credential(&map(&[("a", "credential"), ("b", "credential")])));
        let set = LabelChanges(BTreeMap::from([("a".to_owned(), Some("operator".to_owned()))]));
        assert!(labels.change(&set) && !labels.change(&set));
        assert_eq!(
            *labels.all(),
            map(&[("a", "operator"), ("b", "credential"), ("c", "agent"), ("d", "value"), ("node", "n1")])
        );
        let mut sources = json!(labels.sources());
        assert_eq!(sources["node"].take(), "credential");
        sources["node"] = json!("n1");
        assert_eq!(sources, json!(labels.all()));
        let name = "n1".parse().unwrap();
        assert_eq!(NodeLabels::new(name, labels.claimed().clone(), labels.given().clone()), labels);
    }

    #[test]
    fn a_node_has_its_name_as_a_label_whatever_anybody_says() {
        let other = map(&[("node", "n2")]);
        let mut labels = of("n1", other.clone());
        labels.set_credential(&other);
        labels.set_of_values(&other);
        labels.change(&LabelChanges(BTreeMap::from([("node".to_owned(), Some("n2".to_owned()))])));
        assert_eq!(*labels.all(), map(&[("node", "n1")]));
        let secret = json!({ "env": { "PASSWORD": "x" }, "secrets": ["PASSWORD"] });
        let with = |nodes: &str| {
            let mut changes = secret.clone();
            changes["nodes"] = nodes.into();
            registration(&changes)
        };
        for (asked, expected) in [
            ("node=n1", LabelMatch::Yes),
            ("node in (n0,n1)", LabelMatch::Yes),
            ("node=n2", LabelMatch::No),
            ("node!=n1", LabelMatch::No),
        ] {
            assert_eq!(labels.matches(&with(asked)), expected, "{asked}");
        }
    }

    #[test]
    fn claimed_labels_choose_only_what_has_neither_secrets_nor_a_say_for_others() {
        let secret = json!({ "env": { "PASSWORD": "x" }, "secrets": ["PASSWORD"] });
        let with = |nodes: &str, more: &Value| {
            let mut changes = more.clone();
            changes["nodes"] = nodes.into();
            registration(&changes)
        };
        let many = json!({ "format": "nodes", "replicas": "all" });
        let mut labels = of("n1", map(&[]));
        labels.claim(&map(&[("role", "db"), ("gpu", "")]));
        labels.set_of_values(&map(&[("big", "")]));
        for asked in ["role=db", "gpu", "big", "role=db,!old"] {
            assert_eq!(labels.matches(&with(asked, &json!({}))), LabelMatch::Yes, "{asked}");
            assert_eq!(labels.matches(&with(asked, &secret)), LabelMatch::OnlyClaimed, "{asked}");
            assert_eq!(labels.matches(&with(asked, &many)), LabelMatch::OnlyClaimed, "{asked}");
        }
        let said = labels.refusal(&with("role=db,gpu,!old", &secret), "n1");
        assert!(said.contains("`gpu`, `role=db`") && said.ends_with("n1 gpu role=db`"), "{said}");
        // Without a selector it is for every node.
        assert_eq!(labels.matches(&registration(&secret)), LabelMatch::Yes);
        // It says of itself that it is not meant, and that is believed.
        assert_eq!(labels.matches(&with("!gpu", &secret)), LabelMatch::No);
        labels.set_credential(&map(&[("role", "db")]));
        assert_eq!(labels.matches(&with("role=db", &secret)), LabelMatch::Yes);
        assert_eq!(labels.matches(&with("role=db,gpu", &secret)), LabelMatch::OnlyClaimed);
        labels.claim(&map(&[("role", "web")]));
        assert_eq!(labels.matches(&with("role=db", &secret)), LabelMatch::Yes);
    }
}
