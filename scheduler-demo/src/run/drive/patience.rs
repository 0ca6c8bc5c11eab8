//! Timeouts of workers and of the plane.
//!
//! A silent worker is looked up once more, and is lost if there is nothing new. While the plane does not answer no
//! worker becomes lost, since nothing is known of any. A worker that does not start is looked up now and then, because
//! its agent may know the reason.

use super::{Driver, Member};
use crate::dispatch::Dispatcher;
use crate::run::{Error, RunProgress, WorkerState};

/// Period in which a worker that does not start is looked up.
const ASK_EVERY: f64 = 2.0;
/// The longest wait for an event.
const FOREVER: f64 = 3600.0;

impl<D: Dispatcher, F: FnMut(&RunProgress)> Driver<'_, D, F> {
    /// The next time at which a timeout ends.
    pub(super) fn next_deadline(&self) -> f64 {
        let now = self.dispatch.now();
        let each = self.members.iter().filter_map(|member| self.next_look(member));
        let write = Some(self.write_at).filter(|at| *at > now);
        let nobody = Some(self.idle_since + self.options.last_patience).filter(|_| !self.is_anybody_left());
        each.chain(write).chain(nobody).fold(now + FOREVER, f64::min)
    }

    fn deadline(&self, member: &Member) -> Option<f64> {
        match member.state {
            WorkerState::Lost => None,
            WorkerState::Starting => {
                Some(self.started_at.max(member.quiet_since) + self.options.start_patience)
            }
            WorkerState::Ready | WorkerState::Working => Some(member.quiet_since + self.options.silence),
        }
    }

    /// The time at which the worker is looked up if no event comes.
    fn next_look(&self, member: &Member) -> Option<f64> {
        let deadline = self.deadline(member)?;
        Some(match member.state {
            WorkerState::Starting => deadline.min(member.looked_at + ASK_EVERY),
            _ => deadline,
        })
    }

    /// Looks up every worker that is due. A worker without news at its deadline is lost.
    pub(super) async fn pass(&mut self) -> Result<(), Error> {
        let now = self.dispatch.now();
        let is_over = |deadline: Option<f64>| deadline.is_some_and(|deadline| deadline <= now);
        for number in 0..self.members.len() {
            if !is_over(self.next_look(&self.members[number])) {
                continue;
            }
            self.members[number].looked_at = now;
            let name = self.records[number].name.clone();
            match self.dispatch.look(&name).await {
                Ok(seen) => {
                    if let Some(event) = seen {
                        self.handle(event);
                    }
                    if is_over(self.deadline(&self.members[number])) {
                        let quiet = now - self.members[number].quiet_since;
                        self.lose(number, &format!("its worker was silent for {quiet:.0} s"));
                    }
                }
                // The plane does not answer. The worker gets its time again.
                Err(_) => self.members[number].quiet_since = now,
            }
        }
        if self.is_anybody_left() {
            self.idle_since = self.dispatch.now();
        }
        let idle = self.dispatch.now() - self.idle_since;
        if idle >= self.options.last_patience {
            let done = self.policy.merged().iter().flatten().count();
            let left = self.job_plan.problem.total() as usize - done;
            return Err(Error::NoWorkers { seconds: idle, left, last: self.last_trouble.clone() });
        }
        Ok(())
    }

    fn is_anybody_left(&self) -> bool {
        self.members.iter().any(|member| member.state != WorkerState::Lost)
    }
}
