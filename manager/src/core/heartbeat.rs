//! Heartbeats: admission of agents, notes of their reports, and the leases that they get.
//!
//! The cost of a heartbeat depends on its node and not on the cluster's size: it takes notes, and the next
//! look acts on them.

use std::collections::BTreeMap;

use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Heartbeat, HeartbeatAnswer};

use super::error::AgentError;
use super::model::Millis;
use super::node::{DroppedInstance, NodeEntry};
use super::placements::PlacementPhase;
use super::{Cluster, forget};

impl Cluster {
    pub fn heartbeat(
        &mut self,
        node: &NodeName,
        beat: Heartbeat,
        wall_us: i64,
        now: Millis,
    ) -> Result<HeartbeatAnswer, AgentError> {
        self.drawn = false;
        self.wall_us = wall_us;
        let interval_ms = self.interval_ms();
        let farewell = HeartbeatAnswer { interval_ms, ..HeartbeatAnswer::default() };
        if !self.admit(node, &beat, wall_us, now)? {
            return Ok(farewell);
        }
        let leaving = beat.leaving;
        let loose = self.nodes.get(node).is_some_and(NodeEntry::is_loose);
        self.take_notes(node, beat, wall_us);
        if leaving {
            // A former leader might let its next start run all the same. Then its lease decides.
            if now >= self.alone_from {
                self.leave(node);
            }
            return Ok(farewell);
        }
        self.confirm(node);
        let (lease_ms, known) = (self.lease_ms(), self.registered.is_some());
        let Some(entry) = self.nodes.get_mut(node) else { return Ok(farewell) };
        if loose {
            entry.forget_statuses();
        }
        // Counted also when no lease is given, because by it the node is lost.
        entry.leased_until = entry.leased_until.max(now + lease_ms);
        let trusted = known && entry.applied >= entry.lease_from;
        Ok(HeartbeatAnswer {
            interval_ms,
            lease_ms: if trusted { lease_ms } else { 0 },
            resend: !entry.has_all_statuses,
            now: None,
        })
    }

    /// Checks that an agent may ask for its desired state, or report a run.
    pub fn knows_agent(&self, node: &NodeName, agent: &str, boot: u64) -> Result<(), AgentError> {
        let Some(entry) = self.nodes.get(node) else { return Err(AgentError::UnknownNode(node.clone())) };
        match () {
            () if entry.agent != agent && entry.lost => Err(AgentError::UnknownNode(node.clone())),
            () if entry.agent != agent => Err(AgentError::NodeTaken(node.clone())),
            () if entry.is_over(boot) => {
                Err(AgentError::Superseded { node: node.clone(), given: boot, known: entry.boot })
            }
            () => Ok(()),
        }
    }

    /// Lets a heartbeat in if it comes from the agent that is the node now; false if there is nothing to note.
    fn admit(
        &mut self,
        node: &NodeName,
        beat: &Heartbeat,
        wall_us: i64,
        now: Millis,
    ) -> Result<bool, AgentError> {
        let margin_ms = self.settings.margin_ms;
        let Some(entry) = self.nodes.get_mut(node) else {
            if !beat.leaving {
                let revision = self.draw();
                let mut entry = NodeEntry::new(node, beat.agent.clone(), beat.boot, wall_us);
                entry.start_over(revision);
                entry.change(node, &mut self.changed);
                self.nodes.insert(node.clone(), entry);
                self.removed.remove(node);
                self.rematch(node);
            }
            return Ok(!beat.leaving);
        };
        if entry.agent != beat.agent {
            if !entry.lost && now < entry.leased_until + margin_ms {
                return Err(AgentError::NodeTaken(node.clone()));
            }
            if beat.leaving {
                return Ok(false);
            }
            self.lose(node);
            self.forget_endings(node);
            self.restart(node, beat);
        } else if entry.is_over(beat.boot) {
            if entry.left && beat.leaving && entry.boot == beat.boot {
                return Ok(false);
            }
            let known = entry.boot;
            return Err(AgentError::Superseded { node: node.clone(), given: beat.boot, known });
        } else if beat.boot > entry.boot {
            self.restart(node, beat);
        }
        Ok(true)
    }

    /// Another start speaks for the node. It may follow any state that lies in its data folder, so it is trusted
    /// only once it follows the revision drawn now.
    fn restart(&mut self, node: &NodeName, beat: &Heartbeat) {
        let revision = self.draw();
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.agent.clone_from(&beat.agent);
            entry.boot = beat.boot;
            entry.began_here = true;
            entry.forget_counts();
            // It may allow other programs, and find other devices.
            self.run_reports.forget_node(node);
            entry.start_over(revision);
            entry.change(node, &mut self.changed);
            self.touch(node);
        }
    }

    fn take_notes(&mut self, node: &NodeName, beat: Heartbeat, wall_us: i64) {
        let (latest, known) = (self.revision, self.registered.is_some());
        let Some(entry) = self.nodes.get_mut(node) else { return };
        entry.seen_us = wall_us;
        entry.delivery = beat.delivery;
        entry.clock_ahead_ms = beat.clock_ahead_ms;
        // A revision that this leader has not given out yet says nothing.
        entry.applied = if beat.applied <= latest { beat.applied } else { 0 };
        entry.stopping = beat.stopping;
        // Of a report that is the first to this leader, a former one may have counted all that it says.
        let counts = entry.has_all_statuses || entry.began_here;
        let mut before = BTreeMap::new();
        if beat.full {
            before = std::mem::take(&mut entry.statuses);
            entry.has_all_statuses = known;
        }
        for status in beat.statuses {
            if entry.concerns(&status.data_name) {
                let told = before.get(&status.data_name).or_else(|| entry.statuses.get(&status.data_name));
                if counts || told.is_some() {
                    self.run_counts.take(told, &status);
                }
                if entry.has_placed(&status) && self.run_reports.take(node, &status) {
                    self.dirty_names.insert(status.data_name.clone());
                    self.wanted = true;
                }
                entry.statuses.insert(status.data_name.clone(), status);
            }
        }
        let back = entry.lost && !beat.leaving;
        let relabelled = entry.labels.claim(&beat.labels);
        let other = back || entry.facts != beat.facts;
        entry.lost &= beat.leaving;
        entry.facts = beat.facts;
        if relabelled {
            self.rematch(node);
        } else if other {
            self.touch(node);
        }
        // A new leader cannot know whether its predecessor said that the node was back.
        if !beat.leaving && self.nodes.get(node).is_some_and(|entry| entry.marked != Some(false)) {
            self.to_mark.insert(node.clone());
        }
    }

    /// Removes ending instances that the agent reports as gone.
    fn confirm(&mut self, node: &NodeName) {
        let Some(entry) = self.nodes.get_mut(node).filter(|entry| !entry.ending.is_empty()) else { return };
        let (applied, stopping) = (entry.applied, &entry.stopping);
        let gone = |name: &DataName, ending: &DroppedInstance| {
            ending.revision <= applied && !stopping.contains(name)
        };
        let gone = entry.ending.iter().filter(|(name, ending)| gone(name, ending));
        for (name, ending) in gone.map(|(name, ending)| (name.clone(), *ending)).collect::<Vec<_>>() {
            entry.ending.remove(&name);
            // Should the agent ever follow an older state again, it gets no lease for that.
            entry.lease_from = entry.lease_from.max(ending.revision);
            forget(&mut self.endings, &name, node);
            if let Some(row) =
                self.placements.get_mut(&name, node).filter(|row| row.phase == PlacementPhase::Stored)
            {
                row.phase = PlacementPhase::Vacant;
                entry.placed.remove(&name);
            }
            self.dirty_names.insert(name);
            // Without a lease the same name may run here, and has waited.
            if ending.leased {
                self.dirty_nodes.insert(node.clone());
            }
            self.wanted = true;
        }
    }

    /// All of its slots have ended, says the agent itself.
    fn leave(&mut self, node: &NodeName) {
        self.lose(node);
        self.forget_endings(node);
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.left = true;
            entry.stopping.clear();
            entry.statuses.clear();
        }
    }

    fn forget_endings(&mut self, node: &NodeName) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        for name in std::mem::take(&mut entry.ending).into_keys() {
            forget(&mut self.endings, &name, node);
            // Others may have waited for it.
            self.dirty_names.insert(name);
        }
        self.wanted = true;
    }
}
