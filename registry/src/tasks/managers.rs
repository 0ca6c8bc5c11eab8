//! The managers, which have registrations run. They read the registry by themselves every few seconds and are
//! told of changes only so that they look sooner.
//!
//! After a creation or a replacement they are poked in the background, each at its own pace, so that one that
//! hangs delays no other. The changes that wait for a manager are kept by name, hence once, and are bounded; they are
//! dropped when the manager gives no answer, because the next change that it is told of makes it read everything. One
//! that stands by answers at once and is told of all: it may lead in a moment. After a deletion the caller waits
//! until the manager that leads confirms that the slots are gone, and gets a hint if that is not certain. Nothing
//! here changes registrations, and a manager that is away never fails a change.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use estimand_api::names::{DataName, NodeName};
use estimand_api::notice::Termination;
use estimand_api::problem::kind;
use estimand_client::{Client, Error, Options};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value};
use tokio::sync::{Notify, SetOnce};
use tokio::time::timeout;

use super::histories::Histories;
use crate::core::{Registrations, StoredRegistration};

/// How long a poke may take; the manager answers it after it has looked once.
const POKE_WITHIN: Duration = Duration::from_secs(6);
/// How long a deletion waits; the manager gives its agents a little less.
const GONE_WITHIN: Duration = Duration::from_secs(12);
/// How many names may wait for one manager.
const MAX_WAITING: usize = 256;
/// How many nodes a hint names.
const MAX_NAMED: usize = 20;

/// The options of a client for [`set_managers`](crate::Registry::set_managers): each request is sent once, and
/// may take as long as a deletion waits.
pub fn manager_options() -> Options {
    Options {
        connect_timeout: Duration::from_secs(2),
        read_timeout: GONE_WITHIN,
        total_timeout: GONE_WITHIN,
        attempts: 1,
        ..Options::default()
    }
}

/// All managers, once they are known.
pub struct Managers {
    all: SetOnce<Vec<Manager>>,
}

struct Manager {
    client: Client,
    /// The names whose changes it should be told.
    waiting: Mutex<BTreeSet<DataName>>,
    poked: Notify,
    /// True if its last attempt failed: then that was logged.
    failing: AtomicBool,
}

/// The answer of a manager.
enum Answer<T> {
    Confirmed(T),
    StandsBy,
    /// It understood and rejected the request with this status.
    Rejected(u16),
    /// No answer, or none of use.
    Missing,
}

impl Managers {
    pub fn new() -> Self {
        Managers { all: SetOnce::new() }
    }

    /// Sets the managers that are told of changes. Only the first list with any counts.
    pub fn set(&self, clients: Vec<Client>) {
        if clients.is_empty() {
            return;
        }
        if self.all.set(clients.into_iter().map(Manager::new).collect()).is_err() {
            tracing::warn!("the registry knows its managers already; the second list is not used");
        }
    }

    /// A registration is new or another than before.
    pub fn poke(&self, name: &DataName) {
        for manager in self.all.get().into_iter().flatten() {
            manager.put(name);
        }
    }

    /// The task: tells every manager the changes that wait for it.
    pub async fn run(&self, registrations: &ArcSwapOption<Registrations>, histories: &Histories) {
        let all = self.all.wait().await;
        join_all(all.iter().map(|manager| manager.follow(registrations, histories))).await;
    }

    /// Waits until the slots of a name that is registered no more are gone. Returns a hint for people if that is not
    /// certain.
    pub async fn gone(&self, name: &DataName) -> Option<String> {
        let mut asked: FuturesUnordered<_> =
            self.all.get()?.iter().map(|manager| manager.ask_gone(name)).collect();
        while let Some(answer) = asked.next().await {
            match answer {
                Answer::Confirmed(Termination { unreachable, .. }) => {
                    return (!unreachable.is_empty()).then(|| still_on(name, &unreachable));
                }
                Answer::Rejected(409) => return Some(registered_anew(name)),
                Answer::StandsBy | Answer::Rejected(_) | Answer::Missing => {}
            }
        }
        Some(no_leader(name))
    }
}

impl Manager {
    fn new(client: Client) -> Self {
        Manager { client, waiting: Mutex::default(), poked: Notify::new(), failing: AtomicBool::new(false) }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeSet<DataName>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, name: &DataName) {
        let mut waiting = self.waiting();
        // Beyond the bound a name is left out: those that wait make the manager read this one as well.
        if waiting.len() < MAX_WAITING {
            waiting.insert(name.clone());
        }
        drop(waiting);
        self.poked.notify_one();
    }

    /// Tells of one name after the other, for ever.
    async fn follow(&self, registrations: &ArcSwapOption<Registrations>, histories: &Histories) {
        loop {
            let next = self.waiting().pop_first();
            let Some(name) = next else {
                self.poked.notified().await;
                continue;
            };
            // Or an agent may write its first values before they are kept.
            histories.all_tried().await;
            // The registration is sent as it is now. A name that is gone meanwhile is told of by its deletion.
            let Some(registration) = current(registrations, &name) else { continue };
            let told = timeout(POKE_WITHIN, self.client.tell_manager(&registration)).await;
            match self.answer(told.ok()) {
                Answer::Confirmed(_) | Answer::Rejected(_) | Answer::StandsBy => {}
                Answer::Missing => self.waiting().clear(),
            }
        }
    }

    async fn ask_gone(&self, name: &DataName) -> Answer<Termination> {
        let told = timeout(GONE_WITHIN, self.client.tell_manager_gone(name)).await;
        self.answer(told.ok())
    }

    /// Takes in how an attempt ended, none if it took too long. Of failures in a row the first one is logged,
    /// and their end.
    fn answer<T>(&self, told: Option<Result<T, Error>>) -> Answer<T> {
        let (answer, cause) = match told {
            Some(Ok(answer)) => (Answer::Confirmed(answer), None),
            Some(Err(Error::Problem(problem))) if problem.kind == kind::STANDING_BY => {
                (Answer::StandsBy, None)
            }
            Some(Err(Error::Problem(problem))) if problem.status < 500 => {
                tracing::debug!(manager = %self.client.address(), %problem, "a manager refused what it was told");
                (Answer::Rejected(problem.status), None)
            }
            Some(Err(error)) => (Answer::Missing, Some(error.to_string())),
            None => (Answer::Missing, Some("no answer in time".to_owned())),
        };
        let failed_before = self.failing.swap(cause.is_some(), Ordering::Relaxed);
        let manager = self.client.address();
        match cause {
            Some(cause) if !failed_before => {
                tracing::warn!(%manager, cause, "a manager was not told of a change; it looks by itself");
            }
            None if failed_before => tracing::info!(%manager, "a manager answers again"),
            _ => {}
        }
        answer
    }
}

/// The registration of a name as it is now; none if it is gone, or cannot be read.
fn current(registrations: &ArcSwapOption<Registrations>, name: &DataName) -> Option<Map<String, Value>> {
    let registrations = registrations.load();
    let entry = registrations.as_ref()?.get(name.as_str()).and_then(StoredRegistration::readable)?;
    // A manager reads the rest by itself.
    Some(entry.registered.redacted().to_map())
}

fn still_on(name: &DataName, nodes: &BTreeSet<NodeName>) -> String {
    let named: Vec<&str> = nodes.iter().take(MAX_NAMED).map(NodeName::as_str).collect();
    let more = match nodes.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "`{name}` may still run on {}{more}, from where its end was not confirmed; each node ends it when it is \
         heard of again",
        named.join(", ")
    )
}

fn no_leader(name: &DataName) -> String {
    format!(
        "no manager that leads has answered, so `{name}` may still run; a manager ends it when there is one"
    )
}

fn registered_anew(name: &DataName) -> String {
    format!("`{name}` was registered anew before its slots had ended")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::SocketAddr;

    use estimand_serving::client_with;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    fn name(text: &str) -> DataName {
        DataName::parse(text).unwrap()
    }

    fn managers(addresses: &[SocketAddr]) -> Managers {
        let managers = Managers::new();
        managers.set(addresses.iter().map(|address| client_with(*address, manager_options())).collect());
        managers
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_does_not_wait_for_ever() {
        // It takes connections, and never says anything.
        let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let managers = managers(&[deaf.local_addr().unwrap()]);
        let start = Instant::now();
        let hint = managers.gone(&name("a")).await.unwrap();
        assert!(start.elapsed() <= GONE_WITHIN + Duration::from_millis(10), "{:?}", start.elapsed());
        assert_eq!(hint, no_leader(&name("a")));
    }

    #[tokio::test]
    async fn without_managers_nobody_waits_and_nothing_is_kept() {
        let none = managers(&[]);
        none.poke(&name("a"));
        assert_eq!(none.gone(&name("a")).await, None);
    }

    #[test]
    fn what_waits_is_kept_once_and_bounded() {
        let managers = managers(&["127.0.0.1:1".parse().unwrap()]);
        for _ in 0..2 {
            (0..2 * MAX_WAITING).for_each(|place| managers.poke(&name(&format!("n{place}"))));
        }
        assert_eq!(managers.all.get().unwrap()[0].waiting().len(), MAX_WAITING);
    }

    #[test]
    fn a_hint_names_some_of_many_nodes() {
        let many = (10..60).map(|place| NodeName::parse(&format!("node-{place}")).unwrap()).collect();
        let hint = still_on(&name("a"), &many);
        assert!(hint.contains("node-28, node-29 and 30 more, from where"), "{hint}");
    }
}
