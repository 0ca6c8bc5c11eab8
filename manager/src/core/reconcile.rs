//! The look at the cluster: desired states follow from registrations and heartbeats.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::{RegistrationRecord, Replicas};

use super::model::{ClusterChanges, Millis, Step};
use super::node::{DroppedInstance, NodeEntry};
use super::node_labels::LabelMatch;
use super::place::{Candidate, Demand, Holder, Plan, Standing, place};
use super::placements::PlacementPhase;
use super::{Cluster, forget};

impl Cluster {
    /// True if something has happened after which a look should follow.
    pub fn wants_reconcile(&self) -> bool {
        self.wanted
    }

    /// Looks at everything that may have changed. Another look without news changes nothing.
    pub fn reconcile(&mut self, now: Millis, wall_us: i64) -> Step {
        (self.drawn, self.wanted, self.wall_us) = (false, false, wall_us);
        let margin_ms = self.settings.margin_ms;
        let due: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, entry)| !entry.lost && entry.leased_until + margin_ms <= now)
            .map(|(node, _)| node.clone())
            .collect();
        for node in due {
            self.lose(&node);
        }
        self.settle();
        self.wanted = false;
        let heard = self.nodes.values().filter(|entry| !entry.lost);
        let next_wake = heard.map(|entry| entry.leased_until + margin_ms).min();
        let store = if self.in_flight { ClusterChanges::default() } else { self.take_changes() };
        self.in_flight |= !store.is_empty();
        Step { store, next_wake }
    }

    /// The step is stored: its placements may be delivered.
    pub fn committed(&mut self, step: Step) {
        let Step { store, .. } = step;
        if store.is_empty() {
            return;
        }
        (self.drawn, self.in_flight) = (false, false);
        self.placements.committed(&store.put_placements);
        self.dirty_names.extend(store.put_placements.into_iter().map(|placement| placement.data_name));
        for node in store.put_nodes {
            if let Some(entry) = self.nodes.get_mut(&node.node_name) {
                entry.stored = true;
            }
        }
        self.stored_nodes = self.nodes.values().filter(|entry| entry.stored).count() as u64;
        self.settle();
        self.wanted = self.is_unwritten();
    }

    /// The step is not stored, or its outcome is unknown. Its rows are written again, as they are by then.
    pub fn failed(&mut self, step: Step) {
        let Step { store, .. } = step;
        if store.is_empty() {
            return;
        }
        self.in_flight = false;
        let put = store.put_nodes.iter().map(|node| &node.node_name);
        for node in put.chain(&store.delete_nodes) {
            let to = if self.nodes.contains_key(node) { &mut self.unwritten } else { &mut self.removed };
            to.insert(node.clone());
        }
        self.audit.extend_from_slice(&store.audit);
        self.placements.failed(store);
        self.wanted = true;
    }

    fn is_unwritten(&self) -> bool {
        !self.audit.is_empty()
            || !self.removed.is_empty()
            || !self.unwritten.is_empty()
            || self.placements.is_dirty()
    }

    fn take_changes(&mut self) -> ClusterChanges {
        let mut changes = ClusterChanges {
            delete_nodes: std::mem::take(&mut self.removed).into_iter().collect(),
            audit: std::mem::take(&mut self.audit),
            ..ClusterChanges::default()
        };
        for node in std::mem::take(&mut self.unwritten) {
            changes.put_nodes.extend(self.nodes.get(&node).map(|entry| entry.to_stored(&node)));
        }
        self.placements.take_changes(&mut changes);
        changes
    }

    /// The node's leases are over, so its counted instances are gone from it.
    pub(super) fn lose(&mut self, node: &NodeName) {
        let Some(entry) = self.nodes.get(node) else { return };
        let (leased, loose) = (entry.slots.iter().any(|slot| slot.leased), entry.is_loose());
        let revision = if leased { self.draw() } else { 0 };
        let Some(entry) = self.nodes.get_mut(node) else { return };
        if leased {
            entry.slots.retain(|slot| !slot.leased);
            entry.revision = revision;
            entry.lease_from = revision;
            entry.change(node, &mut self.changed);
        }
        entry.ending.retain(|name, ending| {
            if ending.leased {
                entry.lease_from = entry.lease_from.max(ending.revision);
                forget(&mut self.endings, name, node);
                // Without a lease the same name may run here, and has waited.
                self.dirty_nodes.insert(node.clone());
            }
            !ending.leased
        });
        for name in std::mem::take(&mut entry.placed) {
            if let Some(row) = self.placements.get_mut(&name, node) {
                row.phase = PlacementPhase::Vacant;
            }
            self.dirty_names.insert(name);
        }
        if !entry.lost {
            entry.lost = true;
            self.newly_lost.push(node.clone());
            if entry.marked != Some(true) {
                self.to_mark.insert(node.clone());
            }
        }
        if leased || loose {
            entry.forget_statuses();
        }
        self.touch(node);
    }

    /// Looks at all that is marked as changed.
    fn settle(&mut self) {
        let Some(registered) = self.registered.take() else { return };
        let anew = std::mem::take(&mut self.anew);
        let nodes = std::mem::take(&mut self.dirty_nodes);
        let shifted = std::mem::take(&mut self.shifted);
        let mut names = std::mem::take(&mut self.dirty_names);
        // A paused registration runs nowhere, as if it were not there.
        let running = |one: &&Arc<RegistrationRecord>| !one.registration.paused;
        let (everywhere, counted): (Vec<_>, Vec<_>) = registered
            .iter()
            .filter(|(_, one)| running(one))
            .partition(|(_, one)| one.registration.replicas == Replicas::All);
        // Counted instances make way before others come, and the others before counted ones do.
        let mut fresh: Vec<UncountedName<'_>> = Vec::new();
        for name in &anew {
            let one = registered.get(name).filter(running);
            let uncounted = one.filter(|one| one.registration.replicas == Replicas::All);
            if one.is_none() || uncounted.is_some() {
                self.place(name, None);
            }
            fresh.push((name, uncounted));
        }
        self.spread(&fresh, None);
        if !nodes.is_empty() {
            let rest = everywhere.into_iter().filter(|(name, _)| !anew.contains(*name));
            let rest: Vec<UncountedName<'_>> = rest.map(|(name, one)| (name, Some(one))).collect();
            // Looking each of them up is slower than a walk over all.
            let some = Some(&nodes).filter(|nodes| nodes.len() < self.nodes.len() / 8);
            self.spread(&rest, some);
        }
        for (name, one) in counted {
            if names.remove(name) || shifted || anew.contains(name) {
                self.place(name, Some(one));
            }
        }
        for name in &names {
            self.place(name, None);
        }
        self.registered = Some(registered);
    }

    /// Makes instances run on each node that matches, and on no other; on some nodes or all.
    fn spread(&mut self, names: &[UncountedName<'_>], some: Option<&BTreeSet<NodeName>>) {
        let revision = self.next();
        let mut changes = false;
        let mut look = |node: &NodeName, entry: &mut NodeEntry| {
            for name in names {
                if set_uncounted(node, entry, *name, revision, &mut self.endings) {
                    entry.change(node, &mut self.changed);
                    changes = true;
                }
            }
        };
        match some {
            None => self.nodes.iter_mut().for_each(|(node, entry)| look(node, entry)),
            Some(some) => {
                for node in some {
                    if let Some(entry) = self.nodes.get_mut(node) {
                        look(node, entry);
                    }
                }
            }
        }
        if changes {
            self.draw();
        }
    }

    /// Decides where a counted registration runs. None: it is no such registration any more.
    fn place(&mut self, name: &DataName, one: Option<&Arc<RegistrationRecord>>) {
        let matches = |entry: &NodeEntry| one.is_some_and(|one| is_for(one, entry));
        let apart = |entry: &NodeEntry| entry.ending.get(name).is_some_and(|ending| !ending.leased);
        let holders: Vec<_> = self
            .placements
            .of(name)
            .filter_map(|(node, row)| {
                let entry = self.nodes.get(node)?;
                let fits = !entry.lost && matches(entry) && !apart(entry);
                let standing = row.phase.standing(entry.ending.contains_key(name))?;
                let suitability = self.run_reports.suitability(name, node);
                Some(Holder { node, moves: row.moves, standing, fits, suitability })
            })
            .collect();
        let count = match one.map(|one| one.registration.replicas) {
            Some(Replicas::Count(count)) => count as usize,
            _ => 0,
        };
        // A lost node that runs it without a lease cannot be waited for.
        let waited_for = |entry: &NodeEntry| !entry.lost && apart(entry) && !entry.placed.contains(name);
        let others = self.endings.get(name).into_iter().flatten();
        let others = others.filter(|node| self.nodes.get(*node).is_some_and(waited_for)).count();
        let free = |entry: &NodeEntry| {
            let busy = entry.placed.contains(name) || entry.ending.contains_key(name);
            !entry.lost && !entry.cordoned && !busy && matches(entry)
        };
        let candidates = self.nodes.iter().filter(|(_, entry)| free(entry)).map(|(node, entry)| Candidate {
            node,
            suitability: self.run_reports.suitability(name, node),
            load: entry.placed.len(),
        });
        let plan = place(&Demand { name, count, holders: &holders, others }, candidates);
        let before: Vec<_> = holders.iter().map(|holder| (holder.node.clone(), holder.standing)).collect();
        self.follow(name, one, &before, plan);
    }

    fn follow(
        &mut self,
        name: &DataName,
        one: Option<&Arc<RegistrationRecord>>,
        before: &[(NodeName, Standing)],
        plan: Plan,
    ) {
        let revision = self.next();
        let moves = self.placements.stored_moves(name);
        let keep: BTreeSet<_> = plan.keep.into_iter().collect();
        let mut changes = false;
        for (node, standing) in before {
            let (Some(row), Some(entry)) = (self.placements.get_mut(name, node), self.nodes.get_mut(node))
            else {
                continue;
            };
            let changed = match (standing, one.filter(|_| keep.contains(node))) {
                (Standing::Planned, Some(_)) if row.phase == PlacementPhase::Planned => false,
                (_, Some(one)) => {
                    row.phase = PlacementPhase::Delivered;
                    if entry.ending.remove(name).is_some() {
                        forget(&mut self.endings, name, node);
                    }
                    entry.assign(one, epoch(one, moves), true, revision)
                }
                (Standing::Delivered, None) => {
                    row.phase = PlacementPhase::Stored;
                    entry.unassign(name, revision);
                    entry.ending.insert(name.clone(), DroppedInstance { revision, leased: true });
                    self.endings.entry(name.clone()).or_default().insert(node.clone());
                    true
                }
                // It waits for the agent's word.
                (Standing::Withdrawn, None) => false,
                (Standing::Planned, None) => {
                    row.phase = PlacementPhase::Vacant;
                    entry.placed.remove(name);
                    false
                }
            };
            if changed {
                entry.change(node, &mut self.changed);
                changes = true;
            }
        }
        if changes {
            self.draw();
        }
        for node in &plan.add {
            self.placements.plan(name, node, self.wall_us);
            if let Some(entry) = self.nodes.get_mut(node) {
                entry.placed.insert(name.clone());
            }
        }
        self.placements.tidy(name, one.is_some());
    }
}

/// A name, and the registration that should run by it on every matching node; none: nothing should.
type UncountedName<'a> = (&'a DataName, Option<&'a Arc<RegistrationRecord>>);

/// True if the node has the labels that the registration asks for.
fn is_for(one: &RegistrationRecord, entry: &NodeEntry) -> bool {
    entry.labels.matches(&one.registration) == LabelMatch::Yes
}

/// Makes one instance without a lease run on the node or not; true if that is a change.
fn set_uncounted(
    node: &NodeName,
    entry: &mut NodeEntry,
    (name, one): UncountedName<'_>,
    revision: u64,
    endings: &mut BTreeMap<DataName, BTreeSet<NodeName>>,
) -> bool {
    let ending = entry.ending.get(name).copied();
    // An instance with a lease has to be gone before the same name runs without.
    if ending.is_some_and(|ending| ending.leased) {
        return false;
    }
    match one.filter(|one| is_for(one, entry)) {
        Some(one) => {
            if !entry.assign(one, epoch(one, 0), false, revision) {
                return false;
            }
            if ending.is_some() {
                entry.ending.remove(name);
                forget(endings, name, node);
            }
        }
        None => {
            if entry.slot(name).is_none_or(|slot| slot.leased) {
                return false;
            }
            entry.unassign(name, revision);
            entry.ending.insert(name.clone(), DroppedInstance { revision, leased: false });
            endings.entry(name.clone()).or_default().insert(node.clone());
        }
    }
    true
}

/// The number that orders the values of a data name's producers.
pub(super) fn epoch(registered: &RegistrationRecord, moves: u32) -> u64 {
    (registered.version << 24) | u64::from(moves)
}
