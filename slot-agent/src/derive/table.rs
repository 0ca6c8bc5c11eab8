//! The table of inputs: the latest value on each node, and as much of the past as somebody looks at.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use estimand_api::names::{DataName, NodeName};
use estimand_api::value::{State, Value as Stored};
use estimand_expressions::{Past, PastPart};
use serde_json::Value;

use super::past::{FactPast, PastBytes};

/// A value is taken for stale by this agent's own clock so long after it should have been said to be.
const STALE_MARGIN_US: i64 = 1_000_000;

/// Both clocks at one moment: microseconds since 1970, and since the agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub wall_us: i64,
    pub mono_us: i64,
}

/// The latest value of an input on a node.
#[derive(Debug)]
pub struct Fact {
    pub value: Value,
    pub collected_at: i64,
    /// The data service's.
    revision: u64,
    /// It was computed here, and the data service has not told it yet.
    pending: bool,
    state: State,
    /// When it was heard of here, and for how long it holds, by the clock that never goes back.
    heard_at: i64,
    valid_for: Option<i64>,
    past: FactPast,
}

impl Fact {
    /// Its state now, which the data service may not have had a way to tell.
    pub fn state(&self, now: Moment) -> State {
        let over = |valid: i64| now.mono_us - self.heard_at > valid.saturating_add(STALE_MARGIN_US);
        match self.state {
            State::Fresh if self.valid_for.is_some_and(over) => State::Stale,
            state => state,
        }
    }

    /// The data service's revision of it; none if that is not known yet.
    pub fn revision(&self) -> Option<u64> {
        (!self.pending).then_some(self.revision)
    }

    pub fn past(&self) -> &FactPast {
        &self.past
    }

    fn remember(&mut self, past: Option<&Past>, all: &PastBytes) {
        self.past.remember(past, self.collected_at, &self.value, all);
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Table {
    facts: HashMap<DataName, BTreeMap<NodeName, Fact>>,
    looked_at: BTreeMap<DataName, Past>,
    /// The bytes that all pasts take.
    bytes: PastBytes,
}

impl Table {
    pub fn get(&self, input: &str, node: &str) -> Option<&Fact> {
        self.facts.get(input)?.get(node)
    }

    /// The facts of an input by node.
    pub fn of(&self, input: &str) -> impl Iterator<Item = (&NodeName, &Fact)> {
        self.facts.get(input).into_iter().flatten()
    }

    /// The number of nodes of the input that has most.
    pub fn most_nodes(&self) -> usize {
        self.facts.values().map(BTreeMap::len).max().unwrap_or(0)
    }

    /// Takes what the data service tells; whether anything that is read has changed by it.
    pub fn hear(&mut self, stored: Stored, now: Moment) -> bool {
        let collected_at = stored.collected_at.timestamp_micros();
        let past = self.looked_at.get(&stored.data_name);
        let nodes = self.facts.entry(stored.data_name).or_default();
        let known = nodes.get_mut(&stored.node_name);
        let valid_for = stored.valid_for.map(|seconds| (seconds * 1e6) as i64);
        if let Some(fact) = known {
            // The value that was computed here is not there yet, and this one is older. Otherwise the revision tells: the clock by
            // which values are collected may have been set back.
            let is_overtaken = fact.pending && collected_at < fact.collected_at;
            if stored.revision <= fact.revision || is_overtaken {
                return false;
            }
            // The value that was computed here comes back.
            let same = fact.collected_at == collected_at && fact.value == stored.data_value;
            let changed = !same || fact.state != stored.state;
            (fact.revision, fact.state, fact.pending) = (stored.revision, stored.state, false);
            if !same {
                (fact.value, fact.collected_at) = (stored.data_value, collected_at);
                (fact.heard_at, fact.valid_for) = (now.mono_us, valid_for);
                fact.remember(past, &self.bytes);
            }
            return changed;
        }
        let mut fact = Fact {
            value: stored.data_value,
            collected_at,
            revision: stored.revision,
            pending: false,
            state: stored.state,
            heard_at: now.mono_us,
            valid_for,
            past: FactPast::default(),
        };
        fact.remember(past, &self.bytes);
        nodes.insert(stored.node_name, fact);
        true
    }

    /// Takes what was computed here, before the data service has it.
    pub fn compute(&mut self, name: &DataName, node: &NodeName, value: Value, now: Moment, valid_for: i64) {
        let past = self.looked_at.get(name);
        let Some(nodes) = self.facts.get_mut(name) else { return };
        let fresh = || Fact {
            value: Value::Null,
            collected_at: 0,
            revision: 0,
            pending: true,
            state: State::Fresh,
            heard_at: 0,
            valid_for: None,
            past: FactPast::default(),
        };
        let fact = nodes.entry(node.clone()).or_insert_with(fresh);
        (fact.value, fact.collected_at, fact.state) = (value, now.wall_us, State::Fresh);
        (fact.heard_at, fact.valid_for, fact.pending) = (now.mono_us, Some(valid_for), true);
        fact.remember(past, &self.bytes);
    }

    /// Forgets what is gone; whether it was there.
    pub fn forget(&mut self, input: &DataName, node: &NodeName) -> bool {
        self.facts.get_mut(input).is_some_and(|nodes| nodes.remove(node).is_some())
    }

    /// Forgets what a snapshot does not have; which facts that were.
    pub fn retain(&mut self, has: impl Fn(&DataName, &NodeName) -> bool) -> Vec<(DataName, NodeName)> {
        let mut gone = Vec::new();
        for (name, nodes) in &mut self.facts {
            nodes.retain(|node, _| {
                let stays = has(name, node);
                if !stays {
                    gone.push((name.clone(), node.clone()));
                }
                stays
            });
        }
        gone
    }

    /// Keeps what is read, and as much of the past as is looked at.
    pub fn reads(&mut self, inputs: &BTreeSet<DataName>, looked_at: BTreeMap<DataName, Past>) {
        self.facts.retain(|name, _| inputs.contains(name));
        for input in inputs {
            self.facts.entry(input.clone()).or_default();
        }
        for (name, nodes) in &mut self.facts {
            let past = looked_at.get(name);
            nodes.values_mut().for_each(|fact| fact.remember(past, &self.bytes));
        }
        self.looked_at = looked_at;
    }

    /// Puts kept history of a part before what is known already.
    pub fn recall(
        &mut self,
        input: &DataName,
        part: &PastPart,
        mut past: BTreeMap<NodeName, Vec<(i64, Value)>>,
    ) {
        for (node, fact) in self.facts.get_mut(input).into_iter().flatten() {
            if let Some(older) = past.remove(node) {
                fact.past.recall(part, older);
            }
        }
    }
}
