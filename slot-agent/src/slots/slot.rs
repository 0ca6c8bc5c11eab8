//! A slot: the version that serves, the one on trial, those that end, and the status that tells of all of them.
//!
//! A new version is on trial until it has had a good run; then the old one ends. So readers see no gap, and a
//! version that does not work harms nobody. Of the versions of an `exec` registration only one runs at a time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use estimand_api::assignment::UnsupportedRegistration;
use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::RegistrationRecord;
use estimand_api::slot::{NextVersion, QuarantinedValue, SlotActivity, Status, WITHOUT_VALUE_AFTER};

use super::exec::{Outcome, RunResult};
use super::version::{EndMode, Shared, Version};
use crate::timetable::{Key, State};

pub struct Slot {
    pub status: Status,
    pub serving: Option<Version>,
    pub trial: Option<Version>,
    /// Versions whose processes are not gone yet.
    pub closing: Vec<Version>,
    /// The nodes that it last gave values for: a failure marks those.
    pub nodes: BTreeSet<NodeName>,
    /// Runs that somebody waits for, and the one that goes on.
    pub by_hand: VecDeque<(u64, Arc<RegistrationRecord>)>,
    pub by_hand_run: Option<Arc<Shared>>,
    /// Versions that were due while something else had the slot.
    pub postponed: BTreeSet<Key>,
    /// The desired version, if this agent cannot read its registration.
    pub unsupported: Option<Arc<UnsupportedRegistration>>,
    /// Overruns that the timetable does not know of, or no more.
    pub overruns: u64,
    /// A remark about what a stream has written to standard error, until it is started again.
    pub stream_note: Option<String>,
    /// Why the data service did not take the last value, until the next run.
    pub refused: Option<String>,
}

impl Slot {
    pub fn new(name: DataName) -> Self {
        Slot {
            status: Status::new(name, 0),
            serving: None,
            trial: None,
            closing: Vec::new(),
            nodes: BTreeSet::new(),
            by_hand: VecDeque::new(),
            by_hand_run: None,
            postponed: BTreeSet::new(),
            unsupported: None,
            overruns: 0,
            stream_note: None,
            refused: None,
        }
    }

    pub fn name(&self) -> &DataName {
        &self.status.data_name
    }

    /// True if nothing is left of it.
    pub fn is_over(&self) -> bool {
        self.serving.is_none()
            && self.trial.is_none()
            && self.closing.is_empty()
            && self.by_hand.is_empty()
            && self.by_hand_run.is_none()
    }

    /// True if nothing is here but runs by hand of what does not belong on this node, or is not registered.
    pub fn is_by_hand_only(&self) -> bool {
        self.status.version == 0
            && self.unsupported.is_none()
            && self.versions().chain(&self.closing).next().is_none()
    }

    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.serving.iter().chain(&self.trial)
    }

    pub fn version_mut(&mut self, key: Key) -> Option<&mut Version> {
        self.serving.iter_mut().chain(&mut self.trial).chain(&mut self.closing).find(|v| v.key == key)
    }

    /// True if a run goes on that another one must wait for.
    pub fn is_busy(&self) -> bool {
        self.by_hand_run.is_some()
            || self.versions().chain(&self.closing).any(|version| version.running && !version.goes_on())
    }

    /// True if processes that were told to end may still be there.
    pub fn is_ending(&self) -> bool {
        !self.closing.is_empty() || self.by_hand_run.as_ref().is_some_and(|run| run.ends().is_requested())
    }

    /// A version is due, and something else has the slot. However long that takes, it runs once when it is over.
    pub fn postpone(&mut self, key: Key) {
        if !self.postponed.insert(key) {
            self.overruns += 1;
        }
    }

    /// Takes a version out to be ended.
    pub fn close(&mut self, which: VersionRole, how: EndMode) -> Option<Key> {
        let version = match which {
            VersionRole::Serving => {
                // The next one's timetable begins at nought.
                self.overruns = self.status.overruns;
                self.serving.take()
            }
            VersionRole::Trial => self.trial.take(),
        }?;
        version.shared.end(how);
        let key = version.key;
        self.postponed.remove(&key);
        self.closing.push(version);
        Some(key)
    }

    /// It goes on from now on; a stream, as a process that began just then.
    pub fn started(&mut self, process: Option<i64>) {
        self.status.doing = SlotActivity::Running;
        self.stream_note = None;
        if let Some(began) = process {
            self.status.last_start = instant(began);
            (self.status.last_duration_ms, self.status.last_exit) = (None, None);
        }
    }

    /// Takes note of a run that is over, or of a line of a stream. Whether the version on trial has proved itself.
    pub fn record(&mut self, key: Key, ended: &RunResult) -> bool {
        let on_trial = self.trial.as_ref().is_some_and(|version| version.key == key);
        let serves = self.serving.is_some();
        let Some(version) = self.version_mut(key) else { return false };
        let (good, reason) = (ended.outcome.is_good(), ended.outcome.reason().map(str::to_owned));
        version.failing = if good { 0 } else { version.failing + 1 };
        version.last_error.clone_from(&reason);
        let (number, failing) = (version.number(), version.failing);
        if on_trial && serves && !good {
            // The status goes on telling of the version that serves.
            self.status.next = Some(NextVersion { version: number, failures: failing, last_error: reason });
            return false;
        }
        if let Outcome::Good(nodes, _) = &ended.outcome
            && !nodes.is_empty()
        {
            self.nodes.clone_from(nodes);
        }
        let refused = self.refused.take();
        let status = &mut self.status;
        (status.version, status.failing) = match refused {
            Some(_) => (number, status.failing + 1),
            None => (number, failing),
        };
        status.runs += 1;
        status.failures += u64::from(!good);
        status.missing = matches!(ended.outcome, Outcome::Missing(_));
        status.timeouts += u64::from(matches!(ended.outcome, Outcome::TimedOut(_)));
        // A line says nothing of its process.
        if !ended.goes_on {
            status.last_start = instant(ended.started_at);
            status.last_duration_ms = Some((ended.ended_at - ended.started_at) as f64 / 1e3);
            status.last_exit.clone_from(&ended.exit);
        }
        status.last_cpu_ms = ended.cpu_ms;
        status.last_memory = ended.memory;
        status.last_error = reason.or(refused);
        let stream_note = self.stream_note.clone().filter(|_| ended.goes_on);
        status.note = ended.outcome.note().map(str::to_owned).or(stream_note);
        match &ended.outcome {
            Outcome::Silent(said) => {
                status.without_value += 1;
                let is_odd = status.last_good.is_none() || status.without_value >= WITHOUT_VALUE_AFTER;
                status.note = is_odd.then(|| said.clone());
            }
            _ => status.without_value = 0,
        }
        if let Outcome::Quarantined { reason, value } = &ended.outcome {
            status.quarantined += 1;
            status.last_quarantined = Some(QuarantinedValue {
                at: DateTime::from_timestamp_micros(ended.ended_at).unwrap_or_default(),
                reason: reason.clone(),
                value: value.clone(),
            });
        }
        // A slot that waits for its inputs has not had a good run yet.
        if matches!(&ended.outcome, Outcome::Good(nodes, note) if !nodes.is_empty() || note.is_none()) {
            status.last_good = instant(ended.ended_at);
        }
        if !ended.stderr.is_empty() {
            status.stderr_tail.clone_from(&ended.stderr);
        }
        on_trial && good
    }

    /// The version on trial serves from now on.
    pub fn promote(&mut self) {
        self.serving = self.trial.take();
        if let Some(version) = &self.serving {
            version.shared.set_quiet(false);
        }
        self.status.next = None;
    }

    /// Updates its state from its timetable and its versions.
    pub fn look(&mut self, doing: impl Fn(Key) -> Option<(State, u64)>, leased_out: bool) {
        let kept = matches!(self.status.doing, SlotActivity::Refused | SlotActivity::Unavailable);
        let Some(version) = self.serving.as_ref().or(self.trial.as_ref()) else {
            self.status.doing = match (self.unsupported.is_some(), leased_out, self.closing.is_empty()) {
                (true, _, true) => SlotActivity::Refused,
                (false, true, true) => SlotActivity::Unleased,
                _ => SlotActivity::Stopping,
            };
            return;
        };
        if self.status.version == 0 {
            self.status.version = version.number();
        }
        self.status.unenforced = version.shared.unenforced();
        let Some((state, overruns)) = doing(version.key) else { return };
        self.status.overruns = self.overruns + overruns;
        if version.goes_on() {
            return;
        }
        self.status.doing = match state {
            _ if version.running => SlotActivity::Running,
            State::Waiting { .. } => SlotActivity::Waiting,
            State::Idle { .. } | State::Running { .. } if kept => self.status.doing,
            State::Idle { .. } | State::Running { .. } => SlotActivity::Idle,
        };
    }
}

/// One of the two versions that a slot can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRole {
    Serving,
    Trial,
}

fn instant(micros: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_micros(micros)
}
