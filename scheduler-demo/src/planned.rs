//! From what is known to who is to do what: Algorithm 1 with the items themselves, and what to expect of it.
//!
//! Owns how facts become the planner's input, and the words for it. Says nothing about how a plan is carried out. What
//! was not said of a node is never guessed in silence: the notes tell.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::plan::{
    Costs, Dynamic, Error, Expected, Fixed, Holdings, Node, Note, Picked, Plan, Policy, Problem, Settings,
    Standing, State, Trusts, expected, optimal, partition, pick,
};

/// How work is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Algorithm 1, carried out as it is.
    #[default]
    Static,
    /// The least time by start-up, speed and the cost of fetching.
    Optimal,
    /// Algorithm 1 first, then by what is measured on the way.
    Dynamic,
}

impl Method {
    pub const ALL: [Method; 3] = [Method::Static, Method::Optimal, Method::Dynamic];

    pub fn as_str(self) -> &'static str {
        match self {
            Method::Static => "static",
            Method::Optimal => "optimal",
            Method::Dynamic => "dynamic",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Method {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Method::ALL
            .into_iter()
            .find(|method| method.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a policy: one of static, optimal, dynamic"))
    }
}

/// What a plan depends on besides the facts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    pub method: Method,
    pub trusts: Trusts,
    /// Of every node; only `optimal` looks at them.
    pub costs: Costs,
    /// Of `dynamic`.
    pub settings: Settings,
}

/// A plan in items.
#[derive(Debug, Clone)]
pub struct Planned {
    pub facts: Facts,
    pub options: Options,
    pub holdings: Holdings,
    pub problem: Problem,
    pub plan: Plan,
    pub picked: Picked,
    /// What whoever reads the plan should know.
    pub notes: Vec<String>,
}

impl Planned {
    pub fn new(facts: Facts, options: Options) -> Result<Planned, Error> {
        let names = facts.nodes.iter().map(|node| node.name.clone()).collect();
        let holdings = Holdings::resolve(names, facts.items.clone())?;
        let node = |known: &crate::facts::Known| Node {
            name: known.name.clone(),
            load: holdings.load(&known.name),
            capability: known.capability.map_or(0.0, |of| of.value),
            spread: known.capability.map_or(0.0, |of| of.spread),
            state: known.state,
            costs: if options.method == Method::Optimal { options.costs } else { Costs::default() },
        };
        let problem = Problem::new(facts.nodes.iter().map(node).collect(), &options.trusts)?;
        let plan = match options.method {
            Method::Static | Method::Dynamic => partition(&problem),
            Method::Optimal => optimal(&problem).plan,
        };
        let picked = pick(&plan, &holdings)?;
        let notes = notes(&facts, &holdings, &problem, &plan);
        Ok(Planned { facts, options, holdings, problem, plan, picked, notes })
    }

    /// What is to be expected if capabilities are items a second.
    pub fn expected(&self) -> Expected {
        expected(&self.problem, &self.plan)
    }

    /// What carries the plan out.
    pub fn policy(&self) -> Result<Box<dyn Policy>, Error> {
        let weights = self.problem.weights();
        let nodes =
            self.problem.nodes().iter().zip(weights).map(|(node, weight)| (node.name.clone(), *weight));
        let parts = self.picked.parts.clone();
        Ok(match self.options.method {
            Method::Static | Method::Optimal => Box::new(Fixed::new(nodes.collect(), parts)?),
            Method::Dynamic => Box::new(Dynamic::new(nodes.collect(), parts, self.options.settings)?),
        })
    }

    /// The plan for programs.
    pub fn to_json(&self) -> Value {
        let expected = self.expected();
        let nodes: Vec<Value> = (self.problem.nodes().iter().zip(&self.plan.parts))
            .zip(self.picked.parts.iter().zip(&expected.seconds))
            .map(|((node, part), (items, seconds))| {
                json!({
                    "node": node.name, "capability": node.capability, "spread": node.spread,
                    "state": state_word(node.state), "held": part.held, "target": part.target,
                    "seconds": seconds, "items": self.item_names(items),
                })
            })
            .collect();
        let transfers: Vec<Value> = (self.plan.transfers.iter().zip(&self.picked.transfers))
            .map(|(transfer, items)| {
                json!({
                    "from": self.problem.name(transfer.from), "to": self.problem.name(transfer.to),
                    "count": transfer.count, "items": self.item_names(items),
                })
            })
            .collect();
        json!({
            "policy": self.options.method, "revision": self.facts.revision, "items": self.problem.total(),
            "makespan": expected.makespan, "ideal": expected.ideal, "moved": self.plan.moved(),
            "fetched": self.picked.fetched, "nodes": nodes, "transfers": transfers, "notes": self.notes,
        })
    }

    fn item_names(&self, items: &[u32]) -> Vec<&str> {
        items.iter().map(|item| self.holdings.items()[*item as usize].as_str()).collect()
    }
}

/// The plan for people.
impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = self.expected();
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let mut rows = vec![["NODE", "CAPABILITY", "STATE", "HAS", "DOES", "SECONDS"].map(str::to_owned)];
        for (i, (node, part)) in self.problem.nodes().iter().zip(&self.plan.parts).enumerate() {
            rows.push([
                node.name.clone(),
                format!("{:.3}", node.capability),
                state_word(node.state).to_owned(),
                part.held.to_string(),
                part.target.to_string(),
                number(expected.seconds[i]),
            ]);
        }
        f.write_str(&crate::report::table(&rows, &[1, 3, 4, 5]))?;
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

pub(crate) fn state_word(state: State) -> &'static str {
    match state {
        State::Fresh => "fresh",
        State::Stale => "stale",
        State::Failed => "failed",
        State::NodeLost => "node-lost",
    }
}

fn notes(facts: &Facts, holdings: &Holdings, problem: &Problem, plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    for Note::EqualSplit { among } in &plan.notes {
        notes.push(format!("no node is said to be capable of anything: an equal split among {among}"));
    }
    if holdings.nowhere() > 0 {
        notes.push(format!("no node holds {} of the items", holdings.nowhere()));
    }
    for (i, known) in facts.nodes.iter().enumerate() {
        let name = &known.name;
        if known.capability.is_none() {
            notes.push(format!("nothing is known of what {name} is capable of; it counts as 0"));
        }
        let own = holdings.load(name);
        if let Some(load) = known.load.filter(|load| *load != own as f64) {
            notes.push(format!(
                "{name} says that its load is {load}; it counts as the {own} items that are its own"
            ));
        }
        match problem.standing(i) {
            Standing::Fresh => {}
            Standing::LastKnown => {
                notes.push(format!("{name} is {}: the last that was known counts", state_word(known.state)));
            }
            Standing::Widened => {
                notes
                    .push(format!("{name} is {}: it counts for less by its spread", state_word(known.state)));
            }
            Standing::Excluded => {
                notes.push(format!("{name} is {}: it is left out", state_word(known.state)));
            }
        }
    }
    notes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::{Capability, Known};
    use crate::plan::Item;

    fn known(name: &str, capability: Option<f64>, state: State) -> Known {
        let capability = capability.map(|value| Capability { value, spread: 0.0, samples: None });
        Known { name: name.to_owned(), load: Some(1.0), capability, state }
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
    fn a_plan_is_shown_with_all_that_went_into_it() {
        insta::assert_snapshot!(Planned::new(facts(), Options::default()).unwrap());
    }

    #[test]
    fn a_plan_names_every_item_once() {
        let json = Planned::new(facts(), Options::default()).unwrap().to_json();
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
    fn methods_are_read_as_they_are_written() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        assert_eq!(
            "fast".parse::<Method>().unwrap_err(),
            "`fast` is not a policy: one of static, optimal, dynamic"
        );
    }
}
