//! The latest values, and the group commit that writes them with everything that belongs to the same change.
//!
//! They are in `t_data` and, what came last, in the journal, to which a commit adds; a fold brings them from there into
//! `t_data`. This is the hot path: statements stay prepared, and a group's changes of values are one row.

use std::panic::resume_unwind;
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::t_data;
use crate::statement::{Rows, Value, write_all};
use crate::{
    BindingRef, Change, Claim, Connection, Error, HistoryDelete, HistoryRowRef, Journaled, RetentionRef,
    SwapRef, binding, history, journal, owner, retention,
};

/// Rows that are read at once while all are loaded. Of three pages one is read, one waits and one is handed over: at the
/// largest values they are 96 MiB.
const PAGE: i64 = 500;
const WAITING_PAGES: usize = 1;
const LOADING: &str = "loading the data";
/// Ids that one statement deletes.
const DELETES: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct DataRow {
    pub data_name: String,
    pub node_name: String,
    pub data_value: String,
    pub collected_at: i64,
    pub received_at: i64,
    pub valid_for: Option<i64>,
    pub failed: bool,
    pub lost: bool,
    pub revision: i64,
    pub epoch: i64,
    pub sequence: i64,
    pub provenance: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRowRef<'a> {
    pub data_name: &'a str,
    pub node_name: &'a str,
    pub data_value: &'a str,
    pub collected_at: i64,
    pub received_at: i64,
    pub valid_for: Option<i64>,
    pub failed: bool,
    pub lost: bool,
    pub revision: i64,
    pub epoch: i64,
    pub sequence: i64,
    pub provenance: Option<&'a str>,
}

/// In the order of names, then of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key<'a> {
    pub data_name: &'a str,
    pub node_name: &'a str,
}

impl DataRow {
    pub fn as_ref(&self) -> DataRowRef<'_> {
        DataRowRef {
            data_name: &self.data_name,
            node_name: &self.node_name,
            data_value: &self.data_value,
            collected_at: self.collected_at,
            received_at: self.received_at,
            valid_for: self.valid_for,
            failed: self.failed,
            lost: self.lost,
            revision: self.revision,
            epoch: self.epoch,
            sequence: self.sequence,
            provenance: self.provenance.as_deref(),
        }
    }
}

/// The changes of one commit. A key may be in it only once.
#[derive(Clone, Debug, Default)]
pub struct Group<'a> {
    /// The highest revision that is in use after this commit.
    pub revision: i64,
    /// Set when an earlier attempt ended with [`Error::Connection`]: the lowest revision that it used.
    /// Rows that it may have added from there on to the journal, and to the histories that this commit adds to, those of
    /// bindings among them, are deleted first.
    pub erase_from: Option<i64>,
    pub history_deletes: Vec<HistoryDelete<'a>>,
    pub deletes: Vec<Key<'a>>,
    pub upserts: Vec<DataRowRef<'a>>,
    pub history: Vec<HistoryRowRef<'a>>,
    /// Rows that are added before those, unless their data name and node have one that was collected then or later.
    pub history_begins: Vec<HistoryRowRef<'a>>,
    pub bindings_set: Vec<BindingRef<'a>>,
    pub bindings_removed: Vec<&'a str>,
    /// Changes of bindings, for their history.
    pub swaps: Vec<SwapRef<'a>>,
    /// Replaces the whole table.
    pub retention: Option<Vec<RetentionRef<'a>>>,
}

impl Group<'_> {
    /// True if it makes nothing new, but for entries of what was removed. The retention is that of registrations, which
    /// only become fewer while the disk is full.
    fn only_removes(&self) -> bool {
        self.upserts.is_empty()
            && self.history.is_empty()
            && self.history_begins.is_empty()
            && self.bindings_set.is_empty()
    }
}

static DATA: Rows = Rows {
    table: "t_data",
    columns: &[
        "id",
        "data_name",
        "node_name",
        "data_value",
        "collected_at",
        "received_at",
        "valid_for",
        "failed",
        "lost",
        "revision",
        "epoch",
        "sequence",
        "provenance",
    ],
    replaced_by: 1,
};

impl Connection {
    /// Hands over everything that makes up the values, in this order: those of `t_data` by id, a page at a time, and the
    /// changes of the journal. Returns how much is in the journal.
    pub fn load_data(&mut self, each: &mut dyn FnMut(Change<'_>)) -> Result<Journaled, Error> {
        self.load_table(&mut |row| each(Change::Put(row.as_ref())))?;
        self.replay(each)
    }

    /// Hands over the rows of `t_data`, while another thread reads the next ones.
    pub(crate) fn load_table(&mut self, each: &mut dyn FnMut(DataRow)) -> Result<(), Error> {
        let (send, pages) = mpsc::sync_channel(WAITING_PAGES);
        thread::scope(|scope| {
            let reader = scope.spawn(move || self.read_table(&send));
            for page in pages {
                page.into_iter().for_each(&mut *each);
            }
            reader.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Reads all pages of `t_data`, unless nobody takes them any more.
    fn read_table(&mut self, pages: &SyncSender<Vec<DataRow>>) -> Result<(), Error> {
        let mut last = String::new();
        self.read(LOADING, Backend::begin_scan)?;
        loop {
            let page = self.read(LOADING, |backend| page_after(backend, &last))?;
            let Some(row) = page.last() else { return self.read(LOADING, Backend::end_scan) };
            last = id(row.data_name.as_str(), row.node_name.as_str());
            if pages.send(page).is_err() {
                return Ok(());
            }
        }
    }

    /// Makes one group durable, or nothing of it. Returns what it added to the journal.
    pub fn commit(&mut self, claim: &Claim, group: &Group<'_>) -> Result<Journaled, Error> {
        let doing = "committing data";
        let change = |backend: &mut Backend| {
            owner::advance(backend, claim, group.revision)?;
            if let Some(revision) = group.erase_from {
                history::erase_from(backend, revision, &group.history)?;
                journal::erase_from(backend, revision)?;
            }
            history::delete(backend, &group.history_deletes)?;
            let deletes = group.deletes.iter().copied().map(Change::Delete);
            let changes = deletes.chain(group.upserts.iter().copied().map(Change::Put));
            let journaled = journal::append(backend, group.revision, changes)?;
            history::begin(backend, &group.history_begins)?;
            history::add(backend, &group.history)?;
            binding::remove(backend, &group.bindings_removed)?;
            binding::set(backend, &group.bindings_set)?;
            binding::add_swaps(backend, &group.swaps, group.erase_from)?;
            if let Some(rows) = &group.retention {
                retention::replace(backend, rows)?;
            }
            Ok(journaled)
        };
        match group.only_removes() {
            true => self.write_on_full_disk(doing, change),
            false => self.write(doing, change),
        }
    }
}

/// The paper's key of a value.
fn id(data_name: &str, node_name: &str) -> String {
    let mut id = String::with_capacity(data_name.len() + 1 + node_name.len());
    id.push_str(data_name);
    id.push('/');
    id.push_str(node_name);
    id
}

fn page_after(backend: &mut Backend, last: &str) -> QueryResult<Vec<DataRow>> {
    on!(backend, connection => t_data::table
        .filter(t_data::id.gt(last))
        .order(t_data::id)
        .limit(PAGE)
        .select((
            t_data::data_name,
            t_data::node_name,
            t_data::data_value,
            t_data::collected_at,
            t_data::received_at,
            t_data::valid_for,
            t_data::failed,
            t_data::lost,
            t_data::revision,
            t_data::epoch,
            t_data::sequence,
            t_data::provenance,
        ))
        .load(connection))
}

/// Stores changes of different values.
pub(crate) fn store(backend: &mut Backend, changes: &[Change<'_>]) -> QueryResult<()> {
    let (mut deletes, mut upserts) = (Vec::new(), Vec::with_capacity(changes.len()));
    for change in changes {
        let Key { data_name, node_name } = change.key();
        let id = id(data_name, node_name);
        match change {
            Change::Delete(_) => deletes.push(id),
            Change::Put(row) => upserts.push((id, *row)),
        }
    }
    for ids in deletes.chunks(DELETES) {
        on!(backend, connection => diesel::delete(t_data::table)
            .filter(t_data::id.eq_any(ids))
            .execute(connection))?;
    }
    write_all(backend, &DATA, &upserts, |(id, row), values| {
        values.extend([
            Value::Text(id),
            Value::Text(row.data_name),
            Value::Text(row.node_name),
            Value::Text(row.data_value),
            Value::Int(row.collected_at),
            Value::Int(row.received_at),
            Value::OptInt(row.valid_for),
            Value::Bool(row.failed),
            Value::Bool(row.lost),
            Value::Int(row.revision),
            Value::Int(row.epoch),
            Value::Int(row.sequence),
            Value::OptText(row.provenance),
        ]);
    })
}
