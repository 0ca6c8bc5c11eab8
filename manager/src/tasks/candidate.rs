//! Leader election among several managers: standing by, taking the leadership, keeping it and leaving it.
//!
//! While a leader lives, the beat in the role's row in the store grows. No clocks are compared: a standby
//! takes over when it has seen no new beat for a span by its own clock; the leader's term is over a shorter
//! span after it *sent* its last successful beat (see [`LeadershipTerm`]). Since a beat that a standby saw
//! was sent before, the old term is over before the next one begins, even if something hangs.

use std::future::pending;
use std::time::Duration;

use estimand_runtime::{Driver, Next, PartReady, Rounds, Tasks, Work};
use estimand_store::{Connection, Error, LeadRow, StoreUrl, Worker};
use tokio::time::timeout;

use super::stops::Stops;
use crate::leadership::{EndReason, LeadershipTerm};
use crate::uptime::{Millis, millis, now};

const ROLE: &str = "manager";
/// How long an orderly stop waits for the database to hear that the leadership is free.
const RELEASE_WITHIN: Duration = Duration::from_millis(200);

/// The spans of leading.
#[derive(Debug, Clone)]
pub struct LeadershipTimes {
    /// How long a term holds without a beat.
    pub ttl: Duration,
    /// How much longer a standby waits, in case its clock is faster.
    pub margin: Duration,
    /// How often a leader beats.
    pub beat: Duration,
    /// How often a standby looks.
    pub look: Duration,
}

impl Default for LeadershipTimes {
    fn default() -> Self {
        LeadershipTimes {
            ttl: Duration::from_secs(3),
            margin: Duration::from_millis(250),
            beat: Duration::from_secs(1),
            look: Duration::from_millis(500),
        }
    }
}

/// A process that leads or stands by.
pub struct Candidate {
    worker: Worker,
    ttl: Millis,
    address: String,
    watch: Watch,
    ready: PartReady,
    prepared: bool,
    looks: Driver,
    beats: Driver,
}

impl Candidate {
    pub fn new(
        store: StoreUrl,
        times: &LeadershipTimes,
        alone: bool,
        ready: PartReady,
        tasks: &Tasks,
    ) -> Self {
        let patience = millis(times.ttl + times.margin);
        // Distinguishes the starts of processes; it is compared with the one in the row.
        let holder = format!("{:016x}", fastrand::u64(..));
        let looks = tasks.driver("manager-standby", "looking for the manager that leads");
        let beats = tasks.driver("manager-beats", "confirming the leadership");
        Candidate {
            worker: Worker::start(store, "manager-leadership"),
            ttl: millis(times.ttl),
            address: String::new(),
            watch: Watch { holder, at_once: alone, patience, seen: None },
            ready,
            prepared: false,
            looks: looks.every(times.look).pauses(times.look, times.look),
            beats: beats.every(times.beat).pauses(times.beat / 4, times.beat / 4),
        }
    }

    /// Where this process can be reached.
    pub fn set_address(&mut self, address: &str) {
        address.clone_into(&mut self.address);
    }

    /// Stands by until it leads; `None` if it was stopped. Meanwhile `set_leader` is given the leader's address.
    pub async fn stand_by<F>(&mut self, stops: &Stops, set_leader: &F) -> Option<LeadershipTerm>
    where
        F: Fn(&str) + Sync,
    {
        let Candidate { worker, ttl, address, watch, ready, prepared, looks, .. } = self;
        let mut standby =
            Standby { worker, ttl: *ttl, address, watch, ready, prepared, set_leader, term: None };
        looks.run(&mut standby, &Rounds::new(), stops.requested()).await;
        standby.term
    }

    /// Beats until the term is over, which it then is for everybody.
    pub async fn keep(&mut self, term: &LeadershipTerm, stops: &Stops) -> EndReason {
        let (mut beats, periodic) = (Beats { worker: &self.worker, term }, Rounds::new());
        let end = tokio::select! {
            () = self.beats.run(&mut beats, &periodic, pending()) => EndReason::Fenced,
            end = term.ended() => end,
            // Also while a beat hangs.
            () = term.lapsed() => EndReason::Lapsed,
            () = stops.requested() => EndReason::Stopped,
        };
        term.end(end);
        end
    }

    /// After the term: says so, and lets others lead at once if the leadership was left on purpose.
    pub async fn leave(&mut self, term: &LeadershipTerm, end: EndReason) {
        let epoch = term.epoch();
        match end {
            EndReason::Fenced => tracing::warn!(epoch, "another manager leads"),
            EndReason::Lapsed => {
                tracing::warn!(epoch, "the database did not answer in time: leading no more");
            }
            EndReason::Stopped | EndReason::GivenUp => {
                let lead = term.lead().clone();
                let release = self.worker.run(move |connection| connection.release_lead(&lead));
                match timeout(RELEASE_WITHIN, release).await {
                    Ok(Ok(())) => tracing::info!(epoch, "the leadership is free"),
                    Ok(Err(error)) => tracing::warn!(epoch, %error, "the leadership was not released"),
                    Err(_) => tracing::warn!(epoch, "the leadership was not released: no answer in time"),
                }
            }
        }
    }
}

/// The work of a standby: a look at the role, which is taken as soon as it may be.
struct Standby<'a, F> {
    worker: &'a Worker,
    ttl: Millis,
    address: &'a str,
    watch: &'a mut Watch,
    ready: &'a PartReady,
    prepared: &'a mut bool,
    set_leader: &'a F,
    term: Option<LeadershipTerm>,
}

impl<F: Fn(&str) + Sync> Work for Standby<'_, F> {
    type Error = Error;

    async fn round(&mut self) -> Result<Next, Error> {
        let row = match self.look().await {
            Ok(row) => row,
            Err(error) => {
                if !*self.prepared {
                    self.ready.not_ready("the database does not answer");
                }
                return Err(error);
            }
        };
        self.ready.ready();
        (self.set_leader)(row.as_ref().map_or("", |row| &row.address));
        let freedom = self.watch.look(row.as_ref(), now());
        if freedom == Freedom::Led {
            return Ok(Next::Period);
        }
        let (holder, address, sent) = (self.watch.holder.clone(), self.address.to_owned(), now());
        let take =
            move |connection: &mut Connection| connection.take_lead(ROLE, row.as_ref(), &holder, &address);
        let Some(lead) = self.worker.run(take).await? else { return Ok(Next::Period) };
        self.watch.at_once = false;
        let term = LeadershipTerm::new(lead, sent, self.ttl);
        self.term = Some(if freedom == Freedom::Presumed { term.with_predecessor() } else { term });
        Ok(Next::End)
    }
}

impl<F> Standby<'_, F> {
    async fn look(&mut self) -> Result<Option<LeadRow>, Error> {
        let prepared = *self.prepared;
        let row = self.worker.run(move |connection| {
            if !prepared {
                connection.migrate()?;
            }
            connection.read_lead(ROLE)
        });
        let row = row.await?;
        *self.prepared = true;
        Ok(row)
    }
}

/// The work of a leader that keeps its term.
struct Beats<'a> {
    worker: &'a Worker,
    term: &'a LeadershipTerm,
}

impl Work for Beats<'_> {
    type Error = Error;

    /// The last one is that which finds another process in the lead.
    async fn round(&mut self) -> Result<Next, Error> {
        let (lead, sent) = (self.term.lead().clone(), now());
        match self.worker.run(move |connection| connection.beat_lead(&lead)).await {
            Ok(()) => self.term.renewed(sent),
            Err(Error::Fenced { .. }) => return Ok(Next::End),
            Err(error) => return Err(error),
        }
        Ok(Next::Period)
    }
}

/// The outcome of a look at a role: it is led, or may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freedom {
    Led,
    /// The last leader knows that its term is over, or has noticed by now.
    Certain,
    /// No other process should be there; if one is, it notices within its span.
    Presumed,
}

/// A standby's view of the role.
#[derive(Debug)]
struct Watch {
    /// The name under which this process leads.
    holder: String,
    /// No other process should lead: then the first term is taken without waiting.
    at_once: bool,
    /// How long a beat must stay the same.
    patience: Millis,
    /// The role as it was seen last, and when it was seen so first.
    seen: Option<(LeadRow, Millis)>,
}

impl Watch {
    /// Decides if the role may be taken, by its row as just read. `at` is when the read had ended.
    fn look(&mut self, row: Option<&LeadRow>, at: Millis) -> Freedom {
        let Some(row) = row else { return Freedom::Certain };
        let since = match &self.seen {
            Some((seen, since)) if seen == row => *since,
            _ => {
                self.seen = Some((row.clone(), at));
                at
            }
        };
        // A term of our own that we still find there ended when we noticed: no other process leads.
        let is_free = row.holder.is_empty() || row.holder == self.holder;
        match () {
            () if is_free || at.saturating_sub(since) >= self.patience => Freedom::Certain,
            () if self.at_once => Freedom::Presumed,
            () => Freedom::Led,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(epoch: i64, beat: i64, holder: &str) -> LeadRow {
        LeadRow { epoch, beat, holder: holder.to_owned(), address: String::new() }
    }

    fn watch(at_once: bool) -> Watch {
        Watch { holder: "me".to_owned(), at_once, patience: 3_000, seen: None }
    }

    #[test]
    fn a_role_is_free_when_its_beat_stayed_the_same_for_the_whole_span() {
        use Freedom::{Certain, Led};
        let mut watch = watch(false);
        for (beat, at, expected) in
            [(7, 10_000, Led), (7, 12_999, Led), (8, 13_000, Led), (8, 15_999, Led), (8, 16_000, Certain)]
        {
            assert_eq!(watch.look(Some(&row(2, beat, "other")), at), expected, "beat {beat} at {at}");
        }
        // Another one was faster.
        assert_eq!(watch.look(Some(&row(3, 9, "third")), 16_001), Led);
    }

    #[test]
    fn a_role_without_a_holder_is_taken_at_once() {
        assert_eq!(watch(false).look(None, 1), Freedom::Certain);
        for (holder, expected) in [("", Freedom::Certain), ("me", Freedom::Certain), ("other", Freedom::Led)]
        {
            assert_eq!(watch(false).look(Some(&row(2, 7, holder)), 1), expected, "{holder:?}");
        }
        assert_eq!(watch(true).look(Some(&row(2, 7, "other")), 1), Freedom::Presumed);
        assert_eq!(watch(true).look(Some(&row(2, 7, "")), 1), Freedom::Certain);
    }
}
