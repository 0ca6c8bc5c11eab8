//! The JSON of a value, rendered when it is read.
//!
//! Everything but the value's own text follows from its facts and is short, so it is not kept: it would take twice the
//! memory of a small value, and rendering it takes less time than fetching it from a memory that large.

use estimand_api::instant::rfc3339;
use estimand_api::names::DataName;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::entry::Facts;

const NOTE: &[u8] = b",\"note\":";
const HEAD: &[u8] = b"{\"dataName\":\"";
const NODE: &[u8] = b"\",\"nodeName\":\"";
const VALUE: &[u8] = b"\",\"dataValue\":";
/// The instants are written into their places.
const INSTANTS: &[u8] = b",\"collectedAt\":\"....-..-..T..:..:.........Z\",\"receivedAt\":\"....-..-..T..:..:.........Z\",\"validFor\":";
const COLLECTED_AT: usize = 16;
const RECEIVED_AT: usize = 59;

/// Appends the object of a value, under a data name and with that text for the value. Names are of letters that need no
/// escape. An empty vector has exactly the room for it then.
pub fn push_object(out: &mut Vec<u8>, name: &DataName, facts: &Facts, text: &[u8]) {
    let tail = Tail::of(facts);
    let (name, node) = (name.as_str().as_bytes(), facts.node.as_str().as_bytes());
    let note = note_of(facts);
    let (noted, note) = note.map_or((&b""[..], &b""[..]), |note| (NOTE, note.get().as_bytes()));
    let pieces = [HEAD, name, NODE, node, VALUE, text, tail.as_bytes(), noted, note, b"}"];
    out.reserve(pieces.iter().map(|piece| piece.len()).sum());
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// The text `note` of the provenance. Hardly any provenance has one, and it is not parsed unless it may.
fn note_of(facts: &Facts) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Noted<'p> {
        #[serde(borrow)]
        note: Option<&'p RawValue>,
    }
    let provenance = facts.provenance().filter(|text| text.contains("\"note\""))?;
    let Noted { note } = serde_json::from_str(provenance).ok()?;
    note.filter(|note| note.get().starts_with('"'))
}

/// The end of an object, behind the value.
struct Tail {
    bytes: [u8; 192],
    length: usize,
}

impl Tail {
    fn of(facts: &Facts) -> Self {
        let mut tail = Tail { bytes: [0; 192], length: INSTANTS.len() };
        tail.bytes[..INSTANTS.len()].copy_from_slice(INSTANTS);
        tail.bytes[COLLECTED_AT..COLLECTED_AT + 27].copy_from_slice(&rfc3339(facts.collected_at));
        tail.bytes[RECEIVED_AT..RECEIVED_AT + 27].copy_from_slice(&rfc3339(facts.received_at));
        match facts.valid_for.micros() {
            Some(micros) => tail.push_seconds(micros.unsigned_abs()),
            None => tail.push(b"null"),
        }
        tail.push(b",\"state\":\"");
        tail.push(facts.marks.state().as_str().as_bytes());
        tail.push(b"\",\"revision\":");
        tail.push_number(facts.revision);
        tail
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// The shortest number of seconds that says the same.
    fn push_seconds(&mut self, micros: u64) {
        self.push_number(micros / 1_000_000);
        let mut rest = micros % 1_000_000;
        if rest > 0 {
            self.push(b".");
        }
        let mut unit = 100_000;
        while rest > 0 {
            self.push(&[b'0' + (rest / unit) as u8]);
            rest %= unit;
            unit /= 10;
        }
    }

    fn push_number(&mut self, number: u64) {
        let (digits, begin) = decimal(number);
        self.push(&digits[begin..]);
    }
}

/// The digits of a number, and where they begin.
fn decimal(mut number: u64) -> ([u8; 20], usize) {
    let mut digits = [0; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return (digits, begin);
        }
    }
}

/// Appends a number in decimal.
pub fn push_number(out: &mut Vec<u8>, number: u64) {
    let (digits, begin) = decimal(number);
    out.extend_from_slice(&digits[begin..]);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::instant::to_rfc3339;
    use estimand_api::names::NodeName;
    use estimand_api::write::seconds;

    use super::*;
    use crate::core::entry::Marks;
    use crate::core::origin::Origin;

    #[test]
    fn whatever_the_facts_are_they_are_rendered_in_exactly_the_room_that_they_need() {
        let numbers = [0, 1, 9, 10, 1_000_000, 1_500_000, 1_700_000_123_456, i64::MAX];
        let lost = Marks { lost: true, ..Marks::default() };
        for number in numbers {
            for valid_for in [None, Some(number)] {
                let facts = Facts {
                    name: DataName::parse("x").unwrap(),
                    node: NodeName::parse("n.1").unwrap(),
                    collected_at: number,
                    received_at: -number,
                    valid_for: valid_for.into(),
                    marks: lost,
                    revision: number.unsigned_abs(),
                    origin: None,
                };
                let mut out = Vec::new();
                push_object(&mut out, &DataName::parse("other").unwrap(), &facts, b"[1]");
                assert_eq!(out.len(), out.capacity());
                let [collected, received] = [number, -number].map(to_rfc3339);
                let valid_for = valid_for.map_or("null".to_owned(), seconds);
                let expected = format!(
                    r#"{{"dataName":"other","nodeName":"n.1","dataValue":[1],"collectedAt":"{collected}","receivedAt":"{received}","validFor":{valid_for},"state":"node-lost","revision":{number}}}"#
                );
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }

    #[test]
    fn of_a_provenance_its_note_is_rendered() {
        let rendered = |provenance: &str| {
            let facts = Facts {
                name: DataName::parse("x").unwrap(),
                node: NodeName::parse("n").unwrap(),
                collected_at: 0,
                received_at: 0,
                valid_for: None.into(),
                marks: Marks::default(),
                revision: 7,
                origin: Origin::new(None, Some(provenance)),
            };
            let mut out = Vec::new();
            push_object(&mut out, &facts.name, &facts, b"1");
            assert_eq!(out.len(), out.capacity());
            String::from_utf8(out).unwrap()
        };
        let noted = rendered(r#"{"run":1,"note":"it was \"denied\""}"#);
        assert!(noted.ends_with(r#","revision":7,"note":"it was \"denied\""}"#), "{noted}");
        for other in [r#"{"run":1}"#, r#"{"note":5}"#, r#"{"of":{"note":"x"}}"#, r#"{"is":"\"note\""}"#] {
            assert!(rendered(other).ends_with(r#","revision":7}"#), "{other}");
        }
    }
}
