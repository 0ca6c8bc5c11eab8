//! One term of leadership of this process, and the time until which it holds.
//!
//! It holds for a span after the last successful beat was *sent*, by our own clock, and ends when another
//! process leads, when it was given up, or when that span is over: whichever is noticed first. The last one
//! need not be noticed, because [`LeadershipTerm::is_valid`] is called before any result is given away; so a
//! database that hangs, or a machine that slept, cannot make a term last longer.

use std::sync::atomic::{AtomicU64, Ordering};

use estimand_store::Lead;
use tokio::sync::watch;

use crate::uptime::{Millis, now, sleep_until};

/// Why a term is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The process is to stop.
    Stopped,
    /// Another process leads.
    Fenced,
    /// No beat was acknowledged in time.
    Lapsed,
    /// Its work cannot be done here; another process may have more luck.
    GivenUp,
}

#[derive(Debug)]
pub struct LeadershipTerm {
    lead: Lead,
    ttl: Millis,
    /// How long after the beginning a leader before may still act.
    overlap_ms: Millis,
    until: AtomicU64,
    end: watch::Sender<Option<EndReason>>,
}

impl LeadershipTerm {
    /// The term that was asked for at `sent`.
    pub fn new(lead: Lead, sent: Millis, ttl: Millis) -> Self {
        LeadershipTerm {
            lead,
            ttl,
            overlap_ms: 0,
            until: AtomicU64::new(sent + ttl),
            end: watch::Sender::new(None),
        }
    }

    /// The same, taken from a leader that may not have noticed yet.
    pub fn with_predecessor(self) -> Self {
        LeadershipTerm { overlap_ms: self.ttl, ..self }
    }

    pub fn overlap_ms(&self) -> Millis {
        self.overlap_ms
    }

    pub fn lead(&self) -> &Lead {
        &self.lead
    }

    /// Grows from term to term, over all processes.
    pub fn epoch(&self) -> u64 {
        self.lead.epoch.unsigned_abs()
    }

    /// True if a result that was worked out under this term may be given away now.
    pub fn is_valid(&self) -> bool {
        self.end.borrow().is_none() && now() < self.until.load(Ordering::SeqCst)
    }

    /// A beat, or a commit, which is one as well, was sent then and has succeeded.
    pub fn renewed(&self, sent: Millis) {
        self.until.fetch_max(sent + self.ttl, Ordering::SeqCst);
    }

    /// The first reason counts.
    pub fn end(&self, reason: EndReason) {
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            end.get_or_insert(reason);
            first
        });
    }

    pub fn is_over(&self) -> bool {
        self.end.borrow().is_some()
    }

    pub async fn ended(&self) -> EndReason {
        let ended = self.end.subscribe().wait_for(Option::is_some).await.map(|end| *end);
        // The sender is borrowed here, so that it cannot be gone.
        ended.ok().flatten().unwrap_or(EndReason::GivenUp)
    }

    /// Waits until the span after the last successful beat is over.
    pub async fn lapsed(&self) {
        loop {
            let until = self.until.load(Ordering::SeqCst);
            if now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(sent: Millis) -> LeadershipTerm {
        LeadershipTerm::new(Lead { role: "manager".to_owned(), epoch: 3 }, sent, 60_000)
    }

    #[test]
    fn a_term_holds_from_when_the_last_good_beat_was_sent() {
        let late = term(now() - 60_000);
        assert!(!late.is_valid());
        late.renewed(now() - 59_000);
        assert!(late.is_valid());
        // An answer that comes late says nothing about later than it was asked for.
        late.renewed(now() - 70_000);
        assert!(late.is_valid());
    }

    #[test]
    fn a_term_that_has_ended_is_revived_by_no_beat() {
        let ended = term(now());
        ended.end(EndReason::Fenced);
        ended.end(EndReason::Stopped);
        ended.renewed(now());
        assert!(!ended.is_valid());
        assert_eq!(*ended.end.borrow(), Some(EndReason::Fenced));
    }
}
