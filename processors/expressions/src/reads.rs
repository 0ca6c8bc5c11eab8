//! The inputs and parameters that an expression reads, as the parser found them. The evaluator's caller brings the
//! inputs, keeps their past, and rejects the expression if there is no such input.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use crate::error::{ErrorKind, Fault, nearest, quoted};

/// How an expression looks at the past of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// How far at most.
    pub window: Duration,
    /// The parts of its values that have to be kept.
    pub parts: BTreeSet<PastPart>,
}

/// A part of an input's values that is looked at in the past.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PastPart {
    /// The fields that lead to it, as far as they are written out.
    pub fields: Vec<String>,
    /// It is all there is of it; else it is looked into further, and has to be kept whole.
    pub is_number: bool,
}

impl PastPart {
    /// All of each value.
    pub const fn whole() -> Self {
        PastPart { fields: Vec::new(), is_number: false }
    }

    /// The part of a value.
    pub fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.fields.iter().try_fold(value, |value, field| value.as_object()?.get(field))
    }
}

impl Past {
    /// Of two ways to look at an input the one that shows both all that they need.
    pub fn join(&mut self, other: &Past) {
        self.window = self.window.max(other.window);
        self.parts.extend(other.parts.iter().cloned());
    }
}

/// How an expression looks at its inputs, beyond their latest values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// The inputs whose past it looks at.
    pub past: BTreeMap<String, Past>,
    /// The inputs that it looks at on all nodes.
    pub across: BTreeSet<String>,
    /// The inputs of which it asks `state()`, `age()` or `known()`: it takes it upon itself what to make of a value
    /// that is not fresh.
    pub states: BTreeSet<String>,
    /// The parameters that it names.
    pub params: BTreeSet<String>,
}

/// A place where an input or a parameter is named.
#[derive(Debug)]
pub struct Reference {
    pub name: Box<str>,
    pub at: u32,
    /// True in the place of a map's key.
    pub as_key: bool,
}

#[derive(Debug, Default)]
pub struct Reads {
    pub references: Vec<Reference>,
    pub params: Vec<Reference>,
    /// Those that `has` asks for: an expression that asks can do without.
    pub optional_params: BTreeSet<String>,
    pub past: BTreeMap<String, Past>,
    pub across: BTreeSet<String>,
    pub states: BTreeSet<String>,
}

impl Reads {
    pub fn input(&mut self, name: &str, at: u32) {
        self.references.push(Reference { name: name.into(), at, as_key: false });
    }

    pub fn param(&mut self, name: &str, at: u32) {
        self.params.push(Reference { name: name.into(), at, as_key: false });
    }

    pub fn inputs(&self) -> BTreeSet<String> {
        names(&self.references)
    }

    pub fn uses(&self) -> Uses {
        Uses {
            past: self.past.clone(),
            across: self.across.clone(),
            states: self.states.clone(),
            params: names(&self.params),
        }
    }

    /// Names in it that do not exist, each once, in the order of the text.
    pub fn unknown(&self, inputs: &BTreeSet<String>, params: &BTreeSet<String>) -> Vec<Fault> {
        let mut seen = BTreeSet::new();
        let mut faults = Vec::new();
        for reference in &self.references {
            if !inputs.contains(&*reference.name) && seen.insert(("input", &reference.name)) {
                faults.push(unknown_input(reference, inputs));
            }
        }
        for reference in &self.params {
            let known = params.contains(&*reference.name) || self.optional_params.contains(&*reference.name);
            if !known && seen.insert(("param", &reference.name)) {
                faults.push(unknown_param(reference, params));
            }
        }
        faults.sort_by_key(|fault| fault.at);
        faults
    }
}

fn names(references: &[Reference]) -> BTreeSet<String> {
    references.iter().map(|reference| reference.name.to_string()).collect()
}

fn unknown_input(reference: &Reference, inputs: &BTreeSet<String>) -> Fault {
    let name = &*reference.name;
    let hint = match nearest(name, inputs.iter().map(String::as_str)) {
        _ if reference.as_key => format!("if it is a key of the map, write {}", quoted(name)),
        Some(meant) if is_identifier(meant) => format!("did you mean `{meant}`?"),
        Some(meant) => format!("did you mean input(\"{meant}\")?"),
        None if inputs.is_empty() => "there are no inputs".to_owned(),
        None => format!("the inputs are {}", listed(inputs)),
    };
    let message = format!("no input {}: {hint}", quoted(name));
    Fault { kind: ErrorKind::Unknown, at: reference.at, message }
}

fn unknown_param(reference: &Reference, params: &BTreeSet<String>) -> Fault {
    let hint = match nearest(&reference.name, params.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean params.{meant}?"),
        None if params.is_empty() => "there are no parameters".to_owned(),
        None => format!("the parameters are {}", listed(params)),
    };
    let message = format!("no parameter {}: {hint}", quoted(&reference.name));
    Fault { kind: ErrorKind::Unknown, at: reference.at, message }
}

/// The first few of them.
fn listed(names: &BTreeSet<String>) -> String {
    const MOST: usize = 8;
    let first: Vec<&str> = names.iter().take(MOST).map(String::as_str).collect();
    let more = names.len().saturating_sub(MOST);
    if more > 0 { format!("{} and {more} more", first.join(", ")) } else { first.join(", ") }
}

fn is_identifier(name: &str) -> bool {
    name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}
