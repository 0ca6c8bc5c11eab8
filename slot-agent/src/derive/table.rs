//! The table of inputs: the latest value on each node, and as much of the past as somebody looks at.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::value::{State, Value as Stored};
use serde_json::Value;

/// The most of one input's past on one node that is kept.
const MAX_SAMPLES: usize = 4_096;
/// A value is taken for stale by this agent's own clock so long after it should have been said to be.
const STALE_MARGIN_US: i64 = 1_000_000;

/// Both clocks at one moment: microseconds since 1970, and since the agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub wall_us: i64,
    pub mono_us: i64,
}

/// The latest value of an input on a node.
#[derive(Debug, Clone, PartialEq)]
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
    /// Earlier values, oldest first, the latest included.
    past: VecDeque<(i64, Value)>,
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

    pub fn past(&self) -> impl DoubleEndedIterator<Item = &(i64, Value)> {
        self.past.iter()
    }

    fn remember(&mut self, window: Option<Duration>) {
        let Some(window) = window else {
            return self.past.clear();
        };
        // The order is that of collection, which deliveries need not keep.
        if self.past.back().is_none_or(|(at, _)| *at < self.collected_at) {
            self.past.push_back((self.collected_at, self.value.clone()));
        }
        let window = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
        let oldest = self.collected_at.saturating_sub(window);
        while self.past.len() > MAX_SAMPLES || self.past.front().is_some_and(|(at, _)| *at < oldest) {
            self.past.pop_front();
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Table {
    facts: HashMap<DataName, BTreeMap<NodeName, Fact>>,
    windows: BTreeMap<DataName, Duration>,
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
        let window = self.windows.get(&stored.data_name).copied();
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
                fact.remember(window);
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
            past: VecDeque::new(),
        };
        fact.remember(window);
        nodes.insert(stored.node_name, fact);
        true
    }

    /// Takes what was computed here, before the data service has it.
    pub fn compute(&mut self, name: &DataName, node: &NodeName, value: Value, now: Moment, valid_for: i64) {
        let window = self.windows.get(name).copied();
        let Some(nodes) = self.facts.get_mut(name) else { return };
        let fresh = || Fact {
            value: Value::Null,
            collected_at: 0,
            revision: 0,
            pending: true,
            state: State::Fresh,
            heard_at: 0,
            valid_for: None,
            past: VecDeque::new(),
        };
        let fact = nodes.entry(node.clone()).or_insert_with(fresh);
        (fact.value, fact.collected_at, fact.state) = (value, now.wall_us, State::Fresh);
        (fact.heard_at, fact.valid_for, fact.pending) = (now.mono_us, Some(valid_for), true);
        fact.remember(window);
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
    pub fn reads(&mut self, inputs: &BTreeSet<DataName>, windows: BTreeMap<DataName, Duration>) {
        self.facts.retain(|name, _| inputs.contains(name));
        for input in inputs {
            self.facts.entry(input.clone()).or_default();
        }
        for (name, nodes) in &mut self.facts {
            let window = windows.get(name).copied();
            nodes.values_mut().for_each(|fact| fact.remember(window));
        }
        self.windows = windows;
    }

    /// Puts kept history before what is known already.
    pub fn recall(&mut self, input: &DataName, mut past: BTreeMap<NodeName, Vec<(i64, Value)>>) {
        let Some(nodes) = self.facts.get_mut(input) else { return };
        for (node, fact) in nodes {
            let Some(mut older) = past.remove(node) else { continue };
            let first = fact.past.front().map_or(i64::MAX, |(at, _)| *at);
            older.retain(|(at, _)| *at < first);
            older.sort_by_key(|(at, _)| *at);
            older.drain(..older.len().saturating_sub(MAX_SAMPLES));
            for sample in older.into_iter().rev() {
                fact.past.push_front(sample);
            }
        }
    }
}
