//! The placements: on which nodes counted registrations are, and what of that is stored.
//!
//! What must hold: whatever may run has a row in the store, since a new leader knows nothing else. A row goes
//! only when nothing runs by it any more, and the one with the highest number of moves only when a higher one
//! is stored, so that numbers never come twice under one version. After a failed write its rows count as
//! unknown and are all written again, each as it should be by then.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::{DataName, NodeName};

use super::model::{ClusterChanges, StoredPlacement};
use super::place::Standing;

/// What stands behind a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is to be stored before anybody is told.
    Planned,
    /// It is stored and not delivered; it may run, if something of it is still ending.
    Held,
    /// It is stored and delivered.
    Shown,
    /// Nothing runs by it.
    Vacant,
}

impl Phase {
    /// As the planner sees it; nothing if it is out of the game. `ending`: something of it may run there.
    pub fn standing(self, ending: bool) -> Option<Standing> {
        match self {
            Phase::Planned => Some(Standing::Planned),
            Phase::Held if ending => Some(Standing::Held),
            Phase::Held => Some(Standing::Planned),
            Phase::Shown => Some(Standing::Shown),
            Phase::Vacant => None,
        }
    }
}

/// Whether the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    Clean,
    Dirty,
    InFlight,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub moves: u32,
    pub placed_us: i64,
    pub phase: Phase,
    pub write: Write,
    /// Whether it was certainly stored with this number of moves.
    pub stored: bool,
}

#[derive(Debug, Default)]
pub(super) struct Rows {
    by_name: BTreeMap<DataName, BTreeMap<NodeName, Row>>,
    dirty: BTreeSet<(DataName, NodeName)>,
    deleted: BTreeSet<(DataName, NodeName)>,
}

/// The highest number of moves; the bits below a version in an epoch.
const MOST_MOVES: u32 = (1 << 24) - 1;

impl Rows {
    pub fn of(&self, name: &DataName) -> impl Iterator<Item = (&NodeName, &Row)> {
        self.by_name.get(name).into_iter().flatten()
    }

    pub fn get_mut(&mut self, name: &DataName, node: &NodeName) -> Option<&mut Row> {
        self.by_name.get_mut(name)?.get_mut(node)
    }

    pub fn load(&mut self, stored: StoredPlacement, phase: Phase) {
        let StoredPlacement { data_name, node_name, moves, placed_us } = stored;
        let row = Row { moves, placed_us, phase, write: Write::Clean, stored: true };
        self.by_name.entry(data_name).or_default().insert(node_name, row);
    }

    /// Adds one that outranks all that were before.
    pub fn plan(&mut self, name: &DataName, node: &NodeName, placed_us: i64) {
        let rows = self.by_name.entry(name.clone()).or_default();
        let moves = rows.values().map(|row| row.moves).max().unwrap_or(0).saturating_add(1).min(MOST_MOVES);
        let row = Row { moves, placed_us, phase: Phase::Planned, write: Write::Dirty, stored: false };
        rows.insert(node.clone(), row);
        let key = (name.clone(), node.clone());
        self.deleted.remove(&key);
        self.dirty.insert(key);
    }

    /// The number by which all instances of the name write.
    pub fn stored_moves(&self, name: &DataName) -> u32 {
        self.of(name).filter(|(_, row)| row.stored).map(|(_, row)| row.moves).max().unwrap_or(0)
    }

    /// Drops the vacant rows of a name; the highest one stays, if the name is `counted` still.
    pub fn tidy(&mut self, name: &DataName, counted: bool) {
        let Some(rows) = self.by_name.get_mut(name) else { return };
        let highest = rows.values().map(|row| row.moves).max().unwrap_or(0);
        let goes = |row: &Row| row.phase == Phase::Vacant && !(counted && row.moves == highest);
        let gone: Vec<_> = rows.iter().filter(|(_, row)| goes(row)).map(|(node, _)| node.clone()).collect();
        for node in gone {
            rows.remove(&node);
            let key = (name.clone(), node);
            self.dirty.remove(&key);
            self.deleted.insert(key);
        }
        if rows.is_empty() {
            self.by_name.remove(name);
        }
    }

    /// The node's row goes from the store, and its placements with it; what is left of them is put again.
    pub fn node_removed(&mut self, node: &NodeName) {
        for (name, rows) in &mut self.by_name {
            if let Some(row) = rows.get_mut(node) {
                row.write = Write::Dirty;
                self.dirty.insert((name.clone(), node.clone()));
            }
        }
    }

    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.deleted.is_empty()
    }

    /// Takes everything that is to be written.
    pub fn take_changes(&mut self, changes: &mut ClusterChanges) {
        changes.delete_placements.extend(std::mem::take(&mut self.deleted));
        for (data_name, node_name) in std::mem::take(&mut self.dirty) {
            if let Some(row) = self.get_mut(&data_name, &node_name) {
                row.write = Write::InFlight;
                let (moves, placed_us) = (row.moves, row.placed_us);
                changes.put_placements.push(StoredPlacement { data_name, node_name, moves, placed_us });
            }
        }
    }

    /// Those that are stored as they are now.
    pub fn committed(&mut self, put: &[StoredPlacement]) {
        for placement in put {
            let Some(row) = self.get_mut(&placement.data_name, &placement.node_name) else { continue };
            if row.write == Write::InFlight {
                row.write = Write::Clean;
                row.stored = true;
                if row.phase == Phase::Planned {
                    row.phase = Phase::Held;
                }
            }
        }
    }

    /// Nobody knows whether these were stored.
    pub fn failed(&mut self, changes: ClusterChanges) {
        let put = changes.put_placements.into_iter().map(|put| (put.data_name, put.node_name));
        for key in put.chain(changes.delete_placements) {
            match self.get_mut(&key.0, &key.1) {
                Some(row) => {
                    row.write = Write::Dirty;
                    self.dirty.insert(key);
                }
                None => drop(self.deleted.insert(key)),
            }
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &DataName> {
        self.by_name.keys()
    }
}
