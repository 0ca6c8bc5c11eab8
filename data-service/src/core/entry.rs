//! One value in memory: its facts, and its JSON as readers get it.
//!
//! The JSON is rendered when the value is written and when its state changes, never when it is read. It
//! begins with the data name, so that a binding serves the same bytes under its own name by replacing the
//! head. An entry never changes; a change makes a new one.

use std::ops::Range;
use std::sync::atomic::AtomicI64;

use bytes::Bytes;
use estimand_api::instant::push_rfc3339;
use estimand_api::json::push_string;
use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;
use estimand_api::value::State;
use estimand_api::write::{Order, seconds};

/// A value of a data name on a node.
#[derive(Debug)]
pub struct Entry {
    pub facts: Facts,
    /// The whole object.
    json: Bytes,
    /// Where the value itself stands in it.
    value: Part,
    /// When the writer is going to look whether it has turned stale; 0 if it never is. Only the writer's.
    pub alarm: AtomicI64,
}

/// Where a value or a part of one stands in its rendered JSON.
pub type Part = Range<u32>;

/// The facts of a value beside its text.
#[derive(Debug, Clone)]
pub struct Facts {
    pub name: DataName,
    pub node: NodeName,
    pub collected_at: i64,
    pub received_at: i64,
    pub valid_for: Option<i64>,
    pub marks: Marks,
    pub revision: u64,
    /// The highest place that a write of a slot has had here; plain writes leave it as it is.
    pub order: Option<Order>,
    pub provenance: Option<Box<str>>,
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
        self.valid_for.map(|valid| self.known_since().saturating_add(valid))
    }
}

impl Entry {
    /// Renders a value.
    pub fn new(facts: Facts, text: &str) -> Self {
        let mut out = Vec::with_capacity(256 + text.len());
        out.extend_from_slice(HEAD);
        push_string(&mut out, facts.name.as_str());
        out.extend_from_slice(b",\"nodeName\":");
        push_string(&mut out, facts.node.as_str());
        out.extend_from_slice(b",\"dataValue\":");
        let start = out.len();
        out.extend_from_slice(text.as_bytes());
        let value = start as u32..out.len() as u32;
        out.extend_from_slice(b",\"collectedAt\":\"");
        push_rfc3339(&mut out, facts.collected_at);
        out.extend_from_slice(b"\",\"receivedAt\":\"");
        push_rfc3339(&mut out, facts.received_at);
        out.extend_from_slice(b"\",\"validFor\":");
        match facts.valid_for {
            Some(micros) => out.extend_from_slice(seconds(micros).as_bytes()),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"state\":\"");
        out.extend_from_slice(facts.marks.state().as_str().as_bytes());
        out.extend_from_slice(b"\",\"revision\":");
        push_number(&mut out, facts.revision);
        out.push(b'}');
        Entry { facts, json: Bytes::from(out.into_boxed_slice()), value, alarm: AtomicI64::new(0) }
    }

    /// The same value with other marks, as a change of its own.
    pub fn marked(&self, marks: Marks, revision: u64) -> Self {
        let facts = Facts { marks, revision, ..self.facts.clone() };
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
        std::str::from_utf8(self.bytes_of(part.unwrap_or(&self.value))).unwrap_or("null")
    }

    fn bytes_of(&self, part: &Part) -> &[u8] {
        &self.json[part.start as usize..part.end as usize]
    }

    /// Where a field of the value stands, or of a part of it.
    pub fn part(&self, within: Option<&Part>, field: &Pointer) -> Option<Part> {
        let text = self.text_of(within);
        let found = field.find(text)?;
        // The found text is a piece of the text that was searched.
        let start =
            within.unwrap_or(&self.value).start + (found.as_ptr().addr() - text.as_ptr().addr()) as u32;
        Some(start..start + found.len() as u32)
    }

    /// The whole object. Sharing it would touch its count, which lies elsewhere in memory and is hardly ever in
    /// the processor's cache; a small object is copied sooner.
    pub fn json(&self) -> Bytes {
        match self.json.len() {
            0..=1024 => Bytes::copy_from_slice(&self.json),
            _ => self.json.clone(),
        }
    }

    /// Appends the whole object, under another data name if one is given, with only a part of the value if one
    /// is given.
    pub fn push_json(&self, out: &mut Vec<u8>, alias: Option<&DataName>, part: Option<&Part>) {
        let mut rest = 0;
        if let Some(alias) = alias {
            out.extend_from_slice(HEAD);
            push_string(out, alias.as_str());
            rest = HEAD.len() + self.facts.name.as_str().len() + 2;
        }
        if let Some(part) = part {
            out.extend_from_slice(&self.json[rest..self.value.start as usize]);
            out.extend_from_slice(self.bytes_of(part));
            rest = self.value.end as usize;
        }
        out.extend_from_slice(&self.json[rest..]);
    }

    /// Roughly how much memory it takes.
    pub fn size(&self) -> usize {
        self.json.len() + self.facts.provenance.as_ref().map_or(0, |text| text.len()) + 256
    }
}

const HEAD: &[u8] = b"{\"dataName\":";
/// The alarm is the writer's own note; nothing else depends on when it is seen.
pub const RELAXED: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;

/// Appends a number in decimal.
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

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
            valid_for: Some(1_500_000),
            marks: Marks::default(),
            revision: 42,
            order: None,
            provenance: None,
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
