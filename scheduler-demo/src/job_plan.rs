//! The plan of a job, made from facts: the items of each node, the expected times, and notes.
//!
//! Turns facts into the planner's input, and a plan into text and JSON. Carries nothing out. Every assumption about a
//! missing fact is in the notes.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::plan::{
    CapabilityUse, Costs, DynamicPolicy, DynamicSettings, Error, ExpectedTimes, FixedPolicy, Holdings,
    ItemPlan, Node, Note, Plan, Policy, Problem, TrustRules, expected, optimal, partition, pick_items,
};

/// The way in which work is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyKind {
    /// Algorithm 1, carried out as it is.
    #[default]
    Static,
    /// The least time by start-up, speed and the cost of fetching.
    Optimal,
    /// Algorithm 1 first, then by what is measured on the way.
    Dynamic,
}

impl PolicyKind {
    pub const ALL: [PolicyKind; 3] = [PolicyKind::Static, PolicyKind::Optimal, PolicyKind::Dynamic];

    pub fn as_str(self) -> &'static str {
        match self {
            PolicyKind::Static => "static",
            PolicyKind::Optimal => "optimal",
            PolicyKind::Dynamic => "dynamic",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        PolicyKind::ALL
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a policy: one of static, optimal, dynamic"))
    }
}

/// The inputs of a plan besides the facts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    pub policy: PolicyKind,
    pub trust: TrustRules,
    /// Of every node; only `optimal` looks at them.
    pub costs: Costs,
    /// Of `dynamic`.
    pub settings: DynamicSettings,
}

/// A plan in items.
#[derive(Debug, Clone)]
pub struct JobPlan {
    pub facts: Facts,
    pub options: Options,
    pub holdings: Holdings,
    pub problem: Problem,
    pub plan: Plan,
    pub item_plan: ItemPlan,
    /// Remarks for the reader of the plan.
    pub notes: Vec<String>,
}

impl JobPlan {
    pub fn new(facts: Facts, options: Options) -> Result<JobPlan, Error> {
        let names = facts.nodes.iter().map(|node| node.name.clone()).collect();
        let holdings = Holdings::resolve(names, facts.items.clone())?;
        let node = |known: &crate::facts::NodeFacts| Node {
            name: known.name.clone(),
            load: holdings.load(&known.name),
            capability: known.capability.map_or(0.0, |of| of.value),
            spread: known.capability.map_or(0.0, |of| of.spread),
            state: known.state,
            costs: if options.policy == PolicyKind::Optimal { options.costs } else { Costs::default() },
        };
        let problem = Problem::new(facts.nodes.iter().map(node).collect(), &options.trust)?;
        let plan = match options.policy {
            PolicyKind::Static | PolicyKind::Dynamic => partition(&problem),
            PolicyKind::Optimal => optimal(&problem).plan,
        };
        let item_plan = pick_items(&plan, &holdings)?;
        let notes = notes(&facts, &holdings, &problem, &plan);
        Ok(JobPlan { facts, options, holdings, problem, plan, item_plan, notes })
    }

    /// The expected times, if capabilities are items a second.
    pub fn expected(&self) -> ExpectedTimes {
        expected(&self.problem, &self.plan)
    }

    /// The policy that carries the plan out.
    pub fn policy(&self) -> Result<Box<dyn Policy>, Error> {
        let weights = self.problem.weights();
        let nodes =
            self.problem.nodes().iter().zip(weights).map(|(node, weight)| (node.name.clone(), *weight));
        let parts = self.item_plan.parts.clone();
        Ok(match self.options.policy {
            PolicyKind::Static | PolicyKind::Optimal => Box::new(FixedPolicy::new(nodes.collect(), parts)?),
            PolicyKind::Dynamic => {
                Box::new(DynamicPolicy::new(nodes.collect(), parts, self.options.settings)?)
            }
        })
    }

    /// The plan for programs.
    pub fn to_json(&self) -> Value {
        let expected = self.expected();
        let nodes: Vec<Value> = (self.problem.nodes().iter().zip(&self.plan.parts))
            .zip(self.item_plan.parts.iter().zip(&expected.seconds))
            .map(|((node, part), (items, seconds))| {
                json!({
                    "node": node.name, "capability": node.capability, "spread": node.spread,
                    "state": node.state, "held": part.held, "target": part.target,
                    "seconds": seconds, "items": self.item_names(items),
                })
            })
            .collect();
        let transfers: Vec<Value> = (self.plan.transfers.iter().zip(&self.item_plan.transfers))
            .map(|(transfer, items)| {
                json!({
                    "from": self.problem.name(transfer.from), "to": self.problem.name(transfer.to),
                    "count": transfer.count, "items": self.item_names(items),
                })
            })
            .collect();
        json!({
            "policy": self.options.policy, "revision": self.facts.revision, "items": self.problem.total(),
            "makespan": expected.makespan, "ideal": expected.ideal, "moved": self.plan.moved(),
            "fetched": self.item_plan.fetched, "nodes": nodes, "transfers": transfers, "notes": self.notes,
        })
    }

    fn item_names(&self, items: &[u32]) -> Vec<&str> {
        items.iter().map(|item| self.holdings.items()[*item as usize].as_str()).collect()
    }
}

/// The plan for people.
impl fmt::Display for JobPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = self.expected();
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let mut rows = vec![["NODE", "CAPABILITY", "STATE", "HAS", "DOES", "SECONDS"].map(str::to_owned)];
        for (i, (node, part)) in self.problem.nodes().iter().zip(&self.plan.parts).enumerate() {
            rows.push([
                node.name.clone(),
                format!("{:.3}", node.capability),
                node.state.to_string(),
                part.held.to_string(),
                part.target.to_string(),
                number(expected.seconds[i]),
            ]);
        }
        f.write_str(&crate::columns::columns(&rows, &[1, 3, 4, 5]))?;
        let mut moves = String::new();
        for transfer in &self.plan.transfers {
            let (from, to) = (self.problem.name(transfer.from), self.problem.name(transfer.to));
            writeln!(moves, "{} from {from} to {to}", transfer.count)?;
        }
        if !moves.is_empty() {
            write!(f, "\nmoves\n{moves}")?;
        }
        let (items, moved, revision) = (self.problem.total(), self.plan.moved(), self.facts.revision);
        write!(f, "\n{items} items, {moved} move; by the facts of revision {revision}\n")?;
        if let (Some(makespan), Some(ideal)) = (expected.makespan, expected.ideal) {
            writeln!(
                f,
                "expected: {makespan:.1} s, at best {ideal:.1} s (if capabilities are items a second)"
            )?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

fn notes(facts: &Facts, holdings: &Holdings, problem: &Problem, plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    for Note::EqualSplit { among } in &plan.notes {
        notes.push(format!("no node has a capability above 0: an equal split among {among}"));
    }
    if holdings.nowhere() > 0 {
        notes.push(format!("no node holds {} of the items", holdings.nowhere()));
    }
    for (i, known) in facts.nodes.iter().enumerate() {
        let name = &known.name;
        if known.capability.is_none() {
            notes.push(format!("the capability of {name} is unknown; it counts as 0"));
        }
        let own = holdings.load(name);
        if let Some(load) = known.load.filter(|load| *load != own as f64) {
            notes.push(format!("{name} reports a load of {load}; its own {own} items count instead"));
        }
        match problem.capability_use(i) {
            CapabilityUse::Fresh => {}
            CapabilityUse::LastKnown => {
                notes.push(format!("{name} is {}: its last known capability counts", known.state));
            }
            CapabilityUse::Widened => {
                notes.push(format!("{name} is {}: its capability counts less its spread", known.state));
            }
            CapabilityUse::Excluded => {
                notes.push(format!("{name} is {}: it is left out", known.state));
            }
        }
    }
    notes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::{Capability, NodeFacts};
    use estimand_api::value::State;

    use crate::plan::Item;

    fn known(name: &str, capability: Option<f64>, state: State) -> NodeFacts {
        let capability = capability.map(|value| Capability { value, spread: 0.0, samples: None });
        NodeFacts { name: name.to_owned(), load: Some(1.0), capability, state }
    }

    fn facts() -> Facts {
        let item = |i: usize| Item { name: format!("{i:02}.jpg"), on: vec!["a".to_owned()] };
        let nodes = vec![
            known("a", Some(1.0), State::Fresh),
            known("b", Some(3.0), State::Stale),
            known("c", None, State::NodeLost),
        ];
        Facts { revision: 42, items: (0..8).map(item).collect(), nodes }
    }

    #[test]
    fn a_plan_is_shown_with_its_inputs() {
        insta::assert_snapshot!(JobPlan::new(facts(), Options::default()).unwrap());
    }

    #[test]
    fn a_plan_names_every_item_once() {
        let json = JobPlan::new(facts(), Options::default()).unwrap().to_json();
        assert_eq!(json["nodes"][0]["items"], json!(["00.jpg", "01.jpg"]));
        assert_eq!(
            json["transfers"][0]["items"],
            json!(["02.jpg", "03.jpg", "04.jpg", "05.jpg", "06.jpg", "07.jpg"])
        );
        assert_eq!(
            (&json["moved"], &json["makespan"], &json["policy"]),
            (&json!(6), &json!(2.0), &json!("static"))
        );
    }

    #[test]
    fn policies_are_parsed_as_they_are_printed() {
        for policy in PolicyKind::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!(
            "fast".parse::<PolicyKind>().unwrap_err(),
            "`fast` is not a policy: one of static, optimal, dynamic"
        );
    }
}
