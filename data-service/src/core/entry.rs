//! One value in memory: its facts and its text, in one piece of memory.
//!
//! Its object is rendered when it is read, under its own data name or under that of a binding, whole or with a part of
//! the value. An entry never changes; a change makes a new one.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::atomic::AtomicI64;

use bytes::Bytes;
use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;
use estimand_api::value::State;
use estimand_api::write::Order;
use triomphe::ThinArc;

use super::origin::Origin;
use super::rendering::push_object;

/// A value of a data name on a node. Clones are the same.
#[derive(Clone)]
pub struct Entry(SharedEntry);

/// The same as cells keep it: one pointer, behind which everything lies.
pub type SharedEntry = ThinArc<Head, u8>;

/// The part of an entry before its text.
#[derive(Debug)]
pub struct Head {
    pub facts: Facts,
    /// When the writer is going to look whether it has turned stale; 0 if it never is. Only the writer's.
    pub alarm: AtomicI64,
}

/// Where a part of a value stands in its text.
pub type Part = Range<u32>;

/// The facts of a value beside its text.
#[derive(Debug, Clone)]
pub struct Facts {
    pub name: DataName,
    pub node: NodeName,
    pub collected_at: i64,
    pub received_at: i64,
    pub valid_for: Validity,
    pub marks: Marks,
    pub revision: u64,
    pub origin: Option<Origin>,
}

/// For how long a value holds; a negative number stands for ever, so that it takes the room of one number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Validity(i64);

impl Validity {
    /// None: for ever.
    pub fn micros(self) -> Option<i64> {
        (self.0 >= 0).then_some(self.0)
    }
}

impl From<Option<i64>> for Validity {
    fn from(micros: Option<i64>) -> Self {
        Validity(micros.map_or(-1, |micros| micros.max(0)))
    }
}

impl fmt::Debug for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.micros().fmt(f)
    }
}

/// Why a value may not be fresh; a write clears all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    pub stale: bool,
    pub failed: bool,
    pub lost: bool,
}

impl Marks {
    /// The state that readers see: the gravest of the marks.
    pub fn state(self) -> State {
        match self {
            Marks { lost: true, .. } => State::NodeLost,
            Marks { failed: true, .. } => State::Failed,
            Marks { stale: true, .. } => State::Stale,
            _ => State::Fresh,
        }
    }
}

impl Facts {
    /// Since when it is known. A node's clock that runs ahead does not make its values younger than they can be.
    pub fn known_since(&self) -> i64 {
        self.collected_at.min(self.received_at)
    }

    /// When it turns stale.
    pub fn expires_at(&self) -> Option<i64> {
        self.valid_for.micros().map(|valid| self.known_since().saturating_add(valid))
    }

    /// The highest place that a write of a slot has had here; plain writes leave it as it is.
    pub fn order(&self) -> Option<Order> {
        self.origin.as_ref().and_then(Origin::order)
    }

    pub fn provenance(&self) -> Option<&str> {
        self.origin.as_ref().and_then(Origin::provenance)
    }
}

impl Entry {
    pub fn new(facts: Facts, text: &str) -> Self {
        let head = Head { facts, alarm: AtomicI64::new(0) };
        Entry(ThinArc::from_header_and_slice(head, text.as_bytes()))
    }

    /// The same value with other marks, as a change of its own.
    pub fn marked(&self, marks: Marks, revision: u64) -> Self {
        self.with(Facts { marks, revision, ..self.facts.clone() })
    }

    /// The same value with other facts.
    pub fn with(&self, facts: Facts) -> Self {
        let entry = Entry::new(facts, self.text());
        entry.alarm.store(self.alarm.load(RELAXED), RELAXED);
        entry
    }

    /// The value's JSON text.
    pub fn text(&self) -> &str {
        self.text_of(None)
    }

    /// The JSON text of a part of the value, or of all of it.
    pub fn text_of(&self, part: Option<&Part>) -> &str {
        std::str::from_utf8(self.bytes_of(part)).unwrap_or("null")
    }

    fn bytes_of(&self, part: Option<&Part>) -> &[u8] {
        match part {
            None => &self.0.slice,
            Some(part) => &self.0.slice[part.start as usize..part.end as usize],
        }
    }

    /// Where a field of the value stands, or of a part of it.
    pub fn part(&self, within: Option<&Part>, field: &Pointer) -> Option<Part> {
        let text = self.text_of(within);
        let found = field.find(text)?;
        // The found text is a piece of the text that was searched.
        let start =
            within.map_or(0, |part| part.start) + (found.as_ptr().addr() - text.as_ptr().addr()) as u32;
        Some(start..start + found.len() as u32)
    }

    /// The whole object.
    pub fn json(&self) -> Bytes {
        let mut out = Vec::new();
        self.push_json(&mut out, None, None);
        Bytes::from(out)
    }

    /// Appends the whole object, under another data name if one is given, with only a part of the value if one
    /// is given.
    pub fn push_json(&self, out: &mut Vec<u8>, alias: Option<&DataName>, part: Option<&Part>) {
        push_object(out, alias.unwrap_or(&self.facts.name), &self.facts, self.bytes_of(part));
    }

    /// True if both are the same in memory.
    pub fn is(&self, other: &Entry) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }

    /// The memory that it takes: the counter and the length before it, and the allocator's own, too.
    pub fn size(&self) -> usize {
        let origin = self.facts.origin.as_ref().map_or(0, Origin::size);
        size_of::<[usize; 3]>() + size_of::<Head>() + self.0.slice.len() + origin
    }

    /// As a cell keeps it.
    pub fn into_shared(self) -> SharedEntry {
        self.0
    }
}

impl From<SharedEntry> for Entry {
    fn from(shared: SharedEntry) -> Self {
        Entry(shared)
    }
}

impl Deref for Entry {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.0.header.header
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("facts", &self.facts).field("text", &self.text()).finish()
    }
}

/// The alarm is the writer's own note; nothing else depends on when it is seen.
pub const RELAXED: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            name: DataName::parse("cpu").unwrap(),
            node: NodeName::parse("n1").unwrap(),
            collected_at: 1_700_000_000_000_000,
            received_at: 1_700_000_000_000_001,
            valid_for: Some(1_500_000).into(),
            marks: Marks::default(),
            revision: 42,
            origin: None,
        }
    }

    #[test]
    fn the_json_is_what_the_interface_promises() {
        let entry = Entry::new(facts(), r#"{"a":[1]}"#);
        assert_eq!(
            entry.json(),
            r#"{"dataName":"cpu","nodeName":"n1","dataValue":{"a":[1]},"collectedAt":"2023-11-14T22:13:20.000000Z","receivedAt":"2023-11-14T22:13:20.000001Z","validFor":1.5,"state":"fresh","revision":42}"#
        );
        assert_eq!(entry.text(), r#"{"a":[1]}"#);
    }

    #[test]
    fn a_binding_shows_its_own_name_and_a_mark_its_state() {
        let lost = Marks { lost: true, failed: true, stale: true };
        let entry = Entry::new(facts(), "1").marked(lost, 43);
        let mut out = Vec::new();
        entry.push_json(&mut out, Some(&DataName::parse("capability").unwrap()), None);
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.starts_with(r#"{"dataName":"capability","nodeName":"n1","dataValue":1,"#), "{shown}");
        assert!(shown.ends_with(r#""state":"node-lost","revision":43}"#), "{shown}");
    }

    #[test]
    fn a_part_of_a_part_is_shown_in_its_place() {
        let entry = Entry::new(facts(), r#"{"x":1,"in":{"y":0.10,"z":[]}}"#);
        let field = |text: &str| Pointer::parse(text).unwrap();
        let inner = entry.part(None, &field("/in")).unwrap();
        let y = entry.part(Some(&inner), &field("/y")).unwrap();
        assert_eq!((entry.text_of(Some(&inner)), entry.text_of(Some(&y))), (r#"{"y":0.10,"z":[]}"#, "0.10"));
        assert_eq!(entry.part(Some(&inner), &field("/x")), None);
        for alias in [None, Some(&DataName::parse("capability").unwrap())] {
            let (mut whole, mut part) = (Vec::new(), Vec::new());
            entry.push_json(&mut whole, alias, None);
            entry.push_json(&mut part, alias, Some(&y));
            let expected = String::from_utf8(whole).unwrap().replace(entry.text(), "0.10");
            assert_eq!(String::from_utf8(part).unwrap(), expected);
        }
    }
}
