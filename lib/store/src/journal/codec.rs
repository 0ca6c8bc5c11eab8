//! The content of a row of the journal: changes of values, one record after the other, as bytes.
//!
//! The first byte is the version of the form. A record begins with its kind and its key, so that changes can be sorted and
//! counted without the rest. Numbers are little-endian; a text has its length before it. Whatever the bytes are, reading
//! them ends well or says why it cannot.

use crate::{DataRowRef, Key};

/// The version of the form.
const FORM: u8 = 1;
const DELETE: u8 = 0;
const PUT: u8 = 1;

/// A content without changes.
pub(crate) const EMPTY: &[u8] = &[FORM];

const FAILED: u8 = 1;
const LOST: u8 = 1 << 1;
const HAS_SPAN: u8 = 1 << 2;
const HAS_PROVENANCE: u8 = 1 << 3;

/// A change of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    Put(DataRowRef<'a>),
    Delete(Key<'a>),
}

impl<'a> Change<'a> {
    pub fn key(&self) -> Key<'a> {
        match self {
            Change::Put(row) => Key { data_name: row.data_name, node_name: row.node_name },
            Change::Delete(key) => *key,
        }
    }
}

/// A change as it stands in a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) key: Key<'a>,
    is_put: bool,
    /// The rest, which follows the key.
    rest: &'a [u8],
}

/// The bytes are no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Damage(pub(crate) &'static str);

const CUT: Damage = Damage("its content is cut off");

/// Makes it a content without changes.
pub(crate) fn begin(content: &mut Vec<u8>) {
    content.clear();
    content.extend(EMPTY);
}

/// Appends a change.
pub(crate) fn push(content: &mut Vec<u8>, change: &Change<'_>) {
    let Key { data_name, node_name } = change.key();
    content.push(if matches!(change, Change::Put(_)) { PUT } else { DELETE });
    push_text(content, data_name);
    push_text(content, node_name);
    let length_at = content.len();
    content.extend([0; 4]);
    if let Change::Put(row) = change {
        push_row(content, row);
    }
    let length = (content.len() - length_at - 4) as u32;
    content[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
}

fn push_row(content: &mut Vec<u8>, row: &DataRowRef<'_>) {
    let flags = [
        (row.failed, FAILED),
        (row.lost, LOST),
        (row.valid_for.is_some(), HAS_SPAN),
        (row.provenance.is_some(), HAS_PROVENANCE),
    ];
    content.push(flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag));
    for number in [row.collected_at, row.received_at, row.revision, row.epoch, row.sequence] {
        content.extend(number.to_le_bytes());
    }
    content.extend(row.valid_for.into_iter().flat_map(i64::to_le_bytes));
    push_text(content, row.data_value);
    row.provenance.into_iter().for_each(|text| push_text(content, text));
}

fn push_text(content: &mut Vec<u8>, text: &str) {
    content.extend((text.len() as u32).to_le_bytes());
    content.extend(text.as_bytes());
}

/// The changes of a content, in order.
pub(crate) fn records(content: &[u8]) -> impl Iterator<Item = Result<Record<'_>, Damage>> {
    let mut rest = Reader(content);
    let mut form = Some(rest.byte());
    std::iter::from_fn(move || {
        match form.take() {
            Some(Ok(FORM)) | None => {}
            Some(Ok(_)) => {
                rest = Reader(&[]);
                return Some(Err(Damage("its content has a form that this version does not know")));
            }
            Some(Err(damage)) => return Some(Err(damage)),
        }
        if rest.0.is_empty() {
            return None;
        }
        let record = rest.record();
        if record.is_err() {
            rest = Reader(&[]);
        }
        Some(record)
    })
}

impl<'a> Record<'a> {
    /// The whole change.
    pub(crate) fn change(&self) -> Result<Change<'a>, Damage> {
        if !self.is_put {
            return Ok(Change::Delete(self.key));
        }
        let mut rest = Reader(self.rest);
        let flags = rest.byte()?;
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = rest.number()?;
        }
        let [collected_at, received_at, revision, epoch, sequence] = numbers;
        let has = |flag| flags & flag != 0;
        let valid_for = if has(HAS_SPAN) { Some(rest.number()?) } else { None };
        let data_value = rest.text()?;
        let provenance = if has(HAS_PROVENANCE) { Some(rest.text()?) } else { None };
        if !rest.0.is_empty() {
            return Err(Damage("its content has more than belongs to a value"));
        }
        let Key { data_name, node_name } = self.key;
        Ok(Change::Put(DataRowRef {
            data_name,
            node_name,
            data_value,
            collected_at,
            received_at,
            valid_for,
            failed: has(FAILED),
            lost: has(LOST),
            revision,
            epoch,
            sequence,
            provenance,
        }))
    }

    /// How long it is but for its key.
    pub(crate) fn bytes(&self) -> usize {
        self.rest.len()
    }
}

/// The bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn record(&mut self) -> Result<Record<'a>, Damage> {
        let is_put = match self.byte()? {
            PUT => true,
            DELETE => false,
            _ => return Err(Damage("its content has a change of an unknown kind")),
        };
        let key = Key { data_name: self.text()?, node_name: self.text()? };
        let length = self.length()?;
        Ok(Record { key, is_put, rest: self.take(length)? })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Damage> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<i64, Damage> {
        self.array().map(i64::from_le_bytes)
    }

    fn length(&mut self) -> Result<usize, Damage> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn text(&mut self) -> Result<&'a str, Damage> {
        let length = self.length()?;
        str::from_utf8(self.take(length)?).map_err(|_| Damage("its content has a text that is not UTF-8"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "codec_tests.rs"]
mod tests;
