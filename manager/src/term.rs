//! One lead of this process, and until when it holds.
//!
//! It holds for a span after the last successful beat was *sent*, by our own clock, and ends when somebody
//! else leads, when it was given up, or when that span is over: whichever is noticed first. Nobody has to
//! notice the last one, because whoever acts asks [`Term::is_valid`] first; so a database that hangs, or a
//! machine that slept, cannot make a lead last longer.

use std::sync::atomic::{AtomicU64, Ordering};

use estimand_store::Lead;
use tokio::sync::watch;

use crate::ticks::{Millis, now, sleep_until};

/// Why a lead is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process is to stop.
    Stopped,
    /// Another process leads.
    Fenced,
    /// No beat was acknowledged in time.
    Lapsed,
    /// It cannot be used; another process may have more luck.
    GivenUp,
}

#[derive(Debug)]
pub struct Term {
    lead: Lead,
    ttl: Millis,
    /// How long after the beginning a leader before may still act.
    overlap_ms: Millis,
    until: AtomicU64,
    end: watch::Sender<Option<End>>,
}

impl Term {
    /// The lead that was asked for at `sent`.
    pub fn new(lead: Lead, sent: Millis, ttl: Millis) -> Self {
        Term { lead, ttl, overlap_ms: 0, until: AtomicU64::new(sent + ttl), end: watch::Sender::new(None) }
    }

    /// The same, taken from somebody who may not have noticed yet.
    pub fn with_predecessor(self) -> Self {
        Term { overlap_ms: self.ttl, ..self }
    }

    pub fn overlap_ms(&self) -> Millis {
        self.overlap_ms
    }

    pub fn lead(&self) -> &Lead {
        &self.lead
    }

    /// Grows from lead to lead, whoever has them.
    pub fn epoch(&self) -> u64 {
        self.lead.epoch.unsigned_abs()
    }

    /// Whether whoever has worked under this lead may give the result away now.
    pub fn is_valid(&self) -> bool {
        self.end.borrow().is_none() && now() < self.until.load(Ordering::SeqCst)
    }

    /// A beat, or a commit, which is one as well, was sent then and has succeeded.
    pub fn renewed(&self, sent: Millis) {
        self.until.fetch_max(sent + self.ttl, Ordering::SeqCst);
    }

    /// The first reason counts.
    pub fn end(&self, why: End) {
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            end.get_or_insert(why);
            first
        });
    }

    pub fn is_over(&self) -> bool {
        self.end.borrow().is_some()
    }

    pub async fn ended(&self) -> End {
        let ended = self.end.subscribe().wait_for(Option::is_some).await.map(|end| *end);
        // The sender is borrowed here, so that it cannot be gone.
        ended.ok().flatten().unwrap_or(End::GivenUp)
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

    fn term(sent: Millis) -> Term {
        Term::new(Lead { role: "manager".to_owned(), epoch: 3 }, sent, 60_000)
    }

    #[test]
    fn it_holds_from_when_the_last_good_beat_was_sent() {
        let late = term(now() - 60_000);
        assert!(!late.is_valid());
        late.renewed(now() - 59_000);
        assert!(late.is_valid());
        // An answer that comes late says nothing about later than it was asked for.
        late.renewed(now() - 70_000);
        assert!(late.is_valid());
    }

    #[test]
    fn once_ended_no_beat_revives_it() {
        let ended = term(now());
        ended.end(End::Fenced);
        ended.end(End::Stopped);
        ended.renewed(now());
        assert!(!ended.is_valid());
        assert_eq!(*ended.end.borrow(), Some(End::Fenced));
    }
}
