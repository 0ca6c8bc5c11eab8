//! All registrations at one moment, with the answers to reads rendered already.
//!
//! They never change: each change makes the next ones. A stored registration that this version of the program cannot
//! read keeps its name and its version, so that it can be replaced or deleted, but it is in no list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use estimand_api::names::DataName;
use estimand_api::registration::{History, RegistrationRecord, redact};
use serde_json::Value;

/// The names that keep a history, and how much of it.
pub type Retention = BTreeMap<DataName, History>;

/// All registrations of one moment, in order of name.
#[derive(Debug, Default)]
pub struct Registrations {
    /// Grows with every change; tells the registrations of different moments apart, within one process.
    pub generation: u64,
    by_name: BTreeMap<DataName, StoredRegistration>,
    list: Bytes,
    /// The same with the values of secrets, rendered at the first request that may see them.
    complete: OnceLock<Bytes>,
}

/// The stored registration of a name.
#[derive(Debug, Clone)]
pub enum StoredRegistration {
    Readable(Arc<RenderedRegistration>),
    Unreadable(Arc<UnreadableRegistration>),
}

/// A registration and its rendering.
#[derive(Debug)]
pub struct RenderedRegistration {
    pub registered: RegistrationRecord,
    /// The same as the interface shows it: without the values of secrets.
    pub json: Bytes,
}

/// A stored registration that does not parse.
#[derive(Debug)]
pub struct UnreadableRegistration {
    pub version: u64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// The stored text, to the letter.
    pub spec: String,
    pub cause: String,
}

impl RenderedRegistration {
    pub fn new(registered: RegistrationRecord) -> Self {
        let json = Bytes::from(Value::Object(registered.redacted().to_map()).to_string());
        RenderedRegistration { registered, json }
    }

    /// With the values of secrets, for the agents that run it.
    fn complete(&self) -> Bytes {
        match self.registered.registration.secrets.is_empty() {
            true => self.json.clone(),
            false => Bytes::from(Value::Object(self.registered.to_map()).to_string()),
        }
    }

    pub fn name(&self) -> &DataName {
        &self.registered.registration.data_name
    }

    /// The registration alone, as it is stored, with the values of secrets.
    pub fn spec(&self) -> String {
        Value::Object(self.registered.registration.to_map()).to_string()
    }

    /// The same as the audit trail keeps it: without them.
    pub fn shown_spec(&self) -> String {
        Value::Object(self.registered.registration.redacted().to_map()).to_string()
    }
}

impl StoredRegistration {
    pub fn version(&self) -> u64 {
        match self {
            StoredRegistration::Readable(entry) => entry.registered.version,
            StoredRegistration::Unreadable(row) => row.version,
        }
    }

    pub fn created_at(&self) -> DateTime<Utc> {
        match self {
            StoredRegistration::Readable(entry) => entry.registered.created_at,
            StoredRegistration::Unreadable(row) => row.created_at,
        }
    }

    pub fn updated_at(&self) -> DateTime<Utc> {
        match self {
            StoredRegistration::Readable(entry) => entry.registered.updated_at,
            StoredRegistration::Unreadable(row) => row.updated_at,
        }
    }

    /// The registration as the audit trail keeps it, without the values of secrets.
    pub fn shown_spec(&self) -> String {
        match self {
            StoredRegistration::Readable(entry) => entry.shown_spec(),
            StoredRegistration::Unreadable(row) => shown(&row.spec),
        }
    }

    pub fn readable(&self) -> Option<&Arc<RenderedRegistration>> {
        match self {
            StoredRegistration::Readable(entry) => Some(entry),
            StoredRegistration::Unreadable(_) => None,
        }
    }
}

impl Registrations {
    pub fn new(generation: u64, by_name: BTreeMap<DataName, StoredRegistration>) -> Self {
        let list =
            render(by_name.values().filter_map(StoredRegistration::readable), |entry| entry.json.clone());
        Registrations { generation, by_name, list, complete: OnceLock::new() }
    }

    /// The registrations after these, in which some names hold something else or nothing.
    pub fn with(
        &self,
        changes: impl IntoIterator<Item = (DataName, Option<Arc<RenderedRegistration>>)>,
    ) -> Self {
        let mut by_name = self.by_name.clone();
        for (name, after) in changes {
            match after {
                Some(entry) => by_name.insert(name, StoredRegistration::Readable(entry)),
                None => by_name.remove(&name),
            };
        }
        Registrations::new(self.generation + 1, by_name)
    }

    pub fn get(&self, name: &str) -> Option<&StoredRegistration> {
        self.by_name.get(name)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &DataName> {
        self.by_name.keys()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn unreadable(&self) -> usize {
        self.by_name.values().filter(|stored| stored.readable().is_none()).count()
    }

    /// All registrations as a JSON array, in order of name.
    pub fn list(&self) -> Bytes {
        self.list.clone()
    }

    /// The same with the values of secrets.
    pub fn complete_list(&self) -> Bytes {
        let render = || {
            render(self.by_name.values().filter_map(StoredRegistration::readable), |entry| entry.complete())
        };
        self.complete.get_or_init(render).clone()
    }

    /// The inputs of the registration of a name; none if there is no such registration.
    #[cfg(test)]
    pub fn inputs_of(&self, name: &DataName) -> &[DataName] {
        let entry = self.by_name.get(name).and_then(StoredRegistration::readable);
        entry.map_or(&[], |entry| entry.registered.registration.inputs.as_slice())
    }

    pub fn retention(&self) -> Retention {
        let entries = self.by_name.values().filter_map(StoredRegistration::readable);
        let kept =
            entries.filter_map(|entry| Some((entry.name().clone(), entry.registered.registration.history?)));
        kept.collect()
    }
}

fn render<'e>(
    entries: impl Iterator<Item = &'e Arc<RenderedRegistration>>,
    of: impl Fn(&RenderedRegistration) -> Bytes,
) -> Bytes {
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

/// The part that may be shown of a stored registration that cannot be read: it may have secrets all the same.
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
    fn an_unreadable_registration_is_shown_without_its_secrets() {
        let check = |spec: &str, expected: &str| assert_eq!(shown(spec), expected);
        check(
            r#"{"mode":"?","env":{"A":"hush"},"secrets":["A"]}"#,
            r#"{"mode":"?","env":{"A":null},"secrets":["A"]}"#,
        );
        check("nonsense", "nonsense");
        check(r#"{"env":{"A":"hush"},"secrets":["A"]"#, r#""(it cannot be read, and may have secrets)""#);
    }
}
