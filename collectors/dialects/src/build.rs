//! Building the JSON text of a value, member by member.
//!
//! Numbers are pushed as text, so that no digit is lost. Invariants: the text stays within a bound however
//! often it is pushed to (past the largest value nothing more is taken, and [`Object::finish`] says so), and a text
//! of [`number_text`] is a number that every reader can take. The caller gives each key once.

use std::borrow::Cow;

use estimand_api::instant::{WRITABLE, to_rfc3339};
use estimand_api::json::push_string;
use estimand_api::value::MAX_VALUE_BYTES;

use super::RejectedRecords;

/// A JSON object whose members stay in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Object {
    /// The members, without the braces around them.
    members: Vec<u8>,
}

impl Object {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// True once it has grown past the largest value; then it takes no more members.
    pub(super) fn is_full(&self) -> bool {
        self.members.len() > MAX_VALUE_BYTES
    }

    /// Adds a member that is a string.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.member(key, |json| push_string(json, text));
    }

    /// Adds a member that is JSON already: a number from [`number_text`], `null`.
    pub(super) fn raw(&mut self, key: &str, json: &str) {
        self.member(key, |out| out.extend_from_slice(json.as_bytes()));
    }

    /// Adds a member that is what [`scalar`] takes the text for.
    pub(super) fn scalar(&mut self, key: &str, text: &str) {
        match scalar(text) {
            Some(json) => self.raw(key, json),
            None => self.text(key, text),
        }
    }

    /// Adds a member that is an object.
    pub(super) fn object(&mut self, key: &str, object: &Object) {
        self.member(key, |json| object.push(json));
    }

    fn member(&mut self, key: &str, push_value: impl FnOnce(&mut Vec<u8>)) {
        if self.is_full() {
            return;
        }
        if !self.members.is_empty() {
            self.members.push(b',');
        }
        push_string(&mut self.members, key);
        self.members.push(b':');
        push_value(&mut self.members);
    }

    /// Appends the object with its braces.
    fn push(&self, json: &mut Vec<u8>) {
        json.push(b'{');
        json.extend_from_slice(&self.members);
        json.push(b'}');
    }

    /// The object as a value, unless it is too large for one.
    pub(super) fn finish(self) -> Result<Box<str>, String> {
        let mut json = Vec::with_capacity(self.members.len() + 2);
        self.push(&mut json);
        match String::from_utf8(json) {
            Ok(json) if json.len() <= MAX_VALUE_BYTES => Ok(json.into()),
            _ => Err(format!(
                "the value has more than {MAX_VALUE_BYTES} bytes as JSON; expected at most so many: print less, \
                 or split it into several data names"
            )),
        }
    }
}

/// An array of objects, each at most the largest value; past the largest value it takes no more.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    json: Vec<u8>,
}

impl Rows {
    pub(super) fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// True once it has grown past the largest value; then it takes no more rows.
    pub(super) fn is_full(&self) -> bool {
        self.json.len() > MAX_VALUE_BYTES
    }

    pub(super) fn push(&mut self, row: &Object) {
        self.append(|json| row.push(json));
    }

    /// A row that is JSON already.
    pub(super) fn push_json(&mut self, row: &str) {
        self.append(|json| json.extend_from_slice(row.as_bytes()));
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_full() {
            return;
        }
        if !self.json.is_empty() {
            self.json.push(b',');
        }
        write(&mut self.json);
    }

    /// `{"rows":[…]}`, unless it is too large for a value.
    pub(super) fn finish(self) -> Result<Box<str>, String> {
        let mut object = Object::default();
        object.member("rows", |json| {
            json.push(b'[');
            json.extend_from_slice(&self.json);
            json.push(b']');
        });
        object.finish()
    }
}

/// A cell without a type of its own as JSON: a number, `true`, `false`, or `null` if it is empty.
/// None if it is a text. A number has to be spelled as in JSON: `007` and `+49` are names of something.
pub(super) fn scalar(text: &str) -> Option<&str> {
    match text {
        "" => Some("null"),
        "true" | "false" => Some(text),
        _ => matches!(number_text(text), Some(Cow::Borrowed(_))).then_some(text),
    }
}

/// From this length on a number without an exponent could be larger than any reader can take.
const LONG_NUMBER: usize = 300;

/// A finite decimal number in JSON's spelling, borrowed if that is how it is spelled. Its digits stay: what
/// goes is a leading `+`, zeros before the first digit, and a point without digits; `.5` gets a zero.
pub(super) fn number_text(text: &str) -> Option<Cow<'_, str>> {
    let (sign, bare) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) = bare.find(['e', 'E']).map_or((bare, ""), |at| bare.split_at(at));
    let (whole, point, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, ".", fraction),
        None => (mantissa, "", ""),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let power = exponent.get(1..).unwrap_or_default();
    let power = power.strip_prefix(['+', '-']).unwrap_or(power);
    let is_number = is_digits(whole)
        && is_digits(fraction)
        && is_digits(power)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_empty() == power.is_empty();
    if !is_number || !(is_small(text, exponent) || text.parse::<f64>().is_ok_and(f64::is_finite)) {
        return None;
    }
    let significant = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let point = if fraction.is_empty() { "" } else { point };
    if sign.len() + significant.len() + point.len() + fraction.len() + exponent.len() == text.len()
        && whole == significant
    {
        return Some(Cow::Borrowed(text));
    }
    Some(Cow::Owned(format!("{sign}{significant}{point}{fraction}{exponent}")))
}

fn is_small(text: &str, exponent: &str) -> bool {
    exponent.is_empty() && text.len() < LONG_NUMBER
}

/// An instant in microseconds since 1970 as RFC 3339. None if that cannot be written.
pub(super) fn instant(micros: i64) -> Option<String> {
    WRITABLE.contains(&micros).then(|| to_rfc3339(micros))
}

/// The failure of an output of which no record was any good. `records` are they in words.
pub(super) fn none_good(records: &str, rejected: &RejectedRecords) -> String {
    let first = rejected.reasons.first().map_or("", String::as_str);
    match rejected.count {
        0 | 1 => format!("the output has no good {records}: {first}"),
        count => format!("the output has no good {records} among {count}: {first}"),
    }
}

/// The most bytes of a run's output, in the formats whose output is made of records.
pub(super) const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// The most records of a run's output.
pub(super) const MAX_RECORDS: usize = 20_000;

/// The failure of an output with more than [`MAX_RECORDS`].
pub(super) fn too_many(records: &str) -> String {
    format!("the output has more than {MAX_RECORDS} {records}; expected at most so many: print fewer")
}

#[cfg(test)]
mod readme;
#[cfg(test)]
pub(super) mod testing;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_respelled_only_as_far_as_json_needs_it() {
        for (given, expected) in [
            ("+1", "1"),
            (".5", "0.5"),
            ("-.50", "-0.50"),
            ("1.", "1"),
            ("1.e5", "1e5"),
            ("007", "7"),
            ("-00.10", "-0.10"),
            ("000", "0"),
            ("+0.e+0", "0e+0"),
        ] {
            assert_eq!(number_text(given), Some(Cow::Owned(expected.to_owned())), "{given}");
        }
        for same in ["0", "-0", "1.50", "1E-7", "12345678901234567890123.10", "1e308", "1e-400"] {
            assert!(matches!(number_text(same), Some(Cow::Borrowed(text)) if text == same), "{same}");
        }
        let long = "9".repeat(400);
        for none in ["", "+", "-", ".", "e5", ".e5", "1e", "1e+", "1e999", "0x1f", "1_0", "+-1", "1 ", &long]
        {
            assert_eq!(number_text(none), None, "{none}");
        }
    }

    #[test]
    fn an_object_that_grows_too_large_stops_growing() {
        let mut object = Object::default();
        for key in 0..1_000 {
            object.text(&key.to_string(), &"x".repeat(1_000));
        }
        assert!(object.is_full() && object.members.len() < MAX_VALUE_BYTES + 2_000);
        assert!(object.finish().unwrap_err().contains("more than 65536 bytes"));
    }

    proptest! {
        #[test]
        fn a_number_is_json_with_the_same_value(text in "[-+]?[0-9]{0,5}[.]?[0-9]{0,5}([eE][-+]?[0-9]{0,3})?") {
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
            let given = number_text(&text);
            prop_assert_eq!(given.is_some(), value.is_some());
            if let Some(given) = given {
                let is_json = |text: &str| serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
                prop_assert!(is_json(&given));
                prop_assert_eq!(given.parse::<f64>().ok(), value);
                prop_assert_eq!(matches!(given, Cow::Borrowed(_)), is_json(&text));
            }
        }
    }
}
