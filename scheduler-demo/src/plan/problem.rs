//! The nodes with their loads and capabilities, checked and ordered: the input of every plan.
//!
//! Owns the trust in values that are not fresh. Nothing here divides anything. A [`Problem`] has at least one
//! node that may be given work, its nodes are in the order of their names, and its numbers are finite and not negative.

use estimand_api::value::State;

use super::{Error, order};

/// Beyond this a capability is taken for a broken estimate. No unit in use comes near it.
pub const MAX_CAPABILITY: f64 = 1e15;

/// Seconds that a node needs besides the work itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Costs {
    /// Until it begins, once, if it does anything at all.
    pub startup: f64,
    /// For each item that it does not hold.
    pub transfer: f64,
}

/// One node, by the facts.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: String,
    /// The number of items that are its own by step 1: where the data is.
    pub load: u64,
    /// In any unit, if it is the same for all; items a second wherever times are wanted.
    pub capability: f64,
    /// The standard deviation of the capability, in its unit.
    pub spread: f64,
    pub state: State,
    pub costs: Costs,
}

impl Node {
    /// A node whose capability is fresh and certain, and that costs nothing besides its work.
    pub fn new(name: impl Into<String>, load: u64, capability: f64) -> Self {
        Node {
            name: name.into(),
            load,
            capability,
            spread: 0.0,
            state: State::Fresh,
            costs: Costs::default(),
        }
    }
}

/// The treatment of a capability that is not fresh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trust {
    /// The node gets nothing, and what it has moves away.
    Exclude,
    /// The last value counts as if it were fresh.
    LastKnown,
    /// The last value counts less: by `k` times its spread, and not below 0.
    Widen { k: f64 },
}

/// The caller's choice for each state but `Fresh`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrustRules {
    pub stale: Trust,
    pub failed: Trust,
    pub node_lost: Trust,
}

impl TrustRules {
    /// The same for all three.
    pub const fn all(trust: Trust) -> Self {
        TrustRules { stale: trust, failed: trust, node_lost: trust }
    }

    fn of(&self, state: State) -> Option<Trust> {
        match state {
            State::Fresh => None,
            State::Stale => Some(self.stale),
            State::Failed => Some(self.failed),
            State::NodeLost => Some(self.node_lost),
        }
    }
}

impl Default for TrustRules {
    /// A node that answers keeps its place by the last that was known; one that does not answer gets no work.
    fn default() -> Self {
        TrustRules { stale: Trust::LastKnown, failed: Trust::LastKnown, node_lost: Trust::Exclude }
    }
}

/// The way in which a capability counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapabilityUse {
    Fresh,
    LastKnown,
    Widened,
    Excluded,
}

/// Nodes that work can be divided among. A node's number is its place in the order of names.
#[derive(Debug, Clone)]
pub struct Problem {
    nodes: Vec<Node>,
    uses: Vec<CapabilityUse>,
    weights: Vec<f64>,
    total: u64,
    equal: bool,
}

impl Problem {
    pub fn new(nodes: Vec<Node>, trust: &TrustRules) -> Result<Problem, Error> {
        if nodes.is_empty() {
            return Err(Error::NoNodes);
        }
        let nodes = order::by_name(nodes)?;
        check_trust(trust)?;
        let mut total = 0u64;
        let mut uses = Vec::with_capacity(nodes.len());
        let mut weights = Vec::with_capacity(nodes.len());
        for node in &nodes {
            check(node)?;
            total = total.checked_add(node.load).ok_or(Error::LoadOverflow)?;
            let (capability_use, weight) = trusted(node, trust);
            uses.push(capability_use);
            weights.push(weight);
        }
        if uses.iter().all(|capability_use| *capability_use == CapabilityUse::Excluded) {
            return Err(Error::AllExcluded { nodes: nodes.len() });
        }
        // The paper's step 4 divides by the sum of capabilities, which its own Equation (1) can make 0.
        let equal = weights.iter().all(|weight| *weight == 0.0);
        if equal {
            for (weight, capability_use) in weights.iter_mut().zip(&uses) {
                *weight = if *capability_use == CapabilityUse::Excluded { 0.0 } else { 1.0 };
            }
        }
        Ok(Problem { nodes, uses, weights, total, equal })
    }

    /// In the order of names.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn name(&self, node: usize) -> &str {
        &self.nodes[node].name
    }

    /// The number of the node of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok()
    }

    pub fn capability_use(&self, node: usize) -> CapabilityUse {
        self.uses[node]
    }

    /// The capabilities as they count: by the policy, and 1 for each usable node if all of them are 0.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// True if every capability that counts is 0, so that nodes are taken to be equal.
    pub fn is_equal_split(&self) -> bool {
        self.equal
    }

    /// All items.
    pub fn total(&self) -> u64 {
        self.total
    }
}

fn check_trust(trust: &TrustRules) -> Result<(), Error> {
    for trust in [trust.stale, trust.failed, trust.node_lost] {
        if let Trust::Widen { k } = trust
            && !is_amount(k)
        {
            return Err(Error::Widening { value: k });
        }
    }
    Ok(())
}

fn check(node: &Node) -> Result<(), Error> {
    let name = || node.name.clone();
    if !(0.0..=MAX_CAPABILITY).contains(&node.capability) {
        return Err(Error::Capability { node: name(), value: node.capability });
    }
    if !is_amount(node.spread) {
        return Err(Error::Spread { node: name(), value: node.spread });
    }
    for (what, value) in [("start-up", node.costs.startup), ("transfer of an item", node.costs.transfer)] {
        if !is_amount(value) {
            return Err(Error::Cost { node: name(), what, value });
        }
    }
    Ok(())
}

fn is_amount(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn trusted(node: &Node, trust: &TrustRules) -> (CapabilityUse, f64) {
    match trust.of(node.state) {
        None => (CapabilityUse::Fresh, node.capability),
        Some(Trust::LastKnown) => (CapabilityUse::LastKnown, node.capability),
        Some(Trust::Widen { k }) => (CapabilityUse::Widened, (node.capability - k * node.spread).max(0.0)),
        Some(Trust::Exclude) => (CapabilityUse::Excluded, 0.0),
    }
}
