//! The agent's two conversations with the manager: what should run, and how it is.
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
use estimand_api::node::{Delivery, Desired, Facts, Heartbeat, RunRequest};
use estimand_api::problem::kind;
use estimand_client::{Asking, Client, Credentials, Error, Options};
use estimand_runtime::Stop;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::board::Board;
use crate::home::Home;

/// How long the manager may hold the question what should run.
const WAIT: Duration = Duration::from_secs(10);
/// How long a heartbeat may take.
const BEAT_WITHIN: Duration = Duration::from_secs(3);
/// Heartbeats that are asked for at once are not closer together than this.
const BREATH: Duration = Duration::from_millis(10);
/// When only older states were told for so long, they are those of another store. Longer than a question waits
/// and a lead lasts, together.
const OTHER_STORE_AFTER: Duration = Duration::from_secs(30);
/// Between questions that are answered with what is older.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
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
            credentials: credentials.clone(),
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

/// What the slots are told.
#[derive(Debug)]
pub enum Told {
    Desired(Desired),
    /// Run this once and say what came of it.
    Run(RunRequest),
    /// The name belongs to another agent: nothing may run.
    Nothing,
}

/// What both conversations need.
pub struct Link {
    pub servers: Arc<Servers>,
    pub node: NodeName,
    pub labels: BTreeMap<String, String>,
    pub facts: Facts,
    pub home: Arc<Home>,
    pub board: Arc<Board>,
    pub told: mpsc::Sender<Told>,
    /// Until when leased slots may run.
    pub lease: watch::Sender<Option<Instant>>,
    /// Where values are read and written.
    pub server: watch::Sender<String>,
    /// Called when this start of the agent must end.
    pub superseded: Box<dyn Fn(&str) + Send + Sync>,
    pub delivery: Box<dyn Fn() -> Delivery + Send + Sync>,
}

impl Link {
    /// Asks what should run, again and again.
    pub async fn follow(&self, revision: u64, stop: &Stop) {
        let mut revision = revision;
        let mut backwards = Backwards::new(revision);
        let mut trouble = Trouble::new("the manager was not asked what should run");
        while !stop.is_requested() {
            let client = self.servers.current();
            let asking = Asking {
                node: &self.node,
                agent: &self.home.agent,
                boot: self.home.boot,
                revision,
                wait: WAIT,
            };
            let answer = tokio::select! {
                () = stop.requested() => return,
                answer = client.desired(asking) => answer,
            };
            match answer {
                Ok(None) => trouble.over(),
                Ok(Some(desired)) if backwards.refuses(desired.revision, Instant::now()) => {
                    let older = desired.revision;
                    tracing::debug!(older, "what should run is older than what is followed; asking again");
                    tokio::select! {
                        () = stop.requested() => return,
                        () = sleep(LOOK_AGAIN) => {}
                    }
                }
                Ok(Some(desired)) => {
                    trouble.over();
                    revision = desired.revision;
                    self.pass_on(client, desired).await;
                }
                Err(error) => {
                    if self.refused(&error).await {
                        revision = 0;
                    }
                    self.pause(client, &error, &mut trouble, stop).await;
                }
            }
        }
    }

    async fn pass_on(&self, client: &Client, mut desired: Desired) {
        let server = desired.data_server.clone().unwrap_or_else(|| client.address().to_string());
        self.server.send_if_modified(|known| std::mem::replace(known, server.clone()) != server);
        for run in std::mem::take(&mut desired.runs) {
            let _ = self.told.send(Told::Run(run)).await;
        }
        let _ = self.told.send(Told::Desired(desired)).await;
    }

    /// Says how it is, when it is due and when somebody waits to hear.
    pub async fn beat(&self, stop: &Stop) {
        let mut answered = 0;
        let mut trouble = Trouble::new("the manager did not take a heartbeat");
        while !stop.is_requested() {
            let report = self.board.report(answered);
            let upto = report.upto;
            let full = answered == 0;
            let client = self.servers.current();
            let sent = Instant::now();
            let interval = match self.send(client, self.heartbeat(report, full, false)).await {
                Ok(answer) => {
                    trouble.over();
                    self.extend_lease(sent + Duration::from_millis(answer.lease_ms));
                    answered = if answer.resend { 0 } else { upto.max(1) };
                    Duration::from_millis(answer.interval_ms.clamp(50, 300_000))
                }
                Err(error) => {
                    self.refused(&error).await;
                    self.pause(client, &error, &mut trouble, stop).await;
                    continue;
                }
            };
            // A little less, never more: the manager counts what is missing.
            let due = sent + interval.mul_f64(1.0 - fastrand::f64() / 10.0);
            tokio::select! {
                () = stop.requested() => return,
                () = tokio::time::sleep_until(due) => {}
                () = self.board.hurried() => sleep(BREATH).await,
            }
        }
    }

    /// A manager that has just begun to lead gives no lease before it knows what runs here, but it waits for
    /// the end of those that the former one gave: they hold.
    fn extend_lease(&self, until: Instant) {
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
        let beat = self.heartbeat(self.board.report(0), true, true);
        if let Err(error) = self.send(self.servers.current(), beat).await {
            tracing::debug!(%error, "the manager was not told that this agent leaves");
        }
    }

    fn heartbeat(&self, report: crate::board::Report, full: bool, leaving: bool) -> Heartbeat {
        Heartbeat {
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
        }
    }

    async fn send(
        &self,
        client: &Client,
        beat: Heartbeat,
    ) -> Result<estimand_api::node::HeartbeatAnswer, Error> {
        match timeout(BEAT_WITHIN, client.heartbeat(&self.node, &beat)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Unreachable {
                url: client.address().to_string(),
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
                let _ = self.told.send(Told::Nothing).await;
                true
            }
            _ => false,
        }
    }

    async fn pause(&self, client: &Client, error: &Error, trouble: &mut Trouble, stop: &Stop) {
        // An unknown node only has to be heard of first.
        let unknown = matches!(error, Error::Problem(problem) if problem.kind == kind::UNKNOWN_NODE);
        if unknown {
            self.board.hurry();
        } else {
            self.servers.turn_from(client);
        }
        let pause = trouble.again(error, unknown);
        tokio::select! {
            () = stop.requested() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Keeps an agent from following what it has followed already and left behind. A manager that was stopped for
/// a while may still give an answer that it had begun when it led, and what that says may run elsewhere by now.
///
/// Such an answer comes once or for a few seconds. If nothing else comes for much longer, the managers' store is
/// another one, which counts from the beginning.
struct Backwards {
    followed: u64,
    since: Option<Instant>,
}

impl Backwards {
    fn new(followed: u64) -> Self {
        Backwards { followed, since: None }
    }

    fn refuses(&mut self, revision: u64, now: Instant) -> bool {
        if revision < self.followed && now < *self.since.get_or_insert(now) + OTHER_STORE_AFTER {
            return true;
        }
        (self.followed, self.since) = (revision, None);
        false
    }
}

/// Failures in a row: the first is logged, and their end; pauses grow.
struct Trouble {
    what: &'static str,
    count: u32,
}

impl Trouble {
    fn new(what: &'static str) -> Self {
        Trouble { what, count: 0 }
    }

    fn again(&mut self, error: &Error, expected: bool) -> Duration {
        if self.count == 0 && !expected {
            tracing::warn!(%error, "{}; slots run on, and it is tried again", self.what);
        }
        self.count = self.count.saturating_add(1);
        let grown = FIRST_PAUSE.saturating_mul(1 << self.count.min(10));
        grown.min(LONGEST_PAUSE).mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    fn over(&mut self) {
        if self.count > 1 {
            tracing::info!(failures = self.count, "the manager answers again");
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_older_state_is_followed_only_if_nothing_else_is_told() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut backwards = Backwards::new(7);
        assert!(!backwards.refuses(7, at(0)));
        assert!(backwards.refuses(6, at(1)));
        assert!(!backwards.refuses(8, at(2)));
        // The first of these does not count any more.
        assert!(backwards.refuses(6, at(29)));
        assert!(backwards.refuses(5, at(58)));
        assert!(!backwards.refuses(3, at(60)));
        assert!(!backwards.refuses(4, at(61)));
    }
}
