//! How the slots follow what they are told: versions come, are ended, and are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::assignment::AssignedRegistration;
use estimand_api::names::DataName;
use estimand_api::node::{Assignment, DesiredState, RunRequest};
use estimand_api::registration::RegistrationRecord;
use estimand_api::slot::{RunOutcome, RunReport, SlotActivity};
use tokio::time::{Instant, timeout_at};

use super::slot::{Slot, VersionRole};
use super::version::{EndMode, Shared, Version};
use super::{Slots, TaskResult, by_hand, plan};
use crate::link::SlotCommand;
use crate::timetable::Key;

/// How long the end of all slots may take.
const END_WITHIN: Duration = Duration::from_secs(8);
/// How soon a desired state is kept that means nothing new to the slots.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// The most runs by hand that wait in one slot.
const MAX_BY_HAND: usize = 8;

impl Slots {
    pub(super) fn command(&mut self, command: SlotCommand) {
        match command {
            SlotCommand::Follow(desired) => {
                self.heard = true;
                self.follow(desired);
            }
            SlotCommand::EndAll => {
                tracing::warn!(
                    "this node's name belongs to another agent: nothing runs here until it is gone"
                );
                self.follow(DesiredState::default());
                let names: Vec<DataName> = self.slots.keys().cloned().collect();
                names.iter().for_each(|name| self.end_slot(name, EndMode::Gently));
            }
            SlotCommand::Run(request) => self.asked(request),
        }
    }

    /// Follows the state that was desired when the agent last ran, until the manager sends another.
    pub fn resume(&mut self, desired: DesiredState) {
        self.kept = desired.revision;
        (self.desired, self.revision) = (desired.slots, desired.revision);
        self.apply();
    }

    fn follow(&mut self, desired: DesiredState) {
        let same = self.desired == desired.slots;
        self.revision = desired.revision;
        self.desired.clone_from(&desired.slots);
        if !same {
            self.apply();
        }
        self.to_keep = Some(desired);
        self.keep_at_once |= !same;
        self.keep();
    }

    /// Puts on disk what is desired, one state at a time and only the latest of those that came meanwhile, so
    /// that an older one never replaces a newer one there. One that differs from the last in nothing but its revision and
    /// the tasks of the node, which are kept elsewhere, is put there soon: tasks come and go a thousand times a second.
    pub(super) fn keep(&mut self) {
        let soon = self.kept_at.is_none_or(|at| at.elapsed() >= KEEP_EVERY);
        if self.keeping || !(self.keep_at_once || soon) {
            return;
        }
        let Some(desired) = self.to_keep.take() else { return };
        (self.keeping, self.keep_at_once) = (true, false);
        let (home, revision) = (Arc::clone(&self.context.home), desired.revision);
        self.work.spawn(async move {
            let keep = move || home.keep_desired(&desired);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(keep).await {
                // Confirmed all the same: a full disk must not keep what was deleted from being gone.
                tracing::warn!(%error, "what should run cannot be kept for a restart without the manager");
            }
            TaskResult::Kept { revision }
        });
    }

    /// Makes the slots what is desired. What is so already stays as it is.
    pub(super) fn apply(&mut self) {
        let mut desired: BTreeMap<DataName, Assignment> = BTreeMap::new();
        for assignment in &self.desired {
            match assignment.registration.data_name() {
                Some(name) => drop(desired.insert(name.clone(), assignment.clone())),
                None => {
                    tracing::error!("an assignment names no registration; it is ignored");
                }
            }
        }
        // A run by hand of what never belonged here has its time.
        let gone = self.slots.values().filter(|slot| !slot.is_by_hand_only());
        let gone = gone.map(Slot::name).filter(|name| !desired.contains_key(*name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.end_slot(&name, EndMode::Gently);
        }
        for (name, Assignment { epoch, leased, registration }) in desired {
            match registration {
                _ if leased && !self.leased => self.unlease(&name, registration.version()),
                AssignedRegistration::Supported(registered) => self.want(&name, registered, epoch, leased),
                AssignedRegistration::Unsupported(unsupported) => {
                    self.refuse_unsupported(&name, &unsupported, leased);
                }
            }
        }
        self.confirm();
    }

    fn want(&mut self, name: &DataName, registered: Arc<RegistrationRecord>, epoch: u64, leased: bool) {
        let number = registered.version;
        let slot = self.slots.entry(name.clone()).or_insert_with(|| Slot::new(name.clone()));
        slot.support();
        let known = |version: &&Version| version.number() == number && version.shared.leased == leased;
        if let Some(version) = slot.trial.as_ref().filter(known) {
            return version.shared.set_epoch(epoch);
        }
        let mut ended = slot.close(VersionRole::Trial, EndMode::Gently);
        if let Some(version) = slot.serving.as_ref().filter(known) {
            version.shared.set_epoch(epoch);
            slot.status.next = None;
        } else {
            // One that leaves a lease, or comes under one, is another one: both may not run.
            let other_lease = slot.serving.as_ref().is_some_and(|v| v.shared.leased != leased);
            let out = if other_lease { slot.close(VersionRole::Serving, EndMode::Gently) } else { None };
            let key = Key(self.next_key);
            self.next_key += 1;
            let plan = plan::plan(&registered.registration, &self.context.node);
            let shared = Arc::new(Shared::new(registered, epoch, leased, key.0));
            slot.trial =
                Some(Version { key, shared, running: false, failing: 0, breaks: 0, last_error: None });
            self.by_key.insert(key, name.clone());
            let now = self.now();
            self.timetable.put(key, plan, now);
            if let Some(out) = out {
                self.end_version(out);
            }
        }
        if let Some(key) = ended.take() {
            self.end_version(key);
        }
        self.post(name, false);
    }

    /// Without a lease nothing of it runs, and its status says why.
    fn unlease(&mut self, name: &DataName, version: u64) {
        if self.slots.get(name).is_some_and(|slot| slot.versions().next().is_some()) {
            self.end_slot(name, EndMode::AtOnce);
        }
        let slot = self.slots.entry(name.clone()).or_insert_with(|| Slot::new(name.clone()));
        slot.support();
        (slot.status.version, slot.status.doing) = (version, SlotActivity::Unleased);
        let status = slot.status.clone();
        self.board.post(&status);
    }

    fn end_slot(&mut self, name: &DataName, how: EndMode) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        slot.support();
        for (id, _) in std::mem::take(&mut slot.by_hand) {
            let _ = self.reports.try_send((id, RunOutcome::Refused("its slot ends".to_owned())));
        }
        let ended = [slot.close(VersionRole::Serving, how), slot.close(VersionRole::Trial, how)];
        if let Some(run) = &slot.by_hand_run {
            run.end(how);
        }
        // Versions that are ending gently already are hurried.
        for version in &slot.closing {
            version.shared.end(how);
        }
        for key in ended.into_iter().flatten() {
            self.end_version(key);
        }
        self.sweep(name);
    }

    /// A version has been told to end: it leaves the timetable, and when its process is gone, its place goes too.
    pub(super) fn end_version(&mut self, key: Key) {
        self.timetable.remove(key);
        let name = self.by_key.get(&key).cloned();
        let version = name.and_then(|name| self.slots.get_mut(&name)).and_then(|slot| slot.version_mut(key));
        if version.is_some_and(|version| !version.running) {
            self.close_cell(key);
        }
    }

    pub(super) fn close_cell(&mut self, key: Key) {
        let name = self.by_key.get(&key).cloned();
        let version = name.and_then(|name| self.slots.get_mut(&name)).and_then(|slot| slot.version_mut(key));
        let Some(shared) = version.map(|version| Arc::clone(&version.shared)) else { return };
        let context = Arc::clone(&self.context);
        self.work.spawn(async move {
            shared.close_cell(&context.launcher).await;
            TaskResult::Closed { key }
        });
    }

    /// A stream's supervisor has ended, because its version was told to.
    pub(super) fn over(&mut self, key: Key) {
        self.close_cell(key);
    }

    /// Nothing of a version is left.
    pub(super) fn closed(&mut self, key: Key) {
        let Some(name) = self.by_key.remove(&key) else { return };
        if let Some(slot) = self.slots.get_mut(&name) {
            slot.closing.retain(|version| version.key != key);
        }
        self.free(&name);
        self.sweep(&name);
        self.confirm();
    }

    /// Forgets a slot of which nothing is left and that is not desired.
    fn sweep(&mut self, name: &DataName) {
        let over = self.slots.get(name).is_some_and(Slot::is_over);
        let desired = |assignment: &Assignment| assignment.registration.data_name() == Some(name);
        if over && !self.desired.iter().any(desired) {
            self.slots.remove(name);
            self.board.remove(name);
        } else {
            self.post(name, false);
        }
    }

    /// Says up to where the desired state is followed, and what is not gone yet.
    pub(super) fn confirm(&mut self) {
        self.need_uploads();
        let stopping: BTreeSet<DataName> =
            self.slots.values().filter(|slot| slot.is_ending()).map(|slot| slot.name().clone()).collect();
        self.board.applied(self.kept.min(self.revision), stopping);
    }

    /// Names the files of what is desired, and of versions that go on beside it.
    fn need_uploads(&self) {
        let desired = self.desired.iter().filter_map(|assignment| assignment.registration.supported());
        let versions = self.slots.values().flat_map(|slot| slot.versions().chain(&slot.closing));
        let registered = desired.chain(versions.map(|version| &version.shared.registered));
        self.context.uploads.need(registered.filter_map(|one| one.registration.upload));
    }

    fn asked(&mut self, RunRequest { id, registration }: RunRequest) {
        let refuse = |reason| RunOutcome::Refused(reason);
        let registered = match by_hand::runnable(&registration) {
            Ok(registered) => Arc::clone(registered),
            Err(reason) => return drop(self.reports.try_send((id, refuse(reason)))),
        };
        let name = registered.registration.data_name.clone();
        let slot = self.slots.entry(name.clone()).or_insert_with(|| Slot::new(name.clone()));
        if slot.by_hand.len() >= MAX_BY_HAND {
            let reason = format!("{MAX_BY_HAND} runs by hand wait for this slot already");
            return drop(self.reports.try_send((id, refuse(reason))));
        }
        slot.by_hand.push_back((id, registered));
        if !slot.is_busy() {
            self.next_by_hand(&name);
        }
    }

    pub(super) fn next_by_hand(&mut self, name: &DataName) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        let Some((id, registered)) = slot.by_hand.pop_front() else { return };
        let (context, name) = (Arc::clone(&self.context), name.clone());
        let shared = Arc::new(Shared::new(registered, 0, false, self.next_key));
        slot.by_hand_run = Some(Arc::clone(&shared));
        self.next_key += 1;
        self.work.spawn(async move {
            let report = by_hand::run(context, shared).await;
            TaskResult::ByHand { name, id, report }
        });
    }

    pub(super) fn ran_by_hand(&mut self, name: &DataName, id: u64, report: RunReport) {
        let _ = self.reports.try_send((id, RunOutcome::Report(report)));
        if let Some(slot) = self.slots.get_mut(name) {
            slot.by_hand_run = None;
        }
        self.free(name);
        self.sweep(name);
        self.confirm();
    }

    /// Ends everything, and waits until it is gone.
    pub(super) async fn end_all(&mut self) {
        self.desired.clear();
        let names: Vec<DataName> = self.slots.keys().cloned().collect();
        for name in &names {
            self.end_slot(name, EndMode::Gently);
        }
        let end = Instant::now() + END_WITHIN;
        while self.slots.values().any(Slot::is_ending) {
            match timeout_at(end, self.work.join_next()).await {
                Ok(Some(done)) => self.joined(done),
                Ok(None) => break,
                Err(_) => {
                    tracing::error!("not all slots ended in time; the launcher ends what is left");
                    break;
                }
            }
        }
        self.work.abort_all();
    }
}
