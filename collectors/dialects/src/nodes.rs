//! `nodes`: an object of node name to value, so that one instance answers for all nodes.
//!
//! It is all or nothing: one invalid name rejects all values. An empty object gives none.

use estimand_api::registration::Format;
use std::borrow::Cow;
use std::fmt;

use estimand_api::names::NodeName;
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Answer, Dialect, DialectKind, Output, Reading, bounded, head, if_said, json};

/// How many bad names a message lists.
const NAMES_SHOWN: usize = 3;

/// The most output of a run that answers for all nodes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

pub(super) const KIND: DialectKind = DialectKind {
    name: "nodes",
    about: "an object of node name to value",
    format: Format::Nodes,
    dialect: &Nodes,
};

struct Nodes;

impl Dialect for Nodes {
    fn most_output(&self) -> usize {
        MAX_BYTES
    }

    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, |text| read(text).map(Reading::from))
    }
}

fn read(text: &str) -> Result<Answer, String> {
    let document = json::checked(text)?;
    if !document.starts_with('{') {
        return Err(format!(
            "the output is not an object but `{}`; expected one of node name to value, such as \
             {{\"node-1\":0.5}}",
            head(&document)
        ));
    }
    let members = serde_json::Deserializer::from_str(&document)
        .deserialize_map(Members)
        .map_err(|error| format!("the output is not JSON: {error}"))?;
    check_names(&members)?;
    let values: Result<Vec<(NodeName, Box<str>)>, String> = members.into_iter().map(member).collect();
    values.map(|values| if values.is_empty() { Answer::Nothing } else { Answer::PerNode(values) })
}

fn member((name, value): (Cow<'_, str>, &RawValue)) -> Result<(NodeName, Box<str>), String> {
    let node = NodeName::parse(&name).map_err(|error| error.to_string())?;
    let value = bounded(&format!("the value of node `{node}`"), value.get())?;
    Ok((node, value))
}

fn check_names(members: &[(Cow<'_, str>, &RawValue)]) -> Result<(), String> {
    let bad: Vec<&str> =
        members.iter().map(|(name, _)| &**name).filter(|name| !NodeName::is_valid(name)).collect();
    if bad.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = bad.iter().take(NAMES_SHOWN).map(|name| format!("`{}`", head(name))).collect();
    let more = match bad.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(format!(
        "the output has keys that are not node names: {}{more}; expected {}",
        shown.join(", "),
        NodeName::EXPECTED
    ))
}

/// Takes an object apart, in its order, and leaves the values as they are written.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of node name to value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((Key(name), value)) = map.next_entry()? {
            members.push((name, value));
        }
        Ok(members)
    }
}

/// A key that is borrowed where it can be.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
