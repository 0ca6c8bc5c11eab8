//! Who is waited for, and for how long.
//!
//! A worker that says nothing for long is looked at once more, and is lost if there is nothing new. A plane that does
//! not answer makes nobody lost, since then nothing is known of anyone. A worker that does not come is asked for now
//! and then, because its agent may know why.

use super::{Driver, Member};
use crate::dispatch::Dispatch;
use crate::run::{Error, Now, Standing};

/// Why a worker does not come is known before patience ends: so often is asked.
const ASK_EVERY: f64 = 2.0;
/// Nothing is waited for longer than this without looking around.
const FOREVER: f64 = 3600.0;

impl<D: Dispatch, F: FnMut(&Now)> Driver<'_, D, F> {
    /// When somebody's patience ends.
    pub(super) fn next_deadline(&self) -> f64 {
        let now = self.dispatch.now();
        let each = self.members.iter().filter_map(|member| self.next_look(member));
        let write = Some(self.write_at).filter(|at| *at > now);
        let nobody = Some(self.idle_since + self.options.last_patience).filter(|_| !self.is_anybody_left());
        each.chain(write).chain(nobody).fold(now + FOREVER, f64::min)
    }

    fn deadline(&self, member: &Member) -> Option<f64> {
        match member.standing {
            Standing::Lost => None,
            Standing::Starting => Some(self.started_at.max(member.quiet_since) + self.options.start_patience),
            Standing::Ready | Standing::Working => Some(member.quiet_since + self.options.silence),
        }
    }

    /// When it is to be looked at, whether or not anything happens.
    fn next_look(&self, member: &Member) -> Option<f64> {
        let deadline = self.deadline(member)?;
        Some(match member.standing {
            Standing::Starting => deadline.min(member.looked_at + ASK_EVERY),
            _ => deadline,
        })
    }

    /// Somebody is to be looked at. Who has nothing to say for itself when patience has ended is given up.
    pub(super) async fn pass(&mut self) -> Result<(), Error> {
        let now = self.dispatch.now();
        let is_over = |deadline: Option<f64>| deadline.is_some_and(|deadline| deadline <= now);
        for number in 0..self.members.len() {
            if !is_over(self.next_look(&self.members[number])) {
                continue;
            }
            self.members[number].looked_at = now;
            let name = self.lanes[number].name.clone();
            match self.dispatch.look(&name).await {
                Ok(seen) => {
                    if let Some(event) = seen {
                        self.happen(event);
                    }
                    if is_over(self.deadline(&self.members[number])) {
                        let quiet = now - self.members[number].quiet_since;
                        self.lose(number, &format!("it said nothing for {quiet:.0} s"));
                    }
                }
                // Nothing is known of anybody. They get their time again when something is.
                Err(_) => self.members[number].quiet_since = now,
            }
        }
        if self.is_anybody_left() {
            self.idle_since = self.dispatch.now();
        }
        let idle = self.dispatch.now() - self.idle_since;
        if idle >= self.options.last_patience {
            let done = self.policy.merged().iter().flatten().count();
            let left = self.planned.problem.total() as usize - done;
            return Err(Error::NobodyLeft { seconds: idle, left, last: self.last_trouble.clone() });
        }
        Ok(())
    }

    fn is_anybody_left(&self) -> bool {
        self.members.iter().any(|member| member.standing != Standing::Lost)
    }
}
