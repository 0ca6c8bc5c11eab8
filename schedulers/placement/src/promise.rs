//! A promise of capacity, as it is kept: so many units of the same amounts, each on a node, all with one window.

use std::sync::Arc;
use std::time::Duration;

use estimand_api::promise::{DEFAULT_CLASS, PromiseEnd, PromiseRecord, PromiseRequest, PromiseState};
use estimand_api::task_stop::end_grace;
use estimand_capacity::{Amounts, Tick, Window};

use super::Millis;
use super::nodes::Offer;
use super::request::with_place;
use super::usage::{Tally, Term};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// In the order in which they were given.
    pub number: u64,
    pub id: String,
    /// The key of its request, by which a repeated one is known.
    pub key: Option<String>,
    /// As it was asked for.
    pub asked: PromiseRequest,
    pub state: PromiseState,
    pub from: Tick,
    pub until: Tick,
    /// The node of each unit.
    pub units: Vec<String>,
    /// Why it is in its state, or on other nodes than before.
    pub cause: String,
    /// The usage of its tasks that are over.
    pub tally: Tally,
    /// The revision of the ledger with which it changed last.
    pub revision: u64,
    pub made_at: Tick,
    pub made_by: String,
}

impl Promise {
    pub fn class(&self) -> &str {
        class(&self.asked)
    }

    pub fn is_live(&self) -> bool {
        self.state.is_live()
    }

    /// The term of a task with or without an image and a user. Nodes that are not known count as fitting.
    pub fn term(&self, nodes: &[Offer], has_image: bool, has_user: bool) -> Term {
        let runs =
            |node: &Offer| if has_image { node.runs_containers() } else { !has_user || !node.refuses_users };
        let is_run = |unit: &String| nodes.iter().find(|node| node.name == *unit).is_none_or(runs);
        let fits = !(has_image || has_user) || self.units.iter().any(is_run);
        Term { window: Millis::of_tick(self.from)..Millis::of_tick(self.until), fits }
    }

    /// Between the end of its tasks and that of its window.
    fn grace(&self) -> Duration {
        end_grace(self.length())
    }

    fn length(&self) -> Duration {
        Duration::from_secs(self.until.saturating_sub(self.from))
    }

    /// When its tasks are asked to end.
    pub fn leave_at(&self) -> Millis {
        Millis::of_tick(self.until).saturating_sub(self.grace().into())
    }

    /// Its end, as the agent of a task with such a grace for a checkpoint is told it at this moment; none if it ended otherwise.
    pub fn end_from(&self, now: Millis, checkpoint: Option<Duration>) -> Option<PromiseEnd> {
        let has_end = self.is_live() || self.state == PromiseState::Over;
        // Half of the window is for its work.
        let checkpoint = checkpoint.map(|grace| grace.min(self.length() / 2).max(self.grace()));
        has_end.then(|| PromiseEnd {
            promise: self.id.clone(),
            until: self.until,
            left_ms: Millis::of_tick(self.until).saturating_sub(now).0,
            grace_ms: Millis::from(self.grace()).0,
            checkpoint_ms: checkpoint.map(|grace| Millis::from(grace).0),
        })
    }

    /// The amounts of each unit, a place for a task among them.
    pub fn amounts(&self) -> Amounts {
        amounts(&self.asked)
    }

    /// None for a window that is empty, which no promise has.
    pub fn window(&self) -> Option<Window> {
        Window::new(self.from, self.until).ok()
    }

    /// The same in another state.
    #[must_use]
    pub fn then(&self, state: PromiseState, cause: impl Into<String>) -> Promise {
        Promise { state, cause: cause.into(), ..self.clone() }
    }

    /// The promise as readers see it, without what its tasks had.
    pub fn record(&self) -> PromiseRecord {
        PromiseRecord {
            id: self.id.clone(),
            state: self.state,
            resources: self.asked.resources.clone(),
            class: self.class().to_owned(),
            from: self.from,
            until: self.until,
            value: self.asked.value,
            user: self.asked.user.clone(),
            units: self.units.clone(),
            cause: self.cause.clone(),
            tasks: None,
            revision: self.revision,
            made_at: self.made_at,
            made_by: self.made_by.clone(),
        }
    }

    /// The reason for the end of its tasks, if it has no capacity any more.
    pub fn end(&self) -> Option<String> {
        let word = match self.state {
            PromiseState::Promised | PromiseState::Active => return None,
            PromiseState::Over => "is over",
            PromiseState::Released => "was released",
            PromiseState::Broken => "was broken",
        };
        Some(format!("its promise `{}` {word}: {}", self.id, self.cause))
    }
}

pub fn class(asked: &PromiseRequest) -> &str {
    asked.class.as_deref().unwrap_or(DEFAULT_CLASS)
}

pub fn amounts(asked: &PromiseRequest) -> Amounts {
    with_place(&super::request::amounts(&asked.resources))
}

/// A change of promises and of the ledger under them, with one revision.
#[derive(Debug, Clone, Default)]
pub struct PromiseChange {
    /// Each as it is now.
    pub promises: Vec<Arc<Promise>>,
    /// The numbers of those that are not kept any more.
    pub removed: Vec<u64>,
    /// All nodes, if one of them changed.
    pub nodes: Option<Arc<Vec<Offer>>>,
    /// The ledger's revision from now on; 0: nothing of it has changed.
    pub revision: u64,
    /// Promises that were over at this revision may be gone.
    pub base: u64,
}
