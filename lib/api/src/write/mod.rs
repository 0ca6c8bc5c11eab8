//! A write of a value as it is sent, and its parsing, which is on the path of every write.
//!
//! Valid writes are parsed in one pass that borrows from the body. Only when that fails is the body read
//! again, field by field, to say everything that is wrong with it. A value's text is kept to the letter
//! (see [`crate::json`]); nothing of it is interpreted.

mod described;
mod explain;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::duration::Span;
use crate::instant;
use crate::json;
use crate::names::{DataName, NodeName};
use crate::problem::Problem;
use crate::value::MAX_VALUE_BYTES;

/// The most writes in one batch.
pub const MAX_BATCH_ITEMS: usize = 10_000;
/// The largest body of a batch.
pub const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
/// The largest body of a single write: a value, its provenance and room for the rest.
pub const MAX_WRITE_BYTES: usize = 2 * MAX_VALUE_BYTES;
/// The largest provenance.
pub const MAX_PROVENANCE_BYTES: usize = 16 * 1024;

/// A value for a data name on a node, or the report that there is no new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub data_name: DataName,
    pub node_name: NodeName,
    pub content: Content,
    /// When it was measured, in microseconds since 1970; absent: when it arrives.
    pub collected_at: Option<i64>,
    /// Its place among the writes of the same slot; absent for plain writes, which take the order of arrival.
    pub order: Option<Order>,
}

/// The content of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A new value.
    Value {
        /// Compact JSON.
        text: Box<str>,
        /// For how many microseconds it holds; absent: for ever.
        valid_for: Option<i64>,
        /// Compact JSON of an object that says what produced it.
        provenance: Option<Box<str>>,
    },
    /// The run that should have renewed the value failed.
    Failed,
}

/// The place of a write among those of its slot: first the slot's epoch, then the number of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    pub epoch: u64,
    pub sequence: u64,
}

impl Write {
    /// A plain write of a value.
    pub fn plain(data_name: DataName, node_name: NodeName, value: &Value) -> Self {
        let content = Content::Value { text: value.to_string().into(), valid_for: None, provenance: None };
        Write { data_name, node_name, content, collected_at: None, order: None }
    }

    /// Reads the body of a single write.
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        let fast = std::str::from_utf8(body).ok().and_then(|text| serde_json::from_str::<Raw<'_>>(text).ok());
        if let Some(write) = fast.and_then(Raw::accept) {
            return Ok(write);
        }
        Err(explain::explain(body))
    }

    /// Reads the body of a batch: an array of writes. The answer to a wrong one names the item.
    pub fn parse_batch(body: &[u8]) -> Result<Vec<Self>, Problem> {
        let fast =
            std::str::from_utf8(body).ok().and_then(|text| serde_json::from_str::<Vec<Raw<'_>>>(text).ok());
        if let Some(raws) = fast {
            check_batch_size(raws.len())?;
            let writes: Option<Vec<Write>> = raws.into_iter().map(Raw::accept).collect();
            if let Some(writes) = writes {
                return Ok(writes);
            }
        }
        Err(explain::explain_batch(body))
    }

    /// Appends the write as JSON.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"dataName\":");
        json::push_string(out, self.data_name.as_str());
        out.extend_from_slice(b",\"nodeName\":");
        json::push_string(out, self.node_name.as_str());
        match &self.content {
            Content::Value { text, valid_for, provenance } => {
                out.extend_from_slice(b",\"dataValue\":");
                out.extend_from_slice(text.as_bytes());
                if let Some(micros) = valid_for {
                    out.extend_from_slice(format!(",\"validFor\":{}", seconds(*micros)).as_bytes());
                }
                if let Some(provenance) = provenance {
                    out.extend_from_slice(b",\"provenance\":");
                    out.extend_from_slice(provenance.as_bytes());
                }
            }
            Content::Failed => out.extend_from_slice(b",\"state\":\"failed\""),
        }
        if let Some(micros) = self.collected_at {
            out.extend_from_slice(b",\"collectedAt\":\"");
            instant::push_rfc3339(out, micros);
            out.push(b'"');
        }
        if let Some(Order { epoch, sequence }) = self.order {
            out.extend_from_slice(format!(",\"epoch\":{epoch},\"sequence\":{sequence}").as_bytes());
        }
        out.push(b'}');
    }
}

/// Microseconds as the shortest number of seconds that says the same.
pub fn seconds(micros: i64) -> String {
    if micros % 1_000_000 == 0 {
        return (micros / 1_000_000).to_string();
    }
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').to_owned()
}

/// A write as it stands in a body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    data_name: Cow<'a, str>,
    #[serde(borrow)]
    node_name: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    data_value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    collected_at: Option<Text<'a>>,
    #[serde(default)]
    valid_for: Option<Span>,
    #[serde(default, deserialize_with = "json::whole_or_null")]
    epoch: Option<u64>,
    #[serde(default, deserialize_with = "json::whole_or_null")]
    sequence: Option<u64>,
    #[serde(borrow, default)]
    state: Option<Text<'a>>,
    #[serde(borrow, default)]
    provenance: Option<&'a RawValue>,
}

/// An optional text that is borrowed where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Keeps `null` apart from absence.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Raw<'_> {
    /// The write, if all is right with it.
    fn accept(self) -> Option<Write> {
        let content = match (self.data_value, self.state.as_ref().map(|state| &*state.0)) {
            (Some(value), None | Some("fresh")) => Content::Value {
                text: bounded(value, MAX_VALUE_BYTES)?,
                valid_for: match self.valid_for {
                    Some(span) => Some(positive(span)?),
                    None => None,
                },
                provenance: match self.provenance {
                    Some(raw) if raw.get().starts_with('{') => Some(bounded(raw, MAX_PROVENANCE_BYTES)?),
                    Some(_) => return None,
                    None => None,
                },
            },
            (None, Some("failed")) if self.valid_for.is_none() && self.provenance.is_none() => {
                Content::Failed
            }
            _ => return None,
        };
        let collected_at = match &self.collected_at {
            None => None,
            Some(text) => Some(instant::parse_rfc3339(&text.0)?),
        };
        let order = match (self.epoch, self.sequence) {
            (None, None) => None,
            (Some(epoch), Some(sequence)) if epoch <= MAX_ORDER && sequence <= MAX_ORDER => {
                Some(Order { epoch, sequence })
            }
            _ => return None,
        };
        let data_name = DataName::parse(&self.data_name).ok()?;
        let node_name = NodeName::parse(&self.node_name).ok()?;
        Some(Write { data_name, node_name, content, collected_at, order })
    }
}

/// Epochs and sequences are kept as signed 64-bit integers.
const MAX_ORDER: u64 = i64::MAX as u64;

/// The compact text of at most so many bytes. White space is not counted, but not more than as much again is looked
/// through: lengths come first.
fn bounded(raw: &RawValue, most: usize) -> Option<Box<str>> {
    if raw.get().len() > 2 * most {
        return None;
    }
    let text = json::compact(raw.get()).ok()?;
    (text.len() <= most).then(|| text.into())
}

fn positive(span: Span) -> Option<i64> {
    i64::try_from(span.as_micros()).ok().filter(|micros| *micros > 0)
}

fn check_batch_size(items: usize) -> Result<(), Problem> {
    match items {
        0..=MAX_BATCH_ITEMS => Ok(()),
        _ => Err(Problem::too_large(format!(
            "the batch has {items} items; at most {MAX_BATCH_ITEMS} are taken at once"
        ))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn detail(body: &str) -> String {
        let problem = Write::parse(body.as_bytes()).unwrap_err();
        format!("{} {}", problem.status, problem.detail)
    }

    #[test]
    fn the_papers_body_is_a_plain_write() {
        let write = Write::parse(br#"{"dataName":"cpu","nodeName":"n1","dataValue":"data"}"#).unwrap();
        assert_eq!(write.order, None);
        assert_eq!(
            write.content,
            Content::Value { text: "\"data\"".into(), valid_for: None, provenance: None }
        );
    }

    #[test]
    fn a_rendered_write_is_read_back() {
        let write = Write {
            data_name: DataName::parse("a").unwrap(),
            node_name: NodeName::parse("n").unwrap(),
            content: Content::Value {
                text: r#"{"x":[1,null]}"#.into(),
                valid_for: Some(1_500_000),
                provenance: Some(r#"{"version":3}"#.into()),
            },
            collected_at: Some(1_700_000_000_000_001),
            order: Some(Order { epoch: 7, sequence: 9 }),
        };
        let failed = Write { content: Content::Failed, ..write.clone() };
        let mut body = b"[".to_vec();
        write.push_json(&mut body);
        body.push(b',');
        failed.push_json(&mut body);
        body.push(b']');
        assert_eq!(Write::parse_batch(&body).unwrap(), [write, failed]);
    }

    #[test]
    fn null_is_a_value_and_absence_is_not() {
        assert!(Write::parse(br#"{"dataName":"a","nodeName":"n","dataValue":null}"#).is_ok());
        assert_eq!(
            detail(r#"{"dataName":"a","nodeName":"n"}"#),
            "400 dataValue: is missing; expected any JSON"
        );
    }

    #[test]
    fn wrong_writes_are_rejected_with_every_error() {
        let check = |body: &str, expected: &str| {
            let detail = detail(body);
            assert!(detail.contains(expected), "{body}: {detail}");
        };
        let escapes = "\\u0061".repeat(11_000);
        check(
            &format!(r#"{{"dataName":"a","nodeName":"n","dataValue":"{escapes}"}}"#),
            "413 dataValue has 66002 bytes",
        );
        check(r#"{"dataName":"a b","nodeName":"n","dataValue":1}"#, "dataName");
        check(r#"{"dataName":"a","nodeName":"","dataValue":1}"#, "nodeName");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"x":1}"#, "x: is not a known field");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"dataName":"b"}"#, "`dataName` twice");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":{"k":1,"k":2}}"#, "`k` twice");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"epoch":1}"#, "go together");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"epoch":-1,"sequence":1}"#, "epoch");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"validFor":0}"#, "validFor");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"collectedAt":"now"}"#, "collectedAt");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"collectedAt":""}"#, "collectedAt");
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"state":""}"#, "state");
        check(
            r#"{"dataName":"a","nodeName":"n","dataValue":1,"state":"failed"}"#,
            "keeps the last good value",
        );
        check(r#"{"dataName":"a","nodeName":"n","dataValue":1,"provenance":[]}"#, "provenance");
        check(r#"{"dataName":7,"nodeName":"n","dataValue":1}"#, "dataName: is a number");
        check("[]", "is an array");
        let large = "x".repeat(MAX_VALUE_BYTES);
        check(&format!(r#"{{"dataName":"a","nodeName":"n","dataValue":"{large}"}}"#), "413");
    }

    #[test]
    fn a_batch_names_its_bad_item() {
        let problem =
            Write::parse_batch(br#"[{"dataName":"a","nodeName":"n","dataValue":1},{"dataName":"a"}]"#);
        let fields: Vec<String> = problem.unwrap_err().errors.into_iter().map(|e| e.field).collect();
        assert_eq!(fields, ["[1].nodeName", "[1].dataValue"]);
        let many = format!("[{}1]", "1,".repeat(MAX_BATCH_ITEMS));
        assert_eq!(Write::parse_batch(many.as_bytes()).unwrap_err().status, 413);
    }
}
