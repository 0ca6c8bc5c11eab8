//! Storage of groups: the writer's own connection, opened again when it broke.
//!
//! It turns a group into rows, and a database's error into the facts that the writer needs: refused, so that
//! nothing of the group is stored; or broken, so that the outcome is unknown.

mod loading;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use estimand_api::duration::Span;
use estimand_api::names::DataName;
use estimand_api::pointer::Pointer;
use estimand_api::registration::History;
use estimand_api::value::BindingTarget;
use estimand_store::{
    BindingRef, Claim, Connection, DataRowRef, Error, Group as Rows, Halt, HistoryDelete, HistoryRowRef,
    Journaled, Key, RetentionRef, StoreUrl, SwapRef, SwapRow,
};

use crate::core::backlog::JournaledGroup;
use crate::core::binding_change::BindingChange;
use crate::core::entry::Entry;
use crate::core::group::{Group, Retention};
use crate::core::snapshot::{Bound, Snapshot};
use loading::Loading;

/// How far the revision of a starting service lies beyond the last one stored. Changes of state that time
/// makes are published without being stored, and no revision may be given out twice.
const HEADROOM: u64 = 1 << 20;
/// Under which name this service claims the store.
const OWNER: &str = "data";

/// The connection and the right to write through it.
pub struct Storage {
    url: StoreUrl,
    halt: Halt,
    connection: Option<Connection>,
    right: FoldRight,
}

/// The right to fold the journal: the claim, and the turn of writer and folder where one transaction excludes another.
/// SQLite's own wait looks from time to time, and whoever comes back soon would always find the lock first.
#[derive(Clone)]
pub struct FoldRight {
    claim: Claim,
    turn: Option<Arc<Mutex<()>>>,
}

impl FoldRight {
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    pub fn takes_turns(&self) -> bool {
        self.turn.is_some()
    }

    /// Held for one transaction.
    pub fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.turn.as_deref()?;
        Some(turn.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Why a group is not stored.
#[derive(Debug)]
pub enum StoreFailure {
    /// Nothing of it is stored.
    Refused(Error),
    /// It may or may not be stored.
    Unknown(Error),
    /// Another process writes to this store now.
    Fenced,
}

/// Everything that was stored.
pub struct StoredState {
    pub storage: Storage,
    pub snapshot: Snapshot,
    pub retention: Retention,
    /// The part of the values that is in the journal.
    pub journaled: JournaledGroup,
}

impl Storage {
    /// Opens the store, makes its tables, claims it and loads all of it.
    pub fn load(
        url: &StoreUrl,
        halt: &Halt,
        now: i64,
        progress: &mut dyn FnMut(usize),
    ) -> Result<StoredState, Error> {
        let mut connection = Connection::open_until(url, halt)?;
        connection.migrate()?;
        connection.leave_log()?;
        let claim = connection.claim(OWNER, HEADROOM as i64)?;
        // Nothing was given out yet by the first service of a new store.
        let revision = if claim.epoch == 1 { 0 } else { claim.revision.unsigned_abs() };
        let mut loading = Loading::new(revision, now);
        let mut loaded = 0_usize;
        let journaled = connection.load_data(&mut |change| {
            loading.take(&change);
            loaded += 1;
            if loaded.is_multiple_of(10_000) {
                progress(loading.snapshot().values);
            }
        })?;
        let mut snapshot = loading.into_snapshot();
        load_bindings(&mut connection, &mut snapshot)?;
        let mut retention = Retention::new();
        for row in connection.load_retention()? {
            if let Ok(name) = DataName::parse(&row.data_name) {
                let keep = row.keep_us.and_then(|micros| Span::from_micros(micros.unsigned_abs()).ok());
                retention.insert(name, History { keep, max: row.max_count.map(i64::unsigned_abs) });
            }
        }
        let right = FoldRight { claim, turn: url.is_sqlite().then(Arc::default) };
        let storage = Storage { url: url.clone(), halt: halt.clone(), connection: Some(connection), right };
        Ok(StoredState { storage, snapshot, retention, journaled: group_of(journaled) })
    }

    pub fn fold_right(&self) -> FoldRight {
        self.right.clone()
    }

    pub fn headroom(&self) -> u64 {
        HEADROOM
    }

    /// Stores a group, and returns what of it is in the journal. `unknown_from` is the first revision of an earlier attempt
    /// whose outcome is unknown.
    pub fn commit(
        &mut self,
        group: &Group,
        unknown_from: Option<u64>,
    ) -> Result<JournaledGroup, StoreFailure> {
        let stored = group.stored();
        let removed = group.removed();
        let rows = Rows {
            revision: signed(group.next.revision),
            erase_from: unknown_from.map(signed),
            history_deletes: group
                .forget
                .iter()
                .map(|(name, node)| match node {
                    None => HistoryDelete::Name(name.as_str()),
                    Some(node) => HistoryDelete::Node { data_name: name.as_str(), node_name: node.as_str() },
                })
                .collect(),
            deletes: removed
                .iter()
                .map(|(name, node)| Key { data_name: name.as_str(), node_name: node.as_str() })
                .collect(),
            upserts: stored.into_iter().map(|entry| row_of(entry)).collect(),
            history: group.past.iter().map(|entry| past_row_of(entry)).collect(),
            history_begins: group.first.iter().map(|entry| past_row_of(entry)).collect(),
            bindings_set: group
                .bindings
                .iter()
                .filter_map(|name| group.next.bindings().get(name).map(|bound| (name, bound)))
                .map(|(name, bound)| BindingRef {
                    data_name: name.as_str(),
                    target: bound.served.to.as_str(),
                    at: bound.since,
                    field: bound.served.field.as_ref().map(Pointer::as_str),
                })
                .collect(),
            bindings_removed: group
                .bindings
                .iter()
                .filter(|name| !group.next.bindings().contains_key(*name))
                .map(DataName::as_str)
                .collect(),
            swaps: group.swaps.iter().map(|swapped| swap_row_of(swapped, group.now)).collect(),
            retention: group.retention.as_ref().map(retention_rows),
        };
        self.send(&rows)
    }

    /// Stores how far revisions have come, when much has happened that is not stored.
    pub fn keep_revision(&mut self, revision: u64) -> Result<(), StoreFailure> {
        self.send(&Rows { revision: signed(revision), ..Rows::default() }).map(drop)
    }

    /// Cuts a history down to the part that is to be kept.
    pub fn prune(
        &mut self,
        name: &DataName,
        history: &History,
        now: i64,
        snapshot: &Snapshot,
    ) -> Result<(), Error> {
        let connection = self.open()?;
        if let Some(keep) = history.keep {
            let micros = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
            connection.prune_history(name.as_str(), Some(now.saturating_sub(micros)))?;
        }
        if let Some(max) = history.max {
            for node in snapshot.table(name.as_str()).into_iter().flat_map(|values| values.nodes()) {
                connection.prune_history_count(name.as_str(), node.as_str(), signed(max))?;
            }
        }
        Ok(())
    }

    fn send(&mut self, rows: &Rows<'_>) -> Result<JournaledGroup, StoreFailure> {
        let right = self.right.clone();
        // A connection that cannot be made leaves the outcome of an earlier attempt as unknown as it was.
        let connection = self.open().map_err(StoreFailure::Unknown)?;
        let _turn = right.turn();
        connection.commit(right.claim(), rows).map(group_of).map_err(|error| match error {
            Error::Fenced { .. } => StoreFailure::Fenced,
            Error::Connection { .. } => StoreFailure::Unknown(error),
            refused => StoreFailure::Refused(refused),
        })
    }

    fn open(&mut self) -> Result<&mut Connection, Error> {
        let open = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => {
                let mut connection = Connection::open_until(&self.url, &self.halt)?;
                connection.leave_log()?;
                connection
            }
        };
        Ok(self.connection.insert(open))
    }
}

/// Loads the bindings with their last changes, and the last bindings of names that are bound no more.
fn load_bindings(connection: &mut Connection, snapshot: &mut Snapshot) -> Result<(), Error> {
    let mut last: BTreeMap<String, SwapRow> =
        connection.last_swaps()?.into_iter().map(|row| (row.data_name.clone(), row)).collect();
    for row in connection.load_bindings()? {
        let swap = last.remove(&row.data_name);
        let Some((name, served)) = DataName::parse(&row.data_name).ok().zip(served(&row.target, row.field))
        else {
            continue;
        };
        // A binding that an older program made has no history.
        let revision = swap.as_ref().map_or(snapshot.revision, |swap| swap.revision.unsigned_abs());
        let before = swap.and_then(before);
        snapshot.bind(name, Bound { served, since: row.at, revision, before });
    }
    for (name, mut swap) in last {
        let (revision, since) = (swap.revision.unsigned_abs(), swap.at);
        let served = served(&swap.target, swap.field.take());
        if let Some((name, served)) = DataName::parse(&name).ok().zip(served) {
            snapshot.release(name, Bound { served, since, revision, before: before(swap) });
        }
    }
    Ok(())
}

fn before(swap: SwapRow) -> Option<BindingTarget> {
    served(&swap.before_target?, swap.before_field)
}

/// The target that a row names; none if its name or field is not valid.
fn served(to: &str, field: Option<String>) -> Option<BindingTarget> {
    let field = field.map(|text| Pointer::parse(&text)).transpose().ok()?;
    Some(BindingTarget { to: DataName::parse(to).ok()?, field })
}

fn swap_row_of(swapped: &BindingChange, at: i64) -> SwapRef<'_> {
    let BindingChange { name, action, served, before, revision, by } = swapped;
    fn field_of(served: &BindingTarget) -> Option<&str> {
        served.field.as_ref().map(Pointer::as_str)
    }
    SwapRef {
        data_name: name.as_str(),
        revision: signed(*revision),
        action: action.as_str(),
        at,
        actor: by,
        target: served.to.as_str(),
        field: field_of(served),
        before_target: before.as_ref().map(|before| before.to.as_str()),
        before_field: before.as_ref().and_then(field_of),
    }
}

fn group_of(journaled: Journaled) -> JournaledGroup {
    let Journaled { changes, bytes, revision } = journaled;
    JournaledGroup { revision: revision.unsigned_abs(), changes, bytes, at: Instant::now() }
}

fn row_of(entry: &Entry) -> DataRowRef<'_> {
    let facts = &entry.facts;
    // Plain writes have no place in an order; a negative one says so.
    let (epoch, sequence) =
        facts.order().map_or((-1, -1), |order| (signed(order.epoch), signed(order.sequence)));
    DataRowRef {
        data_name: facts.name.as_str(),
        node_name: facts.node.as_str(),
        data_value: entry.text(),
        collected_at: facts.collected_at,
        received_at: facts.received_at,
        valid_for: facts.valid_for.micros(),
        failed: facts.marks.failed,
        lost: facts.marks.lost,
        revision: signed(facts.revision),
        epoch,
        sequence,
        provenance: facts.provenance(),
    }
}

fn past_row_of(entry: &Entry) -> HistoryRowRef<'_> {
    HistoryRowRef {
        data_name: entry.facts.name.as_str(),
        node_name: entry.facts.node.as_str(),
        revision: signed(entry.facts.revision),
        data_value: entry.text(),
        collected_at: entry.facts.collected_at,
        received_at: entry.facts.received_at,
    }
}

fn retention_rows(retention: &Retention) -> Vec<RetentionRef<'_>> {
    retention
        .iter()
        .map(|(name, history)| RetentionRef {
            data_name: name.as_str(),
            keep_us: history.keep.and_then(|keep| i64::try_from(keep.as_micros()).ok()),
            max_count: history.max.map(signed),
        })
        .collect()
}

/// Databases count in signed integers; no number of ours comes near their end.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
