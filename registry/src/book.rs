//! Everything that is registered at one moment, with the answers to reads rendered already.
//!
//! A book never changes: each change makes the next one. It knows no database and no clock. A stored
//! registration that this version of the program cannot read keeps its name and its version, so that it can
//! be replaced or deleted, but it is in no list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use estimand_api::names::DataName;
use estimand_api::registration::{History, Registered, redact};
use serde_json::Value;

/// Which names keep a history, and how much of it.
pub type Retention = BTreeMap<DataName, History>;

/// All registrations of one moment, in order of name.
#[derive(Debug, Default)]
pub struct Book {
    /// Grows with every change; tells books of one process apart.
    pub generation: u64,
    held: BTreeMap<DataName, Held>,
    list: Bytes,
    /// The same with the values of secrets, made when somebody asks who may know them.
    complete: OnceLock<Bytes>,
}

/// What is held under a name.
#[derive(Debug, Clone)]
pub enum Held {
    Readable(Arc<Entry>),
    Unreadable(Arc<Unreadable>),
}

/// A registration and its rendering.
#[derive(Debug)]
pub struct Entry {
    pub registered: Registered,
    /// The same as the interface shows it: without the values of secrets.
    pub json: Bytes,
}

/// A stored registration that does not parse.
#[derive(Debug)]
pub struct Unreadable {
    pub version: u64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// What is stored, to the letter.
    pub spec: String,
    pub cause: String,
}

impl Entry {
    pub fn new(registered: Registered) -> Self {
        let json = Bytes::from(Value::Object(registered.redacted().to_map()).to_string());
        Entry { registered, json }
    }

    /// With the values of secrets, for who runs it.
    fn complete(&self) -> Bytes {
        match self.registered.registration.secrets.is_empty() {
            true => self.json.clone(),
            false => Bytes::from(Value::Object(self.registered.to_map()).to_string()),
        }
    }

    pub fn name(&self) -> &DataName {
        &self.registered.registration.data_name
    }

    /// The registration alone, as it is stored: with the values of secrets.
    pub fn spec(&self) -> String {
        Value::Object(self.registered.registration.to_map()).to_string()
    }

    /// The same as the audit trail keeps it: without them.
    pub fn shown_spec(&self) -> String {
        Value::Object(self.registered.registration.redacted().to_map()).to_string()
    }
}

impl Held {
    pub fn version(&self) -> u64 {
        match self {
            Held::Readable(entry) => entry.registered.version,
            Held::Unreadable(row) => row.version,
        }
    }

    pub fn created_at(&self) -> DateTime<Utc> {
        match self {
            Held::Readable(entry) => entry.registered.created_at,
            Held::Unreadable(row) => row.created_at,
        }
    }

    pub fn updated_at(&self) -> DateTime<Utc> {
        match self {
            Held::Readable(entry) => entry.registered.updated_at,
            Held::Unreadable(row) => row.updated_at,
        }
    }

    /// What the audit trail keeps of it, without the values of secrets.
    pub fn shown_spec(&self) -> String {
        match self {
            Held::Readable(entry) => entry.shown_spec(),
            Held::Unreadable(row) => shown(&row.spec),
        }
    }

    pub fn readable(&self) -> Option<&Arc<Entry>> {
        match self {
            Held::Readable(entry) => Some(entry),
            Held::Unreadable(_) => None,
        }
    }
}

impl Book {
    pub fn new(generation: u64, held: BTreeMap<DataName, Held>) -> Self {
        let list = render(held.values().filter_map(Held::readable), |entry| entry.json.clone());
        Book { generation, held, list, complete: OnceLock::new() }
    }

    /// The book after this one, in which `name` holds something else or nothing.
    pub fn with(&self, name: &DataName, after: Option<Arc<Entry>>) -> Self {
        let mut held = self.held.clone();
        match after {
            Some(entry) => held.insert(name.clone(), Held::Readable(entry)),
            None => held.remove(name),
        };
        Book::new(self.generation + 1, held)
    }

    pub fn get(&self, name: &str) -> Option<&Held> {
        self.held.get(name)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &DataName> {
        self.held.keys()
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn unreadable(&self) -> usize {
        self.held.values().filter(|held| held.readable().is_none()).count()
    }

    /// All registrations as a JSON array, in order of name.
    pub fn list(&self) -> Bytes {
        self.list.clone()
    }

    /// The same with the values of secrets.
    pub fn complete_list(&self) -> Bytes {
        let render = || render(self.held.values().filter_map(Held::readable), |entry| entry.complete());
        self.complete.get_or_init(render).clone()
    }

    /// What the registration of a name reads; nothing if there is none.
    pub fn inputs_of(&self, name: &DataName) -> &[DataName] {
        let entry = self.held.get(name).and_then(Held::readable);
        entry.map_or(&[], |entry| entry.registered.registration.inputs.as_slice())
    }

    pub fn retention(&self) -> Retention {
        let entries = self.held.values().filter_map(Held::readable);
        let kept =
            entries.filter_map(|entry| Some((entry.name().clone(), entry.registered.registration.history?)));
        kept.collect()
    }
}

fn render<'e>(entries: impl Iterator<Item = &'e Arc<Entry>>, of: impl Fn(&Entry) -> Bytes) -> Bytes {
    let pieces: Vec<Bytes> = entries.map(|entry| of(entry)).collect();
    let mut list = Vec::with_capacity(pieces.iter().map(|piece| piece.len() + 1).sum::<usize>() + 2);
    list.push(b'[');
    for (place, piece) in pieces.iter().enumerate() {
        if place > 0 {
            list.push(b',');
        }
        list.extend_from_slice(piece);
    }
    list.push(b']');
    Bytes::from(list)
}

/// What may be shown of a stored registration that cannot be read: it may have secrets all the same.
fn shown(spec: &str) -> String {
    match serde_json::from_str(spec) {
        Ok(Value::Object(mut map)) => {
            redact(&mut map, &BTreeSet::new());
            Value::Object(map).to_string()
        }
        Ok(_) | Err(_) if !spec.contains("\"secrets\"") => spec.to_owned(),
        Ok(_) | Err(_) => Value::from("(it cannot be read, and may have secrets)").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_shown_without_its_secrets() {
        let check = |spec: &str, expected: &str| assert_eq!(shown(spec), expected);
        check(
            r#"{"mode":"?","env":{"A":"hush"},"secrets":["A"]}"#,
            r#"{"mode":"?","env":{"A":null},"secrets":["A"]}"#,
        );
        check("nonsense", "nonsense");
        check(r#"{"env":{"A":"hush"},"secrets":["A"]"#, r#""(it cannot be read, and may have secrets)""#);
    }
}
