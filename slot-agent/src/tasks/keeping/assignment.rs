//! The assignment of the node: new attempts are accepted, others are marked for their end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use estimand_api::task::TaskAssignment;

use super::super::folder::{Accepted, AttemptFolder};
use super::super::lease::{LeaseLength, boot_id};
use super::super::promise_end::WindowEnd;
use super::super::{Assigned, Attempt, lock};
use super::Round;
use super::keeper::Keeper;

impl Round<'_> {
    /// Accepts new attempts, and marks those that are to end or are no longer here. Returns the names of the attempts that
    /// are to be looked at for that.
    pub(super) fn follow(&mut self, assigned: &Arc<Assigned>) -> Vec<String> {
        let mut changed = Vec::new();
        let mut tasks: BTreeMap<String, &TaskAssignment> =
            assigned.tasks.iter().map(|one| (format!("{}.{}", one.id, one.attempt), one)).collect();
        let mut is_whole = true;
        for attempt in self.tasks.attempts() {
            let name = attempt.folder.name();
            let told = match tasks.remove(&name) {
                None => self.take_away(&name, &attempt),
                Some(one) => tell(&attempt, one, assigned.at),
            };
            match told {
                Ok(false) => {}
                Ok(true) => changed.push(name),
                Err(error) => {
                    is_whole = false;
                    tracing::warn!(task = name, %error, "a task cannot be told to end");
                }
            }
        }
        tasks.retain(|name, _| !self.tasks.is_former(name));
        if let Err(error) = self.accept(tasks, assigned.at, &mut changed) {
            is_whole = false;
            tracing::warn!(%error, "not all tasks can be accepted yet");
        }
        self.state.followed = is_whole.then(|| Arc::clone(assigned));
        changed
    }

    /// It belongs here no more; true if there is something to do for that.
    fn take_away(&mut self, name: &str, attempt: &Attempt) -> io::Result<bool> {
        let keeper = self.state.keepers.get_mut(name).filter(|keeper| keeper.has_ended);
        match keeper {
            Some(keeper) => {
                keeper.is_gone = true;
                Ok(true)
            }
            None => attempt.tell_gone(),
        }
    }

    /// Makes folders for all of them, and brings these to the disk together. Those that are accepted are among `new`.
    fn accept(
        &mut self,
        tasks: BTreeMap<String, &TaskAssignment>,
        at: u64,
        new: &mut Vec<String>,
    ) -> io::Result<()> {
        let options = &self.tasks.options;
        let mut accepted = Vec::with_capacity(tasks.len());
        let mut failed = None;
        for (name, assignment) in tasks {
            match self.make_folder(assignment, at) {
                Ok(attempt) => accepted.push((name, attempt)),
                Err(error) => failed = Some(io::Error::new(error.kind(), format!("{name}: {error}"))),
            }
        }
        if !accepted.is_empty() {
            File::open(&options.folder)?.sync_all()?;
        }
        for (name, attempt) in accepted {
            // The inputs of one may end it.
            let is_new = !attempt.has_files();
            self.state.keepers.insert(name.clone(), Keeper { is_new, ..Keeper::new(None) });
            self.expect_leavings(&attempt);
            self.tasks.tell_soon(&name);
            let (awaits_inputs, has_port) = (attempt.awaits_inputs(), attempt.has_port());
            lock(&self.tasks.attempts).insert(name.clone(), attempt);
            // Not before it can be found there.
            if awaits_inputs {
                self.tasks.carrying.ask();
            }
            if has_port {
                self.tasks.tunneling.ask();
            }
            new.push(name);
        }
        failed.map_or(Ok(()), Err)
    }

    fn make_folder(&self, assignment: &TaskAssignment, at: u64) -> io::Result<Arc<Attempt>> {
        let options = &self.tasks.options;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let id = &assignment.id;
        if id.is_empty() || id.starts_with('.') || id.len() > 64 || !id.bytes().all(is_name) {
            return Err(io::Error::other(format!("`{id}` is no id of a task")));
        }
        let folder = AttemptFolder::new(&options.folder, id, assignment.attempt);
        // Before it is accepted, so that an agent that is started anew finds the lease as it is.
        if let Some(length) = LeaseLength::of(assignment) {
            self.tasks.leases.of(length).publish()?;
        }
        let accepted =
            Accepted { assignment: assignment.clone(), at: self.tasks.now_micros(), boot: boot_id() };
        let end = assignment.end.as_ref().map(|end| WindowEnd::new(end, at));
        options.runners.prepare(assignment.user.as_deref())?;
        let runner = options.runner(assignment);
        let identity = runner.as_ref().ok().and_then(Option::as_ref).map(|runner| &runner.identity);
        folder.accept(&accepted, end.as_ref(), identity)?;
        let attempt = Attempt::new(folder, accepted, end).run_by(runner);
        if let Some(order) = assignment.stop_order() {
            attempt.tell_to_stop(order)?;
        }
        Ok(Arc::new(attempt))
    }
}

/// Tells an attempt the end of its promise, which may have moved, and to end now if it is to; true if there is something to do
/// for that.
fn tell(attempt: &Attempt, assignment: &TaskAssignment, at: u64) -> io::Result<bool> {
    if let Some(end) = &assignment.end {
        attempt.end_at(WindowEnd::new(end, at))?;
    }
    assignment.stop_order().map_or(Ok(false), |order| attempt.tell_to_stop(order))
}
