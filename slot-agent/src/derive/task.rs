//! The task that keeps an [`Engine`] supplied: it watches what is read, recalls kept history, and hands over what a
//! round gave.
//!
//! A round comes at once when the data service has said all that belongs together, or a moment after it began to: so no
//! formula sees half of a batch. The changes that are heard of while one runs make the next one: so many changes make
//! few rounds, and one change waits for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::write::Write;
use estimand_client::{self as client, Client, Event};
use estimand_expressions::PastPart;
use estimand_runtime::{Clock, Stop};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::engine::{Engine, Round};
use super::formula::Formula;
use super::once;
use super::recall::{self, Recall};
use super::table::Moment;
use crate::deliver::Outbox;

/// The longest wait for what belongs together, if nobody says that it is complete.
const SETTLES_WITHIN: Duration = Duration::from_millis(20);
/// How long a round is put off that has no room for what it would give, or that follows one which left formulas due.
const PUT_OFF: Duration = Duration::from_millis(2);
/// No round while more writes than this are not delivered yet.
const MAX_UNDELIVERED: usize = 1_000;
/// The most writes that are handed over at once: as many as leave in one batch.
const MAX_PIECE: usize = 5_000;
/// Messages that wait for the task.
const MAX_WAITING: usize = 1_024;
/// After so much evaluating others get a turn.
const YIELD_AFTER: Duration = Duration::from_millis(5);

/// Takes what a formula gives.
pub trait Sink: Send + Sync {
    /// The writes to hand over of a round. It also reports the round to its slot.
    fn take(&self, round: Round, now: Moment, took: Duration) -> Vec<Write>;
}

enum Message {
    Put {
        key: u64,
        formula: Box<Formula>,
        valid_for: i64,
        sink: Arc<dyn Sink>,
    },
    FallDue {
        key: u64,
    },
    Remove {
        key: u64,
        done: oneshot::Sender<()>,
    },
    /// Of the watch of that number; none: what belongs together is complete.
    Heard {
        watch: u64,
        event: Option<Event>,
    },
    /// The watch was refused.
    Refused {
        watch: u64,
        reason: String,
    },
    /// Evaluates a formula apart from the others.
    Once {
        formula: Box<Formula>,
        reply: oneshot::Sender<Result<Round, String>>,
    },
    Recalled {
        input: DataName,
        part: PastPart,
        past: BTreeMap<NodeName, Vec<(i64, Value)>>,
    },
}

/// The way to the task.
#[derive(Clone)]
pub struct Derive {
    messages: mpsc::Sender<Message>,
}

impl Derive {
    /// Has the formula evaluated from now on.
    pub async fn put(&self, key: u64, formula: Formula, valid_for: i64, sink: Arc<dyn Sink>) {
        let formula = Box::new(formula);
        let _ = self.messages.send(Message::Put { key, formula, valid_for, sink }).await;
    }

    /// Time has passed, which may be enough to change what it gives.
    pub async fn fall_due(&self, key: u64) {
        let _ = self.messages.send(Message::FallDue { key }).await;
    }

    /// Evaluates a formula once over what is known now. Nothing of it is handed over, and no other formula sees it.
    pub async fn once(&self, formula: Formula) -> Result<Round, String> {
        let (reply, answer) = oneshot::channel();
        let _ = self.messages.send(Message::Once { formula: Box::new(formula), reply }).await;
        answer.await.unwrap_or_else(|_| Err("the agent ends".to_owned()))
    }

    /// When this returns nothing of it is handed over any more.
    pub async fn remove(&self, key: u64) {
        let (done, gone) = oneshot::channel();
        if self.messages.send(Message::Remove { key, done }).await.is_ok() {
            let _ = gone.await;
        }
    }
}

/// The state of the task.
pub struct Task {
    own: NodeName,
    engine: Engine,
    sinks: BTreeMap<u64, Arc<dyn Sink>>,
    inbox: mpsc::Receiver<Message>,
    messages: mpsc::Sender<Message>,
    server: watch::Receiver<String>,
    /// For the client of the data service.
    options: client::Options,
    outbox: Arc<Outbox>,
    clock: Arc<dyn Clock>,
    started: Instant,
    /// The inputs that are watched, by the watch of that number.
    watched: WatchedInputs,
    watches: u64,
    /// The watch and what recalls history.
    helpers: JoinSet<()>,
    following: Option<tokio::task::AbortHandle>,
    /// When the next round is due.
    round_at: Option<Instant>,
}

#[derive(Debug, Default, PartialEq)]
struct WatchedInputs {
    server: String,
    names: BTreeSet<DataName>,
    own_only: bool,
}

impl Task {
    pub fn new(
        own: NodeName,
        server: watch::Receiver<String>,
        options: client::Options,
        outbox: Arc<Outbox>,
        clock: Arc<dyn Clock>,
    ) -> (Derive, Self) {
        let (messages, inbox) = mpsc::channel(MAX_WAITING);
        let derive = Derive { messages: messages.clone() };
        let task = Task {
            engine: Engine::new(own.clone()),
            own,
            sinks: BTreeMap::new(),
            inbox,
            messages,
            server,
            options,
            outbox,
            clock,
            started: Instant::now(),
            watched: WatchedInputs::default(),
            watches: 0,
            helpers: JoinSet::new(),
            following: None,
            round_at: None,
        };
        (derive, task)
    }

    pub async fn run(&mut self, stop: &Stop) {
        loop {
            let round_at = self.round_at;
            tokio::select! {
                biased;
                () = stop.requested() => break,
                () = at(round_at) => self.round(stop).await,
                Some(message) = self.inbox.recv() => {
                    self.take(message);
                    while let Ok(message) = self.inbox.try_recv() {
                        self.take(message);
                    }
                    self.watch();
                }
                Ok(()) = self.server.changed() => self.watch(),
                Some(_) = self.helpers.join_next() => {}
            }
        }
        self.helpers.shutdown().await;
    }

    fn now(&self) -> Moment {
        let mono = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        Moment { wall_us: self.clock.now_micros(), mono_us: mono }
    }

    fn take(&mut self, message: Message) {
        let now = self.now();
        let mut settled = false;
        match message {
            Message::Put { key, formula, valid_for, sink } => {
                self.recall(&formula);
                self.engine.put(key, *formula, valid_for);
                self.sinks.insert(key, sink);
            }
            Message::FallDue { key } => {
                self.engine.fall_due(key);
                settled = true;
            }
            Message::Remove { key, done } => {
                self.engine.remove(key);
                self.sinks.remove(&key);
                let _ = done.send(());
            }
            Message::Heard { watch, .. } | Message::Refused { watch, .. } if watch != self.watches => {}
            Message::Heard { event: None, .. } => settled = true,
            Message::Heard { event: Some(event), .. } => match event {
                Event::Snapshot { values, .. } => {
                    self.engine.snapshot(values, now);
                    settled = true;
                }
                Event::Change(value) => self.engine.change(*value, now),
                Event::Delete { data_name, node_name, .. } => self.engine.delete(&data_name, &node_name),
            },
            Message::Refused { reason, .. } => {
                tracing::error!(%reason, "what formulas read cannot be watched");
                // Tried again when something is put or falls due.
                self.watched = WatchedInputs::default();
            }
            Message::Once { formula, reply } => self.evaluate_apart(*formula, reply),
            Message::Recalled { input, part, past } => self.engine.recall(&input, &part, past),
        }
        self.plan_round(settled);
    }

    fn plan_round(&mut self, settled: bool) {
        if !self.engine.is_due() {
            self.round_at = None;
            return;
        }
        let patience = if settled { Duration::ZERO } else { SETTLES_WITHIN };
        let at = Instant::now() + patience;
        self.round_at = Some(self.round_at.map_or(at, |planned| planned.min(at)));
    }

    /// Plans the round after one, or in its place. Not at once, so that what is heard of has its turn before.
    fn put_off_round(&mut self) {
        self.round_at = self.engine.is_due().then(|| Instant::now() + PUT_OFF);
    }

    /// Evaluates all that is due, each formula once, and hands over what that gives in one piece.
    async fn round(&mut self, stop: &Stop) {
        self.round_at = None;
        if self.is_behind() {
            return self.put_off_round();
        }
        let now = self.now();
        let mut writes = Vec::new();
        let (mut last, mut turn) = (None, Instant::now());
        loop {
            let began = Instant::now();
            let Some((key, round)) = self.engine.next(last, now) else { break };
            last = Some(key);
            if let Some(sink) = self.sinks.get(&key) {
                writes.extend(sink.take(round, now, began.elapsed()));
            }
            if turn.elapsed() > YIELD_AFTER {
                tokio::task::yield_now().await;
                turn = Instant::now();
            }
        }
        self.hand_over(writes, stop).await;
        self.put_off_round();
    }

    /// In one piece if they fit into one batch; more than that waits here, because the outbox gives up what its memory
    /// has no room for.
    async fn hand_over(&mut self, mut writes: Vec<Write>, stop: &Stop) {
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(MAX_PIECE));
            self.outbox.put(writes);
            writes = rest;
            while !writes.is_empty() && self.is_behind() && !stop.is_requested() {
                sleep(PUT_OFF).await;
            }
        }
    }

    /// True if so much of the rounds before is still on its way that the values of another one would only be out of date
    /// when its turn comes, and take the memory of what waits: what changes meanwhile is evaluated once, later. Not
    /// while nothing can be delivered, because then what is computed is kept like everything else.
    fn is_behind(&self) -> bool {
        let figures = self.outbox.figures();
        figures.failing_since.is_none() && figures.waiting_items > MAX_UNDELIVERED
    }

    /// Watches what is read, if that is not what is watched already.
    fn watch(&mut self) {
        let server = self.server.borrow_and_update().clone();
        let wanted =
            WatchedInputs { server, names: self.engine.inputs(), own_only: !self.engine.reads_other_nodes() };
        if wanted == self.watched {
            return;
        }
        if let Some(following) = self.following.take() {
            following.abort();
        }
        self.watches += 1;
        if !wanted.names.is_empty() {
            let names: Vec<DataName> = wanted.names.iter().cloned().collect();
            let node = wanted.own_only.then(|| self.own.clone());
            match Client::with_options(&wanted.server, self.options.clone()) {
                Ok(client) => {
                    let follow = follow(client, names, node, self.watches, self.messages.clone());
                    self.following = Some(self.helpers.spawn(follow));
                }
                Err(error) => tracing::warn!(%error, "the manager named a data service that has no address"),
            }
        }
        self.watched = wanted;
    }

    /// Asks for what was kept of the inputs whose past the formula looks at.
    fn recall(&mut self, formula: &Formula) {
        let server = self.server.borrow().clone();
        let Ok(client) = Client::with_options(&server, self.options.clone()) else { return };
        for Recall { input, part, query } in recall::recalls(&formula.spec, &self.own) {
            let (client, messages) = (client.clone(), self.messages.clone());
            self.helpers.spawn(async move {
                match recall::kept(&client, &input, &query).await {
                    Ok(past) => drop(messages.send(Message::Recalled { input, part, past }).await),
                    Err(error) => tracing::warn!(%error, %input, "its history cannot be read"),
                }
            });
        }
    }

    /// Evaluates a formula that is none of the engine's, once.
    fn evaluate_apart(&mut self, formula: Formula, reply: oneshot::Sender<Result<Round, String>>) {
        let (server, now) = (self.server.borrow().clone(), self.now());
        let (own, options) = (self.own.clone(), self.options.clone());
        self.helpers.spawn(async move {
            let round = match Client::with_options(&server, options) {
                Ok(client) => once::evaluate(&client, own, formula, now).await,
                Err(error) => Err(error),
            };
            let _ = reply.send(round.map_err(|error| error.to_string()));
        });
    }
}

/// Passes on what a watch tells, until it is refused.
async fn follow(
    client: Client,
    names: Vec<DataName>,
    node: Option<NodeName>,
    watch: u64,
    messages: mpsc::Sender<Message>,
) {
    let mut events = client.watch(names);
    if let Some(node) = node {
        events = events.of_node(node);
    }
    loop {
        let message = match events.heard().await {
            Ok(event) => Message::Heard { watch, event },
            Err(error) => Message::Refused { watch, reason: error.to_string() },
        };
        let over = matches!(message, Message::Refused { .. });
        if messages.send(message).await.is_err() || over {
            return;
        }
    }
}

async fn at(when: Option<Instant>) {
    match when {
        // A timer goes by whole milliseconds, so what is due already would wait for the next one.
        Some(when) if when <= Instant::now() => {}
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
