//! The agent's two conversations with the manager: it asks for the desired state, and it sends heartbeats.
//!
//! Both go on through anything: an error makes them try again, at another address if there are several, and
//! meanwhile the slots run on. Only two answers change what runs without a new desired state: this start of the
//! agent was superseded by a later one (it ends), and the node's name belongs to another agent (its slots end
//! until that changes). The lease of slots that may run once in the cluster counts from when the answered
//! heartbeat was sent, so that it always ends before the manager thinks so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_api::node::{Delivery, DesiredState, Facts, Heartbeat, HeartbeatAnswer, RunRequest};
use estimand_api::problem::kind;
use estimand_client::{Client, Credentials, DesiredQuery, Error, Options};
use estimand_runtime::{BackOff, Clock as _, Driver, Next, Rounds, Stop, Work};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::board::Board;
use crate::home::Home;
use crate::plane_clock::PlaneClock;
use crate::tasks::{Tasks, boot_clock};

/// How long the manager may hold the question for the desired state.
const WAIT: Duration = Duration::from_secs(10);
/// How long a heartbeat may take.
const BEAT_WITHIN: Duration = Duration::from_secs(3);
/// How long the last heartbeat may take, with all attempts: a manager that is not told finds out.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// Heartbeats are not closer together than this.
const BREATH: Duration = Duration::from_millis(10);
/// After only older states for so long, they are those of another store. Longer than a question waits and a leadership
/// lasts, together.
const OTHER_STORE_AFTER: Duration = Duration::from_secs(30);
/// Between questions that are answered with what is older.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The manager's addresses; the one that answered last is asked next.
#[derive(Debug)]
pub struct Servers {
    all: Vec<Client>,
    current: AtomicUsize,
}

impl Servers {
    pub fn new(addresses: &[String], credentials: &Credentials) -> Result<Self, Error> {
        let options = Options {
            connect_timeout: Duration::from_secs(2),
            read_timeout: WAIT + Duration::from_secs(5),
            total_timeout: WAIT + Duration::from_secs(5),
            attempts: 1,
            retry_within: Duration::ZERO,
            credentials: credentials.clone(),
            ..Options::default()
        };
        let client = |address: &String| Client::with_options(address, options.clone());
        let all = addresses.iter().map(client).collect::<Result<Vec<_>, _>>()?;
        match all.is_empty() {
            true => Err(Error::Address(String::new())),
            false => Ok(Servers { all, current: AtomicUsize::new(0) }),
        }
    }

    pub fn current(&self) -> &Client {
        &self.all[self.current.load(Ordering::Relaxed) % self.all.len()]
    }

    fn turn_from(&self, client: &Client) {
        let place = self.all.iter().position(|known| std::ptr::eq(known, client)).unwrap_or(0);
        let next = (place + 1) % self.all.len();
        let _ = self.current.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A message of the manager to the slots.
#[derive(Debug)]
pub enum SlotCommand {
    Follow(DesiredState),
    /// Run this once and report the outcome.
    Run(RunRequest),
    /// The name belongs to another agent: nothing may run.
    EndAll,
}

/// The common part of both conversations.
pub struct Link {
    pub servers: Arc<Servers>,
    pub node: NodeName,
    pub labels: BTreeMap<String, String>,
    pub facts: Facts,
    pub home: Arc<Home>,
    pub board: Arc<Board>,
    pub slots: mpsc::Sender<SlotCommand>,
    pub tasks: Arc<Tasks>,
    /// Until when leased slots may run.
    pub lease: watch::Sender<Option<Instant>>,
    /// Where values are read and written.
    pub server: watch::Sender<String>,
    /// Called when this start of the agent must end.
    pub superseded: Box<dyn Fn(&str) + Send + Sync>,
    pub delivery: Box<dyn Fn() -> Delivery + Send + Sync>,
    pub clock: Arc<PlaneClock>,
    /// Called once if this machine's clock was wrong until now: by how many microseconds it was behind.
    pub was_behind: Box<dyn Fn(i64) + Send + Sync>,
}

impl Link {
    /// Asks for the desired state, again and again.
    pub async fn follow(&self, revision: u64, driver: Driver, stop: &Stop) {
        let guard = RevisionGuard::new(revision);
        // Slots know the state that they followed last; what tasks belong here is asked for anew.
        let mut work = DesiredStates { link: self, revision: 0, under: 0, guard, unknown: pauses() };
        paced(driver).run(&mut work, &Rounds::new(), stop.requested()).await;
    }

    /// Sends heartbeats, when one is due and when somebody waits for a report.
    pub async fn beat(&self, driver: Driver, stop: &Stop) {
        let mut work = Heartbeats { link: self, answered: None, is_unleased: false };
        paced(driver).run(&mut work, self.board.urgent(), stop.requested()).await;
    }

    async fn pass_on(&self, client: &Client, mut desired: DesiredState, asked_at: u64) {
        let server = desired.data_server.clone().unwrap_or_else(|| client.shown_address());
        self.server.send_if_modified(|known| std::mem::replace(known, server.clone()) != server);
        let task_server = desired.task_server.clone().unwrap_or_else(|| client.shown_address());
        // They keep what they have accepted by themselves. None: what was said last.
        let age = Duration::from_millis(std::mem::take(&mut desired.tasks_age_ms));
        if let Some(tasks) = desired.tasks.take() {
            self.tasks.follow(tasks, age, asked_at, task_server);
        }
        for run in std::mem::take(&mut desired.runs) {
            let _ = self.slots.send(SlotCommand::Run(run)).await;
        }
        let _ = self.slots.send(SlotCommand::Follow(desired)).await;
    }

    /// A manager that has just begun to lead gives no lease before it knows what runs here, but it waits for
    /// the end of those that the former one gave: they hold.
    fn extend_lease(&self, sent: (Instant, u64), lease: Duration) {
        let until = sent.0 + lease;
        if !lease.is_zero() {
            self.tasks.extend_leases(sent.1, lease);
        }
        self.lease.send_if_modified(|lease| {
            let extended = lease.is_none_or(|known| known < until);
            if extended {
                *lease = Some(until);
            }
            extended
        });
    }

    /// The last heartbeat: every slot has ended.
    pub async fn leave(&self) {
        let mut failed = format!("no answer within {LEAVE_WITHIN:?}");
        let told = timeout(LEAVE_WITHIN, async {
            loop {
                let beat = self.heartbeat(self.board.report(None), true, true);
                match self.send(self.servers.current(), beat).await {
                    Err(Error::Unreachable { cause, .. }) => failed = cause,
                    answered => return answered.map(drop),
                }
                sleep(FIRST_PAUSE).await;
            }
        });
        let error = match told.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => failed,
        };
        tracing::debug!(error, "the manager was not told that this agent leaves");
    }

    fn heartbeat(&self, report: crate::board::Report, full: bool, leaving: bool) -> Heartbeat {
        let mut beat = Heartbeat {
            agent: self.home.agent.clone(),
            boot: self.home.boot,
            labels: self.labels.clone(),
            facts: self.facts.clone(),
            delivery: (self.delivery)(),
            applied: report.applied,
            stopping: report.stopping,
            full,
            statuses: report.statuses,
            leaving,
            clock_ahead_ms: self.clock.ahead().map(|micros| micros / 1000),
        };
        beat.fit();
        beat
    }

    /// Learns the plane's time of day from the answer to a heartbeat.
    fn learn_time(&self, sent: i64, answer: &HeartbeatAnswer) {
        let learned = answer.now.and_then(|now| self.clock.learn(sent, now.timestamp_micros()));
        if let Some(behind) = learned {
            (self.was_behind)(behind);
        }
    }

    async fn send(&self, client: &Client, beat: Heartbeat) -> Result<HeartbeatAnswer, Error> {
        match timeout(BEAT_WITHIN, client.heartbeat(&self.node, &beat)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Unreachable {
                url: client.shown_address(),
                cause: format!("no answer within {BEAT_WITHIN:?}"),
            }),
        }
    }

    /// Acts on the two refusals that concern what runs; whether the slots were told to end.
    async fn refused(&self, error: &Error) -> bool {
        let Error::Problem(problem) = error else { return false };
        match problem.kind.as_str() {
            kind::SUPERSEDED => {
                (self.superseded)(&problem.detail);
                false
            }
            kind::NODE_TAKEN => {
                self.lease.send_replace(None);
                self.tasks.end_leases();
                let _ = self.slots.send(SlotCommand::EndAll).await;
                true
            }
            _ => false,
        }
    }
}

/// Asks for the desired state and passes on each new one.
struct DesiredStates<'a> {
    link: &'a Link,
    revision: u64,
    /// The lease under which it was asked last; under another one it asks anew.
    under: u64,
    guard: RevisionGuard,
    /// While the node has to be heard of first.
    unknown: BackOff,
}

impl Work for DesiredStates<'_> {
    type Error = Error;

    async fn round(&mut self) -> Result<Next, Error> {
        let link = self.link;
        let client = link.servers.current();
        let mut leases = link.tasks.leases();
        let under = *leases.borrow_and_update();
        let asked_at = boot_clock();
        if std::mem::replace(&mut self.under, under) != under {
            self.revision = 0;
        }
        let query = DesiredQuery {
            node: &link.node,
            agent: &link.home.agent,
            boot: link.home.boot,
            revision: self.revision,
            wait: WAIT,
        };
        let answer = tokio::select! {
            answer = client.desired(query) => answer,
            // The news kept here wait for being said again.
            Ok(()) = leases.changed(), if !link.tasks.is_empty() => return Ok(Next::At(Instant::now())),
        };
        match answer {
            Ok(None) => {}
            Ok(Some(desired)) if self.guard.refuses(desired.revision, Instant::now()) => {
                let older = desired.revision;
                tracing::debug!(
                    older,
                    "the desired state is older than the one that is followed; asking again"
                );
                return Ok(Next::At(Instant::now() + LOOK_AGAIN));
            }
            Ok(Some(desired)) => {
                self.revision = desired.revision;
                link.pass_on(client, desired, asked_at).await;
            }
            Err(Error::Problem(problem)) if problem.kind == kind::UNKNOWN_NODE => {
                link.board.hurry();
                return Ok(Next::At(Instant::now() + self.unknown.pause()));
            }
            Err(error) => {
                if link.refused(&error).await {
                    self.revision = 0;
                }
                link.servers.turn_from(client);
                return Err(error);
            }
        }
        self.unknown.reset();
        Ok(Next::At(Instant::now()))
    }
}

/// Sends the reports of the slots.
struct Heartbeats<'a> {
    link: &'a Link,
    /// The last report that was answered; without one all statuses are to be sent.
    answered: Option<u64>,
    /// The last answer had no lease.
    is_unleased: bool,
}

impl Work for Heartbeats<'_> {
    type Error = Error;

    async fn round(&mut self) -> Result<Next, Error> {
        // Several things that happen at once are reported together.
        sleep(BREATH).await;
        let link = self.link;
        let report = link.board.report(self.answered);
        let upto = report.upto;
        let client = link.servers.current();
        let beat = link.heartbeat(report, self.answered.is_none(), false);
        let (sent, sent_boot) = (Instant::now(), boot_clock());
        let sent_steady = link.clock.steady_micros();
        match link.send(client, beat).await {
            Ok(answer) => {
                link.learn_time(sent_steady, &answer);
                link.extend_lease((sent, sent_boot), Duration::from_millis(answer.lease_ms));
                self.answered = (!answer.resend).then_some(upto);
                let interval = Duration::from_millis(answer.interval_ms.clamp(50, 300_000));
                let was_unleased = std::mem::replace(&mut self.is_unleased, answer.lease_ms == 0);
                if self.is_unleased && !was_unleased {
                    // A lease is given once this start follows the state of that manager, or it knows the registrations.
                    link.board.confirm_soon();
                    return Ok(Next::At(sent + interval.min(FIRST_PAUSE)));
                }
                // A little less, never more: the manager counts what is missing.
                Ok(Next::At(sent + interval.mul_f64(1.0 - fastrand::f64() / 10.0)))
            }
            Err(error) => {
                link.refused(&error).await;
                link.servers.turn_from(client);
                Err(error)
            }
        }
    }
}

fn paced(driver: Driver) -> Driver {
    driver.pauses(FIRST_PAUSE, LONGEST_PAUSE)
}

fn pauses() -> BackOff {
    BackOff::new(FIRST_PAUSE, LONGEST_PAUSE)
}

/// Keeps an agent from following what it has followed already and left behind. A manager that was stopped for
/// a while may still give an answer that it had begun when it led, and what that says may run elsewhere by now.
///
/// Such an answer comes once or for a few seconds. If nothing else comes for much longer, the managers' store is
/// another one, which counts from the beginning.
struct RevisionGuard {
    followed: u64,
    since: Option<Instant>,
}

impl RevisionGuard {
    fn new(followed: u64) -> Self {
        RevisionGuard { followed, since: None }
    }

    fn refuses(&mut self, revision: u64, now: Instant) -> bool {
        if revision < self.followed && now < *self.since.get_or_insert(now) + OTHER_STORE_AFTER {
            return true;
        }
        (self.followed, self.since) = (revision, None);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_older_state_is_followed_only_if_no_other_comes() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut guard = RevisionGuard::new(7);
        assert!(!guard.refuses(7, at(0)));
        assert!(guard.refuses(6, at(1)));
        assert!(!guard.refuses(8, at(2)));
        // The first of these does not count any more.
        assert!(guard.refuses(6, at(29)));
        assert!(guard.refuses(5, at(58)));
        assert!(!guard.refuses(3, at(60)));
        assert!(!guard.refuses(4, at(61)));
    }
}
