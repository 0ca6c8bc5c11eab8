//! How a write lies in the spool: a line of its checksum and its JSON.
//!
//! `1c291ca3 {"dataName":…}` and a newline. A line that was cut off, by a kill or a power cut in the middle of
//! writing, or that the disk has spoilt does not match its checksum and is left out; the lines around it are
//! not harmed. Pure: no file is touched here.

use std::fmt::Write as _;

use estimand_api::names::{DataName, NodeName};
use estimand_api::write::Write;
use serde_json::Value;

use super::parcel::Refusal;

/// The checksum in hexadecimal digits and a space.
const HEAD_BYTES: usize = 9;

/// The content of the lines of a segment.
#[derive(Debug, Default)]
pub struct SegmentContent {
    pub writes: Vec<Write>,
    /// Lines that are as they were written, but that no data service would take.
    pub refused: Vec<Refusal>,
    /// How many lines are cut off or spoilt.
    pub damaged: usize,
}

/// Appends a write as a line.
pub fn push(write: &Write, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[b' '; HEAD_BYTES]);
    write.push_json(out);
    // In JSON a newline can only stand between two tokens, where a space says the same.
    for byte in &mut out[start + HEAD_BYTES..] {
        if *byte == b'\n' {
            *byte = b' ';
        }
    }
    let mut head = String::with_capacity(HEAD_BYTES);
    // Writing to a string cannot fail.
    let _ = write!(head, "{:08x} ", crc32fast::hash(&out[start + HEAD_BYTES..]));
    out[start..start + HEAD_BYTES].copy_from_slice(head.as_bytes());
    out.push(b'\n');
}

/// Reads all lines of a segment.
pub fn read(bytes: &[u8]) -> SegmentContent {
    let mut found = SegmentContent::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match intact(line) {
            None => found.damaged += 1,
            Some(json) => match Write::parse(json) {
                Ok(write) => found.writes.push(write),
                Err(problem) => match name(json) {
                    Some((data_name, node_name)) => {
                        found.refused.push(Refusal { data_name, node_name, reason: problem.detail });
                    }
                    None => found.damaged += 1,
                },
            },
        }
    }
    found
}

/// How many intact lines there are, and the first write of them.
pub fn survey(bytes: &[u8]) -> (usize, Option<Write>) {
    let mut lines = bytes.split(|byte| *byte == b'\n').filter_map(intact);
    let Some(first) = lines.next() else { return (0, None) };
    (1 + lines.count(), Write::parse(first).ok())
}

/// The JSON of a line, if it is what was written.
fn intact(line: &[u8]) -> Option<&[u8]> {
    let (head, json) = line.split_at_checked(HEAD_BYTES)?;
    let digits = std::str::from_utf8(head.strip_suffix(b" ")?).ok()?;
    let sum = u32::from_str_radix(digits, 16).ok()?;
    (crc32fast::hash(json) == sum).then_some(json)
}

/// The names in a write that is not a right one otherwise.
fn name(json: &[u8]) -> Option<(DataName, NodeName)> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let data_name = DataName::parse(value.get("dataName")?.as_str()?).ok()?;
    Some((data_name, NodeName::parse(value.get("nodeName")?.as_str()?).ok()?))
}
