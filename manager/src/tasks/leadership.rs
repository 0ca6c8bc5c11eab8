//! Standing by and leading in turns: a leadership is made for each term, and ends with it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use estimand_runtime::Stop;
use tokio::time::timeout;

use super::Candidate;
use super::stops::Stops;
use crate::core::Cluster;
use crate::leadership::{EndReason, Leadership, LeadershipTerm};
use crate::{Peers, Shared, uptime};

/// How long a new leader may take to read the stored state.
const LOAD_WITHIN: Duration = Duration::from_secs(30);

impl Shared {
    /// The task that stands by and leads in turns.
    pub(super) async fn stand_by_and_lead(&self, candidate: &mut Candidate, stop: Stop) {
        let stops = Stops { server: self.stop.clone(), task: stop };
        let peers = tokio::select! {
            peers = self.peers.wait() => peers,
            () = stops.requested() => return,
        };
        candidate.set_address(&peers.address);
        let set_leader = |address: &str| {
            address.clone_into(&mut self.leader.lock().unwrap_or_else(PoisonError::into_inner));
        };
        while let Some(term) = candidate.stand_by(&stops, &set_leader).await {
            tracing::info!(epoch = term.epoch(), "this manager leads");
            self.figures.leads.increment();
            let term = Arc::new(term);
            let _ends_with_this = EndAtDrop(Arc::clone(&term));
            let (end, ()) = tokio::join!(candidate.keep(&term, &stops), self.lead(&term));
            candidate.leave(&term, end).await;
        }
    }

    /// Makes the leadership of a term, as long as that lasts.
    async fn lead(&self, term: &Arc<LeadershipTerm>) {
        let load = tokio::select! {
            load = timeout(LOAD_WITHIN, self.storage.load()) => load,
            _ = term.ended() => return,
        };
        let (nodes, placements) = match load {
            Ok(Ok(stored)) => stored,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the stored cluster cannot be read");
                return term.end(EndReason::GivenUp);
            }
            Err(_) => {
                tracing::warn!("the stored cluster could not be read in time");
                return term.end(EndReason::GivenUp);
            }
        };
        let mut settings = self.settings.cluster.clone();
        settings.takeover_ms += term.overlap_ms();
        let cluster = Cluster::new(settings, term.epoch(), nodes, placements, uptime::now());
        let leadership = Arc::new(Leadership::new(Arc::clone(term), cluster));
        self.leadership.send_replace(Some(Arc::clone(&leadership)));
        term.ended().await;
        self.leadership.send_replace(None);
        leadership.end();
    }

    /// For a task: the leadership that there is, or the next one, and its peers; none after the stop.
    pub(super) async fn next_leadership(&self, stop: &Stop) -> Option<(Arc<Leadership>, Arc<Peers>)> {
        let mut leaderships = self.leadership.subscribe();
        let lasting = |leadership: &Option<Arc<Leadership>>| {
            leadership.as_ref().is_some_and(|leadership| !leadership.term().is_over())
        };
        tokio::select! {
            leadership = leaderships.wait_for(lasting) => {
                let leadership = leadership.ok()?.clone()?;
                let peers = Arc::clone(self.peers.get()?);
                Some((leadership, peers))
            }
            () = stop.requested() => None,
        }
    }
}

/// Ends a term when the task that keeps it goes, also by a panic: then there are no more beats.
struct EndAtDrop(Arc<LeadershipTerm>);

impl Drop for EndAtDrop {
    fn drop(&mut self) {
        self.0.end(EndReason::GivenUp);
    }
}
