//! Which of several managers leads: standing by, taking the lead, keeping it and leaving it.
//!
//! The role's row in the store grows a beat while its leader lives. No clocks are compared: a standby takes
//! over when it has seen no new beat for a span by its own clock; the leader's lead is over a shorter span
//! after it *sent* its last successful beat (see [`Term`]). Since a beat that a standby saw was sent before,
//! the old lead is over before the next one begins, whatever hangs where.

use std::time::Duration;

use estimand_runtime::PartReady;
use estimand_store::{Error, LeadRow, StoreUrl, Worker};
use tokio::time::{sleep, timeout};

use crate::stops::Stops;
use crate::term::{End, Term};
use crate::ticks::{Millis, millis, now};

const ROLE: &str = "manager";
/// How long an orderly stop waits for the database to hear that the lead is free.
const RELEASE_WITHIN: Duration = Duration::from_secs(1);

/// The spans of leading.
#[derive(Debug, Clone)]
pub struct LeadTimes {
    /// How long a lead holds without a beat.
    pub ttl: Duration,
    /// How much longer a standby waits, in case its clock is faster.
    pub margin: Duration,
    /// How often a leader beats.
    pub beat: Duration,
    /// How often a standby looks.
    pub look: Duration,
}

impl Default for LeadTimes {
    fn default() -> Self {
        LeadTimes {
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
    times: LeadTimes,
    address: String,
    watch: Watch,
    ready: PartReady,
    prepared: bool,
    troubled: bool,
}

impl Candidate {
    pub fn new(store: StoreUrl, times: LeadTimes, alone: bool, ready: PartReady) -> Self {
        let patience = millis(times.ttl + times.margin);
        // Tells the starts of processes apart; it is compared with what stands in one row.
        let holder = format!("{:016x}", fastrand::u64(..));
        Candidate {
            worker: Worker::start(store, "manager-lead"),
            times,
            address: String::new(),
            watch: Watch { holder, at_once: alone, patience, seen: None },
            ready,
            prepared: false,
            troubled: false,
        }
    }

    /// Where this process can be reached.
    pub fn set_address(&mut self, address: &str) {
        address.clone_into(&mut self.address);
    }

    /// Stands by until it leads; `None` if it was stopped. `hear` is told who leads meanwhile.
    pub async fn stand(&mut self, stops: &Stops, hear: impl Fn(&str)) -> Option<Term> {
        loop {
            tokio::select! {
                () = stops.requested() => return None,
                term = self.try_to_lead(&hear) => {
                    if term.is_some() {
                        return term;
                    }
                }
            }
            tokio::select! {
                () = stops.requested() => return None,
                () = sleep(self.times.look.mul_f64(0.75 + fastrand::f64() / 4.0)) => {}
            }
        }
    }

    async fn try_to_lead(&mut self, hear: &impl Fn(&str)) -> Option<Term> {
        let row = match self.look().await {
            Ok(row) => row,
            Err(error) => {
                self.complain(&error);
                return None;
            }
        };
        self.troubled = false;
        self.ready.ready();
        hear(row.as_ref().map_or("", |row| &row.address));
        let freedom = self.watch.look(row.as_ref(), now());
        if freedom == Freedom::Led {
            return None;
        }
        let (holder, address, sent) = (self.watch.holder.clone(), self.address.clone(), now());
        let take = move |connection: &mut estimand_store::Connection| {
            connection.take_lead(ROLE, row.as_ref(), &holder, &address)
        };
        match self.worker.run(take).await {
            Ok(lead) => {
                let lead = lead?;
                self.watch.at_once = false;
                let term = Term::new(lead, sent, millis(self.times.ttl));
                Some(if freedom == Freedom::Presumed { term.with_predecessor() } else { term })
            }
            Err(error) => {
                self.complain(&error);
                None
            }
        }
    }

    async fn look(&mut self) -> Result<Option<LeadRow>, Error> {
        let prepared = self.prepared;
        let row = self.worker.run(move |connection| {
            if !prepared {
                connection.migrate()?;
            }
            connection.read_lead(ROLE)
        });
        let row = row.await?;
        self.prepared = true;
        Ok(row)
    }

    /// Beats until the lead is over, which it then is for everybody.
    pub async fn keep(&mut self, term: &Term, stops: &Stops) -> End {
        let end = tokio::select! {
            end = self.beat(term) => end,
            end = term.ended() => end,
            // Also while a beat hangs.
            () = term.lapsed() => End::Lapsed,
            () = stops.requested() => End::Stopped,
        };
        term.end(end);
        end
    }

    async fn beat(&mut self, term: &Term) -> End {
        loop {
            let pause = if self.troubled { self.times.beat / 4 } else { self.times.beat };
            sleep(pause).await;
            let (lead, sent) = (term.lead().clone(), now());
            match self.worker.run(move |connection| connection.beat_lead(&lead)).await {
                Ok(()) => {
                    self.troubled = false;
                    term.renewed(sent);
                }
                Err(Error::Fenced { .. }) => return End::Fenced,
                Err(error) => self.complain(&error),
            }
        }
    }

    /// After the lead: says so, and lets others have it at once if it was left on purpose.
    pub async fn leave(&mut self, term: &Term, end: End) {
        let epoch = term.epoch();
        match end {
            End::Fenced => tracing::warn!(epoch, "another manager leads"),
            End::Lapsed => tracing::warn!(epoch, "the database did not answer in time: leading no more"),
            End::Stopped | End::GivenUp => {
                let lead = term.lead().clone();
                let release = self.worker.run(move |connection| connection.release_lead(&lead));
                match timeout(RELEASE_WITHIN, release).await {
                    Ok(Ok(())) => tracing::info!(epoch, "the lead is free"),
                    Ok(Err(error)) => tracing::warn!(epoch, %error, "the lead was not released"),
                    Err(_) => tracing::warn!(epoch, "the lead was not released: no answer in time"),
                }
            }
        }
    }

    /// Logs the first failure of a row of them.
    fn complain(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.troubled, true) {
            tracing::warn!(%error, "the manager's database does not answer; trying on");
        }
        if !self.prepared {
            self.ready.not_ready("the database does not answer");
        }
    }
}

/// Whether a role may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freedom {
    Led,
    /// Whoever led knows that it is over, or has noticed by now.
    Certain,
    /// Nobody else should be there; if somebody is, it notices within its span.
    Presumed,
}

/// What a standby has seen of the role.
#[derive(Debug)]
struct Watch {
    /// The name under which this process leads.
    holder: String,
    /// Nobody else should lead: then the first lead is taken without waiting.
    at_once: bool,
    /// How long a beat must stay the same.
    patience: Millis,
    /// The role as it was seen last, and when it was seen so first.
    seen: Option<(LeadRow, Millis)>,
}

impl Watch {
    /// Whether the role may be taken as it was just seen. `at` is when the look at it had ended.
    fn look(&mut self, row: Option<&LeadRow>, at: Millis) -> Freedom {
        let Some(row) = row else { return Freedom::Certain };
        let since = match &self.seen {
            Some((seen, since)) if seen == row => *since,
            _ => {
                self.seen = Some((row.clone(), at));
                at
            }
        };
        // A lead of our own that we still find there ended when we noticed: nobody else has taken it.
        let nobody = row.holder.is_empty() || row.holder == self.holder;
        match () {
            () if nobody || at.saturating_sub(since) >= self.patience => Freedom::Certain,
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
    fn a_beat_must_stay_the_same_for_the_whole_span() {
        use Freedom::{Certain, Led};
        let mut watch = watch(false);
        for (beat, at, expected) in
            [(7, 10_000, Led), (7, 12_999, Led), (8, 13_000, Led), (8, 15_999, Led), (8, 16_000, Certain)]
        {
            assert_eq!(watch.look(Some(&row(2, beat, "other")), at), expected, "beat {beat} at {at}");
        }
        // Somebody else was faster.
        assert_eq!(watch.look(Some(&row(3, 9, "third")), 16_001), Led);
    }

    #[test]
    fn what_nobody_holds_is_taken_at_once() {
        assert_eq!(watch(false).look(None, 1), Freedom::Certain);
        for (holder, expected) in [("", Freedom::Certain), ("me", Freedom::Certain), ("other", Freedom::Led)]
        {
            assert_eq!(watch(false).look(Some(&row(2, 7, holder)), 1), expected, "{holder:?}");
        }
        assert_eq!(watch(true).look(Some(&row(2, 7, "other")), 1), Freedom::Presumed);
        assert_eq!(watch(true).look(Some(&row(2, 7, "")), 1), Freedom::Certain);
    }
}
