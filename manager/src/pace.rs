//! The one task that looks at the cluster, has stored what that wants stored, and wakes whom it concerns.
//!
//! It looks when something has happened and when the last look said so. A step that was not stored, or of which
//! nobody knows, is given back to the cluster, whose next look makes up for it: its rows are written again,
//! and the store takes no later write before an earlier one has ended. When the lead turns out to be over,
//! so is this.

use std::time::Duration;

use estimand_runtime::Stop;
use estimand_store::Error;
use tokio::time::{Instant, sleep};

use crate::Shared;
use crate::cluster::Step;
use crate::reign::Reign;
use crate::shelf::rows_of;
use crate::term::End;
use crate::ticks::{Millis, now, sleep_until};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After a look comes a rest as long as the look took, up to this: others need the lock as well.
const LONGEST_REST: Duration = Duration::from_millis(200);

/// What became of a step.
#[derive(Debug, PartialEq, Eq)]
enum Stored {
    Whole,
    /// Nothing of it, or nobody knows.
    NotForCertain,
    /// The lead is over.
    Over,
}

/// Looks as long as the reign lasts.
pub async fn follow(shared: &Shared, reign: &Reign, stop: &Stop) {
    let mut pacer = Pacer { shared, reign, pause: FIRST_PAUSE, failing: false };
    loop {
        let (begun, started) = (reign.looks.begin(), Instant::now());
        let looked = tokio::select! {
            looked = pacer.look() => looked,
            () = stop.requested() => return,
        };
        let next_wake = match looked {
            Looked::Over => return,
            Looked::Done(next_wake) => {
                reign.looks.end(begun);
                pacer.pause = FIRST_PAUSE;
                sleep(started.elapsed().min(LONGEST_REST)).await;
                next_wake
            }
            Looked::Failed => {
                sleep(pacer.next_pause()).await;
                continue;
            }
        };
        tokio::select! {
            () = reign.looks.asked_since(begun) => {}
            () = until(next_wake) => {}
            _ = reign.term().ended() => return,
            () = stop.requested() => return,
        }
    }
}

async fn until(wake: Option<Millis>) {
    match wake {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

enum Looked {
    Done(Option<Millis>),
    Failed,
    Over,
}

struct Pacer<'a> {
    shared: &'a Shared,
    reign: &'a Reign,
    pause: Duration,
    failing: bool,
}

impl Pacer<'_> {
    async fn look(&mut self) -> Looked {
        if !self.reign.term().is_valid() {
            // The task that keeps the lead notices as well, unless a beat that is under way still succeeds; until
            // then nothing is decided.
            return tokio::select! {
                _ = self.reign.term().ended() => Looked::Over,
                () = sleep(FIRST_PAUSE) => Looked::Failed,
            };
        }
        let wall_us = self.shared.clock.now_micros();
        let (step, knows_all) =
            self.reign.with(|held| (held.cluster.reconcile(now(), wall_us), held.book.is_some()));
        self.shared.figures.looks.increment();
        let next_wake = step.next_wake;
        if !step.store.is_empty() {
            match self.store(&step).await {
                Stored::Whole => self.reign.with(|held| held.cluster.committed(step)),
                Stored::NotForCertain => {
                    self.reign.with(|held| held.cluster.failed(step));
                    return Looked::Failed;
                }
                Stored::Over => return Looked::Over,
            }
        }
        let to_tell = self.reign.with(|held| {
            let settles = knows_all && !held.settled;
            held.settled |= knows_all;
            let changed = held.cluster.changed_nodes();
            for node in &changed {
                held.ring(node);
            }
            settles || !changed.is_empty() || !held.cluster.marks().is_empty()
        });
        if to_tell {
            self.reign.upkeep.ask();
        }
        // A node that was lost confirms nothing any more.
        self.reign.hear();
        Looked::Done(next_wake)
    }

    async fn store(&mut self, step: &Step) -> Stored {
        let (term, rows, sent) = (self.reign.term(), rows_of(&step.store), now());
        let result = tokio::select! {
            result = self.shared.shelf.commit(term.lead(), &rows) => result,
            _ = term.ended() => return Stored::Over,
        };
        match result {
            Ok(()) => {
                term.renewed(sent);
                self.shared.figures.commits.increment();
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the cluster's changes are stored again");
                }
                Stored::Whole
            }
            Err(Error::Fenced { .. }) => {
                term.end(End::Fenced);
                Stored::Over
            }
            Err(error) => {
                self.shared.figures.failed_commits.increment();
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "the cluster's changes are not stored; trying on");
                }
                Stored::NotForCertain
            }
        }
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        pause
    }
}
