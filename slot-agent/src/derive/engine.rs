//! The evaluation of the formulas that a change concerns: the pure core. It reads no clock, waits for nothing and
//! hands results back.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::{DataName, NodeName};
use estimand_api::value::Value as Stored;
use estimand_expressions::{Past, PastPart};
use serde_json::Value;

use super::formula::{EvaluationResult, Formula, Reach, Spec};
use super::table::{Moment, Table};
use super::view::View;

/// The most values that are named of those that an evaluation read.
const MAX_READ: usize = 32;
/// The most of one input, if those of all nodes were read: they are told for every node again.
const MAX_READ_ACROSS: usize = 4;
/// The most reasons that are kept of one round.
const MAX_REASONS: usize = 3;

/// The answers of one formula in a round.
#[derive(Debug, Default, PartialEq)]
pub struct Round {
    pub answers: Vec<NodeAnswer>,
    /// Nodes for which it failed, and why.
    pub failures: Vec<(NodeName, String)>,
    /// It failed as a whole.
    pub broken: Option<String>,
    /// The number of nodes for which it waits, and the first few reasons.
    pub waits: (usize, Vec<String>),
}

/// A value for a node, and what it was computed from.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeAnswer {
    pub node: NodeName,
    pub value: Value,
    pub read: Vec<Read>,
}

/// A value that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    pub data_name: DataName,
    pub node: NodeName,
    /// None if it was computed here just now.
    pub revision: Option<u64>,
    pub collected_at: i64,
}

/// All formulas and what they read.
pub struct Engine {
    own: NodeName,
    formulas: BTreeMap<u64, Entry>,
    /// Those of them that others depend on come first.
    order: Vec<u64>,
    table: Table,
}

struct Entry {
    formula: Formula,
    /// The time that its values hold, in microseconds.
    valid_for: i64,
    due: Due,
}

/// For which nodes it has to be evaluated.
enum Due {
    Nodes(BTreeSet<NodeName>),
    All,
}

impl Due {
    fn is_none(&self) -> bool {
        matches!(self, Due::Nodes(nodes) if nodes.is_empty())
    }
}

impl Engine {
    pub fn new(own: NodeName) -> Self {
        Engine { own, formulas: BTreeMap::new(), order: Vec::new(), table: Table::default() }
    }

    /// Takes a formula, due at once.
    pub fn put(&mut self, key: u64, formula: Formula, valid_for: i64) {
        self.formulas.insert(key, Entry { formula, valid_for, due: Due::All });
        self.rearrange();
    }

    pub fn remove(&mut self, key: u64) {
        self.formulas.remove(&key);
        self.rearrange();
    }

    /// Everything that is read.
    pub fn inputs(&self) -> BTreeSet<DataName> {
        self.formulas.values().flat_map(|entry| entry.formula.spec.inputs.iter().cloned()).collect()
    }

    /// True if other nodes' values are read too.
    pub fn reads_other_nodes(&self) -> bool {
        let wide =
            |entry: &Entry| entry.formula.spec.reach != Reach::Own || !entry.formula.spec.across.is_empty();
        self.formulas.values().any(wide)
    }

    /// How the past of inputs is looked at.
    fn past(&self) -> BTreeMap<DataName, Past> {
        let mut all: BTreeMap<DataName, Past> = BTreeMap::new();
        for (input, past) in self.formulas.values().flat_map(|entry| &entry.formula.spec.past) {
            all.entry(input.clone()).or_default().join(past);
        }
        all
    }

    pub fn is_due(&self) -> bool {
        self.formulas.values().any(|entry| !entry.due.is_none())
    }

    /// The time has come to look at a formula although nothing has changed.
    pub fn fall_due(&mut self, key: u64) {
        if let Some(entry) = self.formulas.get_mut(&key) {
            entry.due = Due::All;
        }
    }

    /// All there is; what was known besides is gone.
    pub fn snapshot(&mut self, values: Vec<Stored>, now: Moment) {
        let known: BTreeSet<(DataName, NodeName)> =
            values.iter().map(|value| (value.data_name.clone(), value.node_name.clone())).collect();
        for (name, node) in self.table.retain(|name, node| known.contains(&(name.clone(), node.clone()))) {
            self.touch(&name, &node);
        }
        for value in values {
            self.change(value, now);
        }
    }

    pub fn change(&mut self, value: Stored, now: Moment) {
        let (name, node) = (value.data_name.clone(), value.node_name.clone());
        if self.table.hear(value, now) {
            self.touch(&name, &node);
        }
    }

    pub fn delete(&mut self, name: &DataName, node: &NodeName) {
        if self.table.forget(name, node) {
            self.touch(name, node);
        }
    }

    /// The history of a part of an input has been read.
    pub fn recall(&mut self, input: &DataName, part: &PastPart, past: BTreeMap<NodeName, Vec<(i64, Value)>>) {
        self.table.recall(input, part, past);
        for entry in self.formulas.values_mut().filter(|entry| entry.formula.spec.past.contains_key(input)) {
            entry.due = Due::All;
        }
    }

    /// An input has changed on a node.
    fn touch(&mut self, input: &DataName, node: &NodeName) {
        for entry in self.formulas.values_mut().filter(|entry| entry.formula.spec.inputs.contains(input)) {
            let formula = &entry.formula.spec;
            if formula.reads_all(input) {
                entry.due = Due::All;
            } else if (formula.reach != Reach::Own || *node == self.own)
                && let Due::Nodes(nodes) = &mut entry.due
            {
                nodes.insert(node.clone());
            }
        }
    }

    /// The first formula in order that is due is evaluated, for all nodes for which it is due; which one that was, and
    /// what it gave. None if no formula from `after` on is due. What it gave is seen by those after it.
    pub fn next(&mut self, after: Option<u64>, now: Moment) -> Option<(u64, Round)> {
        let start =
            after.and_then(|key| self.order.iter().position(|known| *known == key)).map_or(0, |at| at + 1);
        let key = *self.order[start..]
            .iter()
            .find(|key| self.formulas.get(key).is_some_and(|entry| !entry.due.is_none()))?;
        let entry = self.formulas.get_mut(&key)?;
        let due = std::mem::replace(&mut entry.due, Due::Nodes(BTreeSet::new()));
        let round = evaluate(&entry.formula, &self.table, &self.own, due, now);
        let (name, valid_for) = (entry.formula.spec.name.clone(), entry.valid_for);
        for answer in &round.answers {
            self.table.compute(&name, &answer.node, answer.value.clone(), now, valid_for);
            self.touch(&name, &answer.node);
        }
        Some((key, round))
    }

    /// Orders the formulas so that each comes after those that it reads. There is no cycle: the registry sees to it;
    /// should there be one all the same, each is evaluated once a round.
    fn rearrange(&mut self) {
        let (inputs, past) = (self.inputs(), self.past());
        self.table.reads(&inputs, past);
        let mut order = Vec::with_capacity(self.formulas.len());
        let mut seen = BTreeSet::new();
        for key in self.formulas.keys() {
            self.visit(*key, &mut seen, &mut order);
        }
        self.order = order;
    }

    fn visit(&self, start: u64, seen: &mut BTreeSet<u64>, order: &mut Vec<u64>) {
        // A stack of its own: a chain may be as long as there are registrations.
        let mut stack = vec![(start, false)];
        while let Some((key, done)) = stack.pop() {
            if done {
                order.push(key);
                continue;
            }
            if !seen.insert(key) {
                continue;
            }
            stack.push((key, true));
            let Some(entry) = self.formulas.get(&key) else { continue };
            let reads = |other: &Entry| entry.formula.spec.inputs.contains(&other.formula.spec.name);
            stack
                .extend(self.formulas.iter().filter(|(_, other)| reads(other)).map(|(key, _)| (*key, false)));
        }
    }
}

fn evaluate(formula: &Formula, table: &Table, own: &NodeName, due: Due, now: Moment) -> Round {
    let mut evaluation = formula.round();
    let spec = evaluation.spec;
    let mut round = Round::default();
    let mut one = |node: Option<&NodeName>| {
        let evaluated = evaluation.evaluate(&View { table, node, now, params: &spec.params });
        match (evaluated, node) {
            (EvaluationResult::Value(value), Some(node)) => {
                let read = read(spec, table, Some(node));
                round.answers.push(NodeAnswer { node: node.clone(), value, read });
            }
            (EvaluationResult::Value(value), None) => per_node(value, &read(spec, table, None), &mut round),
            (EvaluationResult::Nothing, _) => {}
            (EvaluationResult::Waits(reason), _) => {
                round.waits.0 += 1;
                if round.waits.1.len() < MAX_REASONS && !round.waits.1.contains(&reason) {
                    round.waits.1.push(reason);
                }
            }
            (EvaluationResult::Failed(reason), Some(node)) => round.failures.push((node.clone(), reason)),
            (EvaluationResult::Failed(reason), None) => round.broken = Some(reason),
        }
    };
    match (spec.reach, due) {
        (Reach::Cluster, _) => one(None),
        (Reach::Own, _) => one(Some(own)),
        (Reach::EveryNode, Due::Nodes(nodes)) => nodes.iter().for_each(|node| one(Some(node))),
        (Reach::EveryNode, Due::All) => {
            let inputs = spec.inputs.iter();
            let nodes: BTreeSet<&NodeName> =
                inputs.flat_map(|input| table.of(input.as_str()).map(|(node, _)| node)).collect();
            nodes.into_iter().for_each(|node| one(Some(node)));
        }
    }
    round
}

/// The result for a whole cluster: which value is whose.
fn per_node(value: Value, read: &[Read], round: &mut Round) {
    let Value::Object(values) = value else {
        round.broken = Some(format!(
            "it gave {}; expected a map of node name to value, because the format is `nodes`",
            estimand_api::problem::shorten(&value.to_string())
        ));
        return;
    };
    for (name, value) in values {
        match NodeName::parse(&name) {
            Ok(node) => round.answers.push(NodeAnswer { node, value, read: read.to_vec() }),
            Err(error) => {
                round.broken = Some(error.to_string());
                return round.answers.clear();
            }
        }
    }
}

/// The inputs of an evaluation, as far as they are shown.
fn read(spec: &Spec, table: &Table, node: Option<&NodeName>) -> Vec<Read> {
    let mut found = Vec::with_capacity(spec.inputs.len());
    for input in &spec.inputs {
        let facts: Box<dyn Iterator<Item = (&NodeName, &super::table::Fact)>> = match node {
            Some(node) if !spec.reads_all(input) => {
                Box::new(table.get(input.as_str(), node.as_str()).map(|fact| (node, fact)).into_iter())
            }
            // The inputs of the node itself come first.
            _ => {
                let own = node.and_then(|node| Some((node, table.get(input.as_str(), node.as_str())?)));
                let others = table.of(input.as_str()).filter(move |(other, _)| Some(*other) != node);
                Box::new(own.into_iter().chain(others).take(MAX_READ_ACROSS))
            }
        };
        for (node, fact) in facts.take(MAX_READ - found.len()) {
            found.push(Read {
                data_name: input.clone(),
                node: node.clone(),
                revision: fact.revision(),
                collected_at: fact.collected_at,
            });
        }
    }
    found
}
