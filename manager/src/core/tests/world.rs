//! The world around the real cluster: a store with a fence, a registry, agents, and a network that delays,
//! loses and repeats.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Heartbeat, HeartbeatAnswer};
use estimand_api::registration::RegistrationRecord;

use super::agent::{Agent, Assignment, DesiredState};
use crate::core::{AgentError, Cluster, ClusterChanges, Millis, Settings, Step, StoredNode, StoredPlacement};

pub const TICK: Millis = 10;

pub fn settings() -> Settings {
    Settings { min_heartbeat_ms: 200, heartbeats_per_second: 25, missed: 3, margin_ms: 200, takeover_ms: 400 }
}

/// Chance, the same in each run of a case.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

#[derive(Default)]
pub struct Store {
    pub epoch: u64,
    pub nodes: BTreeMap<NodeName, StoredNode>,
    pub placements: BTreeMap<(DataName, NodeName), StoredPlacement>,
}

impl Store {
    fn apply(&mut self, changes: &ClusterChanges) {
        for node in &changes.delete_nodes {
            self.nodes.remove(node);
            self.placements.retain(|(_, on), _| on != node);
        }
        for key in &changes.delete_placements {
            self.placements.remove(key);
        }
        for node in &changes.put_nodes {
            self.nodes.insert(node.node_name.clone(), node.clone());
        }
        for put in &changes.put_placements {
            self.placements.insert((put.data_name.clone(), put.node_name.clone()), put.clone());
        }
    }
}

/// A write on its way: when it takes effect, if it does, and when the manager hears of it, with the outcome.
struct Writing {
    step: Step,
    /// Its placements, with the version that the manager knew when it decided so.
    places: Vec<(StoredPlacement, u64)>,
    takes_effect: Option<Millis>,
    heard: Millis,
    well: bool,
}

pub struct Manager {
    pub cluster: Cluster,
    epoch: u64,
    writing: Option<Writing>,
    next_wake: Millis,
    pause_until: Millis,
    pub reads_at: Millis,
    /// When it stops to answer, if another manager leads.
    until: Millis,
}

enum Message {
    Beat { from: usize, sent: Millis, beat: Box<Heartbeat> },
    Answer { to: usize, boot: u64, sent: Millis, answer: Result<HeartbeatAnswer, AgentError> },
    Poll { from: usize, boot: u64, revision: u64 },
    Desired { to: usize, boot: u64, desired: DesiredState },
}

pub struct World {
    pub now: Millis,
    pub chance: Chance,
    pub calm: bool,
    pub store: Store,
    pub store_fails_until: Millis,
    pub registry: BTreeMap<DataName, Arc<RegistrationRecord>>,
    pub leader: Option<Manager>,
    pub leads_at: Millis,
    pub old: Vec<Manager>,
    pub agents: Vec<Agent>,
    messages: Vec<(Millis, Message)>,
    /// Every placement that was stored, in the order of their storing, and for which version.
    pub placed: Vec<(StoredPlacement, u64)>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        World {
            now: 0,
            chance: Chance(seed),
            calm: false,
            store: Store::default(),
            store_fails_until: 0,
            registry: BTreeMap::new(),
            leader: None,
            leads_at: 0,
            old: Vec::new(),
            agents: Vec::new(),
            messages: Vec::new(),
            placed: Vec::new(),
        }
    }

    /// A later leader. The one before, if it is not dead, does not know yet.
    pub fn take_over(&mut self) {
        if let Some(mut paused) = self.leader.take() {
            paused.until = self.now + settings().takeover_ms;
            self.old.push(paused);
        }
        self.store.epoch += 1;
        let (nodes, placements) = (&self.store.nodes, &self.store.placements);
        let (nodes, placements) = (nodes.values().cloned().collect(), placements.values().cloned().collect());
        self.leader = Some(Manager {
            cluster: Cluster::new(settings(), self.store.epoch, nodes, placements, self.now),
            epoch: self.store.epoch,
            writing: None,
            next_wake: 0,
            pause_until: 0,
            reads_at: self.now + self.chance.below(300),
            until: Millis::MAX,
        });
    }

    pub fn tick(&mut self) {
        self.now += TICK;
        if self.leader.is_none() && self.leads_at <= self.now {
            self.take_over();
        }
        self.old.retain(|old| old.until > self.now);
        self.deliver();
        let mut old = std::mem::take(&mut self.old);
        for manager in &mut old {
            self.manage(manager);
        }
        self.old = old;
        if let Some(mut leader) = self.leader.take() {
            self.manage(&mut leader);
            self.leader = Some(leader);
        }
        for index in 0..self.agents.len() {
            self.agents[index].tick(self.now);
            self.speak(index);
        }
    }

    fn manage(&mut self, manager: &mut Manager) {
        let now = self.now;
        if manager.reads_at <= now {
            manager.reads_at = now + 200 + self.chance.below(200);
            manager.cluster.set_registrations(self.registry.values().cloned().collect());
        }
        self.go_on_writing(manager);
        for _ in 0..10 {
            let due = manager.cluster.wants_reconcile() || manager.next_wake <= now;
            if !due || manager.pause_until > now {
                return;
            }
            let step = manager.cluster.reconcile(now, now as i64 * 1000);
            manager.next_wake = step.next_wake.unwrap_or(Millis::MAX);
            if !step.store.is_empty() {
                self.write(manager, step);
            }
        }
        assert!(!manager.cluster.wants_reconcile(), "it wants to reconcile for ever");
    }

    fn write(&mut self, manager: &mut Manager, step: Step) {
        assert!(manager.writing.is_none(), "one write at a time");
        let fails = self.store_fails_until > self.now;
        let takes_effect = self.now + self.chance.below(4) * TICK;
        let heard = takes_effect + self.chance.below(4) * TICK;
        // A failed write may have been taken all the same.
        let taken = !fails || self.chance.below(2) == 0;
        let takes_effect = taken.then_some(takes_effect);
        let version = |put: &StoredPlacement| Some(manager.cluster.registered(&put.data_name)?.version);
        let places = step.store.put_placements.iter().filter_map(|put| Some((put.clone(), version(put)?)));
        let places = places.collect();
        manager.writing = Some(Writing { step, places, takes_effect, heard, well: !fails });
    }

    fn go_on_writing(&mut self, manager: &mut Manager) {
        let Some(writing) = &mut manager.writing else { return };
        if writing.takes_effect.is_some_and(|at| at <= self.now) {
            writing.takes_effect = None;
            if manager.epoch == self.store.epoch {
                self.store.apply(&writing.step.store);
                self.placed.append(&mut writing.places);
            } else {
                writing.well = false;
            }
        }
        if let Some(writing) = manager.writing.take_if(|writing| writing.heard <= self.now) {
            if writing.well {
                manager.cluster.committed(writing.step);
            } else {
                manager.cluster.failed(writing.step);
                manager.pause_until = self.now + 50;
            }
        }
    }

    fn speak(&mut self, index: usize) {
        let (now, jitter) = (self.now, self.chance.below(5) * TICK);
        let agent = &mut self.agents[index];
        if !agent.is_up() {
            return;
        }
        if agent.next_beat <= now {
            // Unless an answer asks for another one sooner.
            agent.next_beat = now + 150 + jitter;
            let beat = Box::new(agent.beat(false));
            self.send(index, true, Message::Beat { from: index, sent: now, beat });
        }
        let agent = &mut self.agents[index];
        if agent.next_poll <= now {
            agent.next_poll = now + 50 + jitter;
            let revision = if agent.emptied { 0 } else { agent.applied };
            let poll = Message::Poll { from: index, boot: agent.boot, revision };
            self.send(index, true, poll);
        }
    }

    /// All its slots have ended, and it says so as often as it takes to be sure that one word arrives.
    pub fn leave(&mut self, index: usize, until: Millis) {
        let beat = Box::new(self.agents[index].beat(true));
        self.agents[index].kill(until);
        self.send(index, true, Message::Beat { from: index, sent: self.now, beat });
    }

    fn send(&mut self, agent: usize, out: bool, message: Message) {
        let cut = if out { self.agents[agent].cut_out } else { self.agents[agent].cut_in };
        if cut || (!self.calm && self.chance.below(20) == 0) {
            return;
        }
        let slow = !self.calm && self.chance.below(15) == 0;
        let delay = self.chance.below(if slow { 200 } else { 4 }) * TICK;
        if let (Message::Beat { from, sent, beat }, 0) = (&message, self.chance.below(15)) {
            let again = Message::Beat { from: *from, sent: *sent, beat: beat.clone() };
            let delay = self.chance.below(if self.calm { 10 } else { 150 }) * TICK;
            self.messages.push((self.now + delay, again));
        }
        self.messages.push((self.now + delay, message));
    }

    fn deliver(&mut self) {
        let now = self.now;
        let due: Vec<_> = self.messages.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, message) in due {
            match message {
                Message::Beat { from, sent, beat } => {
                    let (boot, node) = (beat.boot, self.agents[from].node.clone());
                    let Some(manager) = self.somebody() else { continue };
                    let answer = manager.cluster.heartbeat(&node, *beat, now as i64 * 1000, now);
                    self.send(from, false, Message::Answer { to: from, boot, sent, answer });
                }
                Message::Poll { from, boot, revision } => self.poll(from, boot, revision),
                Message::Answer { to, boot, sent, answer } => {
                    let agent = &mut self.agents[to];
                    match answer {
                        _ if !agent.is_up() || agent.boot != boot => {}
                        Ok(answer) => agent.answered(&answer, sent),
                        Err(refused) => agent.refused(&refused, now),
                    }
                }
                Message::Desired { to, boot, desired } => {
                    let agent = &mut self.agents[to];
                    if agent.is_up() && agent.boot == boot {
                        agent.told(desired, now);
                    }
                }
            }
        }
    }

    fn poll(&mut self, from: usize, boot: u64, revision: u64) {
        let (now, node, id) = (self.now, self.agents[from].node.clone(), self.agents[from].id.clone());
        let Some(manager) = self.somebody() else { return };
        let reply = match manager.cluster.knows_agent(&node, &id, boot) {
            Err(refused) => Message::Answer { to: from, boot, sent: now, answer: Err(refused) },
            Ok(()) => {
                let Some((latest, slots)) = manager.cluster.desired(&node) else { return };
                if latest == revision {
                    return;
                }
                let slots = slots.iter().map(|slot| Assignment {
                    name: slot.registered.registration.data_name.clone(),
                    version: slot.registered.version,
                    epoch: slot.epoch,
                    leased: slot.leased,
                });
                let desired = DesiredState { revision: latest, slots: slots.collect() };
                Message::Desired { to: from, boot, desired }
            }
        };
        self.send(from, false, reply);
    }

    /// Whichever manager a request reaches.
    fn somebody(&mut self) -> Option<&mut Manager> {
        if !self.old.is_empty() && self.chance.below(2) == 0 {
            return self.old.last_mut();
        }
        self.leader.as_mut()
    }
}
