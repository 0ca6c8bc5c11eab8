//! A small, faithful agent: its desired state lies on its disk, leased slots run only under a lease that
//! counts from when the answered heartbeat was sent, processes take time to end, and a restart is a new boot.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Heartbeat, HeartbeatAnswer};
use estimand_api::slot::{SlotActivity, Status};

use crate::core::{AgentError, Millis};

#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub name: DataName,
    pub version: u64,
    pub epoch: u64,
    pub leased: bool,
}

#[derive(Debug, Clone, Default)]
pub struct DesiredState {
    pub revision: u64,
    pub slots: Vec<Assignment>,
}

#[derive(Debug, Clone)]
pub struct Process {
    pub leased: bool,
    pub epoch: u64,
    pub ends_at: Option<Millis>,
}

pub struct Agent {
    pub id: String,
    pub node: NodeName,
    pub labels: BTreeMap<String, String>,
    pub boot: u64,
    /// When it is up again, if it is down; `Millis::MAX` for never.
    pub down_until: Option<Millis>,
    pub disk: DesiredState,
    applying: Option<(Millis, DesiredState)>,
    /// It ended everything when it was told that another agent is the node, and asks anew.
    pub emptied: bool,
    pub applied: u64,
    pub running: BTreeMap<(DataName, u64), Process>,
    pub lease_until: Millis,
    pub next_beat: Millis,
    pub next_poll: Millis,
    resend: bool,
    pub cut_out: bool,
    pub cut_in: bool,
    pub apply_ms: Millis,
    pub stop_ms: Millis,
    /// It keeps the slots of these names, and reports that it does not run them.
    pub refuses: BTreeSet<DataName>,
}

impl Agent {
    pub fn new(id: String, node: NodeName, labels: BTreeMap<String, String>, now: Millis) -> Self {
        Agent {
            id,
            node,
            labels,
            boot: 1,
            down_until: None,
            disk: DesiredState::default(),
            applying: None,
            emptied: false,
            applied: 0,
            running: BTreeMap::new(),
            lease_until: 0,
            next_beat: now,
            next_poll: now,
            resend: true,
            cut_out: false,
            cut_in: false,
            apply_ms: 10,
            stop_ms: 30,
            refuses: BTreeSet::new(),
        }
    }

    pub fn is_up(&self) -> bool {
        self.down_until.is_none()
    }

    /// Every process dies with it.
    pub fn kill(&mut self, until: Millis) {
        self.down_until = Some(until);
        self.running.clear();
        self.applying = None;
        self.lease_until = 0;
    }

    pub fn tick(&mut self, now: Millis) {
        if self.down_until.is_some_and(|until| until <= now) {
            self.down_until = None;
            self.boot += 1;
            self.resend = true;
            (self.next_beat, self.next_poll) = (now, now);
            self.applied = self.disk.revision;
        }
        if !self.is_up() {
            return;
        }
        if let Some((_, desired)) = self.applying.take_if(|(at, _)| *at <= now) {
            self.applied = desired.revision;
            self.disk = desired;
            self.emptied = false;
            self.next_beat = now;
        }
        let (unleased, stop_ms) = (self.lease_until <= now, self.stop_ms);
        let mut wanted = BTreeMap::new();
        for told in self.disk.slots.iter().filter(|told| !(told.leased && unleased)) {
            wanted.insert((told.name.clone(), told.version), told.clone());
        }
        for (key, process) in &mut self.running {
            match wanted.remove(key) {
                Some(told) if process.ends_at.is_none() => {
                    (process.leased, process.epoch) = (told.leased, told.epoch);
                }
                // The old one has to be gone before the same may be started again.
                _ => _ = process.ends_at.get_or_insert(now + stop_ms),
            }
        }
        // By the end of the lease every process that ran by it is gone.
        self.running
            .retain(|_, process| process.ends_at.is_none_or(|at| at > now) && !(process.leased && unleased));
        for (key, told) in wanted {
            let process = Process { leased: told.leased, epoch: told.epoch, ends_at: None };
            self.running.entry(key).or_insert(process);
        }
    }

    /// Takes a desired state, unless it is older than the one that it follows.
    pub fn told(&mut self, desired: DesiredState, now: Millis) {
        let latest = self.applying.as_ref().map_or(self.applied, |(_, desired)| desired.revision);
        if desired.revision > latest || (self.emptied && desired.revision == latest) {
            let at = self.applying.as_ref().map_or(now + self.apply_ms, |(at, _)| *at);
            self.applying = Some((at, desired));
        }
    }

    pub fn beat(&self, leaving: bool) -> Heartbeat {
        let in_desired = |name: &DataName| self.disk.slots.iter().any(|told| told.name == *name);
        let stopping = self.running.keys().map(|(name, _)| name.clone()).filter(|name| !in_desired(name));
        let statuses = self.running.keys().map(|(name, version)| {
            let doing = if self.refuses.contains(name) { SlotActivity::Refused } else { SlotActivity::Idle };
            Status { doing, runs: 1, ..Status::new(name.clone(), *version) }
        });
        Heartbeat {
            agent: self.id.clone(),
            boot: self.boot,
            labels: self.labels.clone(),
            applied: self.applied,
            stopping: if leaving { Vec::new() } else { stopping.collect() },
            full: self.resend,
            statuses: if leaving { Vec::new() } else { statuses.collect() },
            leaving,
            ..Heartbeat::default()
        }
    }

    pub fn answered(&mut self, answer: &HeartbeatAnswer, sent: Millis) {
        self.lease_until = self.lease_until.max(sent + answer.lease_ms);
        self.next_beat = self.next_beat.min(sent + answer.interval_ms);
        self.resend = answer.resend;
    }

    pub fn refused(&mut self, refused: &AgentError, now: Millis) {
        match refused {
            AgentError::UnknownNode(_) => self.next_beat = now,
            AgentError::Superseded { .. } => self.kill(Millis::MAX),
            AgentError::NodeTaken(_) => {
                self.lease_until = 0;
                self.disk.slots.clear();
                (self.emptied, self.applying) = (true, None);
            }
        }
    }
}
