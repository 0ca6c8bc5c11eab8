//! `t_journal`: changes of `t_data` that are durable already, and not in it yet.
//!
//! A commit of data adds one row to the journal, whatever the number of values: rows of `t_data` are spread over the
//! whole table, and each would change a page of its own. A *fold* brings the oldest changes into `t_data`, the last one
//! of each value, in the order of keys, and then cuts the journal. The values are those of `t_data` and, over them, the
//! changes of the journal in order; so a fold that is cut short changes nothing about them.
//!
//! Only the fold writes `t_data`. Each of its transactions ends with the check of the claim: on a server, commits do not
//! wait for it, and a fold that began under an older claim fails.

mod codec;
mod latest;

use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use crate::backend::{Backend, on};
use crate::schema::t_journal;
use crate::statement::{Rows, Value, write_all};
use crate::{Claim, Connection, Error, data, owner};
use codec::{Damage, Record};
use latest::{PieceSize, latest, next_piece};

pub use codec::Change;

/// A content is as long as that or a little longer; a group that has more makes several rows.
const CONTENT_BYTES: usize = 1 << 20;
/// The most rows that are read at once, and their bytes.
const PAGE_ROWS: i64 = 16_384;
const PAGE_BYTES: i64 = 16 << 20;
/// The values that a fold stores in one transaction: they are few enough for others not to wait long for SQLite's lock,
/// and the log of it stays within the room that is kept on a full disk.
const PIECE: PieceSize = PieceSize { changes: 2_048, bytes: 4 << 20 };
/// The length of a content. A sum with a large number is one on every database, whatever a length is.
const LENGTH: &str = "length(content) + 0 * sequence";
/// Rows that one statement deletes.
const DELETES: usize = 500;
const READING: &str = "reading the journal";
const FOLDING: &str = "bringing values from the journal into t_data";

/// Changes that are in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Journaled {
    pub changes: usize,
    pub bytes: usize,
    /// The highest revision of their commits.
    pub revision: i64,
}

#[derive(Debug, Queryable)]
struct JournalRow {
    sequence: i64,
    revision: i64,
    checksum: i64,
    content: Vec<u8>,
}

/// The oldest rows of the journal.
#[derive(Debug)]
pub struct JournalPage {
    rows: Vec<JournalRow>,
    /// There are more.
    is_cut: bool,
}

/// The changes of a page, as a fold stores them.
#[derive(Debug)]
pub struct Fold<'p> {
    records: Vec<Record<'p>>,
    /// How many of them are stored.
    done: usize,
    page: &'p JournalPage,
}

static JOURNAL: Rows =
    Rows { table: "t_journal", columns: &["revision", "checksum", "content"], replaced_by: 0 };

impl Connection {
    /// The oldest changes; none are left if it is empty.
    pub fn read_journal(&mut self) -> Result<JournalPage, Error> {
        self.read(READING, |backend| page_after(backend, i64::MIN))
    }

    /// Stores the next piece of a fold, in one transaction; with the last one the journal is cut. Returns how many
    /// values it stored or deleted.
    pub fn fold_piece(&mut self, claim: &Claim, fold: &mut Fold<'_>) -> Result<usize, Error> {
        let mut rest = &fold.records[fold.done..];
        let piece = next_piece(&mut rest, PIECE).map_err(|damage| fold.page.damaged(&damage))?;
        let is_last = rest.is_empty();
        self.write(FOLDING, |backend| {
            // Deletions come first: they make room for the rest.
            if is_last {
                cut(backend, &fold.page.rows)?;
            }
            data::store(backend, &piece)?;
            owner::fence(backend, claim)
        })?;
        fold.done += piece.len();
        Ok(piece.len())
    }

    /// Hands over all changes of the journal, in order.
    pub(crate) fn replay(&mut self, each: &mut dyn FnMut(Change<'_>)) -> Result<Journaled, Error> {
        let (mut journaled, mut last) = (Journaled::default(), i64::MIN);
        loop {
            let page = self.read(READING, |backend| page_after(backend, last))?;
            let Some(newest) = page.rows.last() else { return Ok(journaled) };
            last = newest.sequence;
            for row in &page.rows {
                let mut hand_over = |record: Record<'_>| {
                    each(record.change()?);
                    Ok(())
                };
                for record in row.records() {
                    let handed = record.and_then(&mut hand_over);
                    handed.map_err(|damage| row.damaged(&damage))?;
                    journaled.changes += 1;
                }
                journaled.bytes += row.content.len();
                journaled.revision = journaled.revision.max(row.revision);
            }
        }
    }
}

impl JournalPage {
    /// All changes of commits up to this revision are in the page; none: all changes are.
    pub fn complete_up_to(&self) -> Option<i64> {
        // A commit may have several rows, of which some are behind the page.
        self.rows.last().filter(|_| self.is_cut).map(|row| row.revision - 1)
    }

    pub fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.content.len()).sum()
    }

    /// The last change of each value.
    pub fn fold(&self) -> Result<Fold<'_>, Error> {
        let mut records = Vec::new();
        for row in &self.rows {
            for record in row.records() {
                let whole = record.and_then(|record| record.change().map(|_| record));
                records.push(whole.map_err(|damage| row.damaged(&damage))?);
            }
        }
        Ok(Fold { records: latest(records), done: 0, page: self })
    }

    fn damaged(&self, damage: &Damage) -> Error {
        let sequence = self.rows.first().map_or(0, |row| row.sequence);
        Error::Damaged { sequence, cause: damage.to_string() }
    }
}

impl Fold<'_> {
    /// Everything is stored, and the journal is cut.
    pub fn is_done(&self) -> bool {
        self.done == self.records.len()
    }
}

impl JournalRow {
    fn records(&self) -> impl Iterator<Item = Result<Record<'_>, Damage>> {
        let is_whole = self.checksum == checksum(self.revision, &self.content);
        let damage = (!is_whole).then_some(Err(Damage("its checksum is another one")));
        let content = if is_whole { codec::records(&self.content) } else { codec::records(codec::EMPTY) };
        damage.into_iter().chain(content)
    }

    fn damaged(&self, damage: &Damage) -> Error {
        Error::Damaged { sequence: self.sequence, cause: damage.to_string() }
    }
}

/// Appends the changes of a commit of that revision: one row, or several if they are very large.
pub(crate) fn append<'c>(
    backend: &mut Backend,
    revision: i64,
    changes: impl Iterator<Item = Change<'c>>,
) -> QueryResult<Journaled> {
    let mut journaled = Journaled { changes: 0, bytes: 0, revision };
    let (mut content, mut changes) = (Vec::new(), changes.peekable());
    while changes.peek().is_some() {
        codec::begin(&mut content);
        while content.len() < CONTENT_BYTES
            && let Some(change) = changes.next()
        {
            codec::push(&mut content, &change);
            journaled.changes += 1;
        }
        journaled.bytes += content.len();
        let row = [(checksum(revision, &content), &content)];
        write_all(backend, &JOURNAL, &row, |(checksum, content), values| {
            values.extend([Value::Int(revision), Value::Int(*checksum), Value::Bytes(content)]);
        })?;
    }
    Ok(journaled)
}

/// Deletes the rows of an attempt of unknown outcome, which used revisions from that one on.
pub(crate) fn erase_from(backend: &mut Backend, revision: i64) -> QueryResult<()> {
    on!(backend, connection => diesel::delete(t_journal::table)
        .filter(t_journal::revision.ge(revision))
        .execute(connection))
    .map(drop)
}

/// Deletes rows as they were read: that of an attempt of unknown outcome may have been replaced since.
fn cut(backend: &mut Backend, rows: &[JournalRow]) -> QueryResult<()> {
    for some in rows.chunks(DELETES) {
        let sequences = some.iter().map(|row| row.sequence);
        let (first, last) = (sequences.clone().min(), sequences.max());
        let checksums: Vec<i64> = some.iter().map(|row| row.checksum).collect();
        on!(backend, connection => diesel::delete(t_journal::table)
            .filter(t_journal::sequence.between(first.unwrap_or_default(), last.unwrap_or_default()))
            .filter(t_journal::checksum.eq_any(&checksums))
            .execute(connection))?;
    }
    Ok(())
}

fn checksum(revision: i64, content: &[u8]) -> i64 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&revision.to_le_bytes());
    hash.update(content);
    i64::from(hash.finalize())
}

/// The rows behind a place, as many as fit into a page, but at least one.
fn page_after(backend: &mut Backend, last: i64) -> QueryResult<JournalPage> {
    let lengths: Vec<(i64, i64)> = on!(backend, connection => t_journal::table
        .filter(t_journal::sequence.gt(last))
        .order(t_journal::sequence)
        .limit(PAGE_ROWS)
        .select((t_journal::sequence, sql::<BigInt>(LENGTH)))
        .load(connection))?;
    let mut bytes = 0;
    let fits = |(place, (_, length)): &(usize, &(i64, i64))| {
        bytes += length;
        *place == 0 || bytes <= PAGE_BYTES
    };
    let fitting = lengths.iter().enumerate().take_while(fits).count();
    let Some((end, _)) = lengths[..fitting].last() else {
        return Ok(JournalPage { rows: Vec::new(), is_cut: false });
    };
    let rows = on!(backend, connection => t_journal::table
        .filter(t_journal::sequence.gt(last))
        .filter(t_journal::sequence.le(*end))
        .order(t_journal::sequence)
        .load(connection))?;
    Ok(JournalPage { rows, is_cut: fitting < lengths.len() || lengths.len() as i64 == PAGE_ROWS })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
