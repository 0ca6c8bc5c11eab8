//! The placements: the nodes of counted registrations, and the rows that record them in the store.
//!
//! Invariant: every instance that may run has a row in the store, since a new leader knows nothing else. A
//! row goes only when nothing runs by it any more, and the one with the highest number of moves only when a
//! higher one is stored, so that numbers never come twice under one version. After a failed write its rows
//! count as unknown and are all written again, each as it should be by then.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::{DataName, NodeName};

use super::model::{ClusterChanges, StoredPlacement};
use super::place::Standing;

/// How far the instance of a placement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlacementPhase {
    /// It is to be stored before its agent is told.
    Planned,
    /// It is stored and not delivered; it may run, if something of it is still ending.
    Stored,
    /// It is stored and delivered.
    Delivered,
    /// Nothing runs by it.
    Vacant,
}

impl PlacementPhase {
    /// As `place` sees it; nothing if it does not count. `ending`: something of it may run there.
    pub fn standing(self, ending: bool) -> Option<Standing> {
        match self {
            PlacementPhase::Planned => Some(Standing::Planned),
            PlacementPhase::Stored if ending => Some(Standing::Withdrawn),
            PlacementPhase::Stored => Some(Standing::Planned),
            PlacementPhase::Delivered => Some(Standing::Delivered),
            PlacementPhase::Vacant => None,
        }
    }
}

/// How a placement compares with its row in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteState {
    Clean,
    Dirty,
    InFlight,
}

#[derive(Debug, Clone)]
pub(super) struct Placement {
    pub moves: u32,
    pub placed_us: i64,
    pub phase: PlacementPhase,
    pub write: WriteState,
    /// True if it was certainly stored with this number of moves.
    pub stored: bool,
}

#[derive(Debug, Default)]
pub(super) struct Placements {
    by_name: BTreeMap<DataName, BTreeMap<NodeName, Placement>>,
    dirty: BTreeSet<(DataName, NodeName)>,
    deleted: BTreeSet<(DataName, NodeName)>,
}

/// The highest number of moves; the bits below a version in an epoch.
const MOST_MOVES: u32 = (1 << 24) - 1;

impl Placements {
    pub fn of(&self, name: &DataName) -> impl Iterator<Item = (&NodeName, &Placement)> {
        self.by_name.get(name).into_iter().flatten()
    }

    pub fn get_mut(&mut self, name: &DataName, node: &NodeName) -> Option<&mut Placement> {
        self.by_name.get_mut(name)?.get_mut(node)
    }

    pub fn load(&mut self, stored: StoredPlacement, phase: PlacementPhase) {
        let StoredPlacement { data_name, node_name, moves, placed_us } = stored;
        let row = Placement { moves, placed_us, phase, write: WriteState::Clean, stored: true };
        self.by_name.entry(data_name).or_default().insert(node_name, row);
    }

    /// Adds one that outranks all that were before.
    pub fn plan(&mut self, name: &DataName, node: &NodeName, placed_us: i64) {
        let rows = self.by_name.entry(name.clone()).or_default();
        let moves = rows.values().map(|row| row.moves).max().unwrap_or(0).saturating_add(1).min(MOST_MOVES);
        let row = Placement {
            moves,
            placed_us,
            phase: PlacementPhase::Planned,
            write: WriteState::Dirty,
            stored: false,
        };
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
        let goes =
            |row: &Placement| row.phase == PlacementPhase::Vacant && !(counted && row.moves == highest);
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

    /// The node's row goes from the store, and its placements with it; those that are still here are put
    /// again.
    pub fn node_removed(&mut self, node: &NodeName) {
        for (name, rows) in &mut self.by_name {
            if let Some(row) = rows.get_mut(node) {
                row.write = WriteState::Dirty;
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
                row.write = WriteState::InFlight;
                let (moves, placed_us) = (row.moves, row.placed_us);
                changes.put_placements.push(StoredPlacement { data_name, node_name, moves, placed_us });
            }
        }
    }

    /// Those that are stored as they are now.
    pub fn committed(&mut self, put: &[StoredPlacement]) {
        for placement in put {
            let Some(row) = self.get_mut(&placement.data_name, &placement.node_name) else { continue };
            if row.write == WriteState::InFlight {
                row.write = WriteState::Clean;
                row.stored = true;
                if row.phase == PlacementPhase::Planned {
                    row.phase = PlacementPhase::Stored;
                }
            }
        }
    }

    /// It is unknown whether these were stored.
    pub fn failed(&mut self, changes: ClusterChanges) {
        let put = changes.put_placements.into_iter().map(|put| (put.data_name, put.node_name));
        for key in put.chain(changes.delete_placements) {
            match self.get_mut(&key.0, &key.1) {
                Some(row) => {
                    row.write = WriteState::Dirty;
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
