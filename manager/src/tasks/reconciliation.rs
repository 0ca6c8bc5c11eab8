//! The one task that looks at the cluster, has the resulting changes stored, and wakes the agents that are
//! concerned.
//!
//! It looks when something has happened and when the last look said so. A step that was not stored, or whose
//! outcome is unknown, is given back to the cluster, whose next look makes up for it: its rows are written
//! again, and the store takes no later write before an earlier one has ended. When the leadership turns out
//! to be over, so is this task.

use std::sync::Arc;
use std::time::Duration;

use estimand_runtime::{Driver, Next, Rounds, Work};
use estimand_store::Error;
use tokio::time::{Instant, sleep};

use super::LeaderWork;
use crate::core::Step;
use crate::leadership::{EndReason, Leadership};
use crate::storage::rows_of;
use crate::uptime::{Millis, now};
use crate::{Peers, Shared};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After a look comes a rest as long as it held the lock, up to this: others need it as well.
const LONGEST_REST: Duration = Duration::from_millis(200);

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The task that keeps the leadership notices as well, unless a beat that is under way still succeeds; until
    /// then nothing is decided.
    #[error("the database has not confirmed the leadership in time")]
    Unconfirmed,
    #[error(transparent)]
    Store(#[from] Error),
}

pub struct Reconciliation {
    shared: Arc<Shared>,
    leadership: Arc<Leadership>,
}

impl LeaderWork for Reconciliation {
    const TASK: &'static str = "manager-reconciliation";
    const ACTIVITY: &'static str = "storing the cluster's changes";

    fn schedule(_: &Shared, driver: Driver) -> Driver {
        driver.pauses(FIRST_PAUSE, LONGEST_PAUSE)
    }

    fn new(shared: &Arc<Shared>, leadership: &Arc<Leadership>, _: &Peers) -> Self {
        Reconciliation { shared: Arc::clone(shared), leadership: Arc::clone(leadership) }
    }

    fn rounds(leadership: &Leadership) -> &Rounds {
        &leadership.looks
    }
}

impl Work for Reconciliation {
    type Error = LookError;

    async fn round(&mut self) -> Result<Next, LookError> {
        if !self.leadership.term().is_valid() {
            return Err(LookError::Unconfirmed);
        }
        let begun = Instant::now();
        let (step, knows_all) = self.look();
        let mut locked = begun.elapsed();
        let next_wake = step.next_wake;
        if !step.store.is_empty() {
            match self.store(&step).await {
                Ok(()) => {
                    let begun = Instant::now();
                    self.leadership.with(|state| state.cluster.committed(step));
                    locked += begun.elapsed();
                }
                Err(Error::Fenced { .. }) => {
                    self.leadership.term().end(EndReason::Fenced);
                    return Ok(Next::End);
                }
                Err(error) => {
                    self.leadership.state().cluster.failed(step);
                    return Err(error.into());
                }
            }
        }
        self.announce(knows_all);
        sleep(locked.min(LONGEST_REST)).await;
        Ok(next_wake.map_or(Next::Period, |at| Next::At(instant(at))))
    }
}

impl Reconciliation {
    /// Says too whether the registry was read before.
    fn look(&self) -> (Step, bool) {
        let wall_us = self.shared.clock.now_micros();
        self.shared.figures.looks.increment();
        let mut state = self.leadership.state();
        let step = state.cluster.reconcile(now(), wall_us);
        // Before anybody can see that they are lost.
        state.forget_tasks_of_lost();
        (step, state.registrations.is_some())
    }

    async fn store(&self, step: &Step) -> Result<(), Error> {
        let (term, rows, sent) = (self.leadership.term(), rows_of(&step.store), now());
        match self.shared.storage.commit(term.lead(), &rows).await {
            Ok(()) => {
                term.renewed(sent);
                self.shared.figures.commits.increment();
                Ok(())
            }
            Err(error) => {
                if !matches!(error, Error::Fenced { .. }) {
                    self.shared.figures.failed_commits.increment();
                }
                Err(error)
            }
        }
    }

    /// Wakes the requests that wait for these changes.
    fn announce(&self, knows_all: bool) {
        let has_update = self.leadership.with(|state| {
            let settles = knows_all && !state.settled;
            state.settled |= knows_all;
            let changed = state.cluster.changed_nodes();
            for node in &changed {
                state.ring(node);
            }
            let relabelled = state.cluster.take_relabelled();
            settles || relabelled || !changed.is_empty() || !state.cluster.marks().is_empty()
        });
        if has_update {
            self.leadership.updates.ask();
        }
        // A node that was lost confirms nothing any more.
        self.leadership.announce_heartbeat();
    }
}

fn instant(at: Millis) -> Instant {
    Instant::now() + Duration::from_millis(at.saturating_sub(now()))
}
