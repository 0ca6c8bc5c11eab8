//! The request of a task to the node that it will run on. Tasks with equal requests fit or wait alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::resources::PLACES;
use estimand_api::selector::Selector;
use estimand_capacity::{Amounts, Holder, Ledger, Resource, Shape};

use super::cluster::{CPU, Cluster, NodeView};
use super::policy::Policy;

/// The processor time that a task is expected to take if it asks for none: all of one.
const ONE_PROCESSOR: u64 = 1000;

#[derive(Debug, Clone)]
pub struct Request {
    pub amounts: Amounts,
    pub shape: Shape,
    pub nodes: Selector,
    pub policy: Policy,
    /// It asks for more than a place among the tasks of a node.
    pub asks: bool,
    /// The processor time in thousandths that it is expected to take.
    pub weight: u64,
    /// It is given secrets or files, so labels that a node only claims do not choose that node.
    pub needs_bound_labels: bool,
    /// It runs in a container, which not every node has.
    pub has_image: bool,
    /// The user whose task it is: not every node runs their processes, and some places are kept for users who have few.
    pub user: Option<Arc<str>>,
    /// The framework of the user whose share it is counted with.
    pub framework: Option<Arc<str>>,
}

/// The amounts that a document or a promise asks for.
pub fn amounts(resources: &BTreeMap<String, u64>) -> Amounts {
    Amounts::named(resources.iter().map(|(name, amount)| (name.as_str(), *amount)))
}

/// The amounts, and a place among the tasks of a node.
pub fn with_place(amounts: &Amounts) -> Amounts {
    match Resource::parse(PLACES) {
        Ok(places) if amounts.get(&places) == 0 => amounts.clone().with(places, 1),
        _ => amounts.clone(),
    }
}

/// Equal for requests that fit or wait alike.
pub type RequestKey = (Shape, String, Policy, [bool; 2], Option<Arc<str>>, Option<Arc<str>>);

impl Request {
    pub fn new(ledger: &mut Ledger, amounts: Amounts, nodes: Selector, policy: Policy) -> Request {
        let cpu = Resource::parse(CPU).map_or(0, |cpu| amounts.get(&cpu));
        let weight = if cpu == 0 { ONE_PROCESSOR } else { cpu };
        let shape = ledger.shape(&amounts);
        let asks = amounts.iter().any(|(resource, _)| resource.as_str() != PLACES);
        Request {
            shape,
            amounts,
            nodes,
            policy,
            asks,
            weight,
            needs_bound_labels: false,
            has_image: false,
            user: None,
            framework: None,
        }
    }

    #[must_use]
    pub fn with_bound_labels(self, needs_bound_labels: bool) -> Request {
        Request { needs_bound_labels, ..self }
    }

    #[must_use]
    pub fn with_image(self, has_image: bool) -> Request {
        Request { has_image, ..self }
    }

    #[must_use]
    pub fn with_user(self, user: Option<&str>) -> Request {
        Request { user: user.map(Arc::from), ..self }
    }

    #[must_use]
    pub fn with_framework(self, framework: Option<&str>) -> Request {
        Request { framework: framework.map(Arc::from), ..self }
    }

    /// The user and the framework whose shares a loan counts with. Tasks of operators are those of one user without a name, and
    /// tasks without a framework are in one that is called like their user.
    pub fn holder(&self) -> Holder {
        let user = self.user.clone().unwrap_or_else(|| Arc::from(""));
        let framework = self.framework.clone().unwrap_or_else(|| Arc::clone(&user));
        Holder { user, framework }
    }

    /// The same if a cluster counts shares.
    pub fn holder_in(&self, cluster: &Cluster) -> Option<Holder> {
        cluster.shares.as_ref().map(|_| self.holder())
    }

    /// Each node will do that has room.
    pub fn is_for_all_nodes(&self) -> bool {
        self.nodes.is_empty() && !self.has_image && self.user.is_none()
    }

    pub fn key(&self) -> RequestKey {
        let marks = [self.needs_bound_labels, self.has_image];
        let Request { shape, nodes, policy, user, framework, .. } = self;
        (shape.clone(), nodes.to_string(), *policy, marks, user.clone(), framework.clone())
    }

    /// The node's labels are those that it asks for, and the node runs such tasks.
    pub fn means(&self, node: &NodeView) -> bool {
        self.means_labels_of(node) && self.is_run_by(node)
    }

    /// The node runs containers if it asks for one, and else processes of users if it has one.
    pub fn is_run_by(&self, node: &NodeView) -> bool {
        if self.has_image { node.runs_containers() } else { self.user.is_none() || !node.refuses_users }
    }

    /// The node's labels are those that it asks for, and so are its bound ones alone where that counts: a task for `!edge` is
    /// not for a node that says that it is at the edge.
    pub fn means_labels_of(&self, node: &NodeView) -> bool {
        self.nodes.matches(&node.labels)
            && (!self.needs_bound_labels || self.nodes.matches(&node.bound_labels))
    }
}
