//! Promises that are made, changed and given back. Each is one step on the ledger as it is at that moment, so nothing is
//! promised twice, whoever asks at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::promise::{
    PromiseBatch, PromiseEnd, PromiseRequest, PromiseResize, PromiseState, PromisesReleased, Room,
};
use estimand_capacity::{LedgerError, Tick, Window};
use estimand_service::{Decision, Request};

use super::edits::Edits;
use crate::change::{Change, Rejection};
use crate::core::book::Book;
use crate::core::nodes::Offer;
use crate::core::promise::{Promise, PromiseChange};
use crate::core::promises::Promises;
use crate::core::usage::Tally;
use crate::table::TaskTable;
use crate::task::millis;
use crate::writer::TasksState;

/// How many promises are kept. Beyond that the oldest of those that are over make room.
pub const MAX_PROMISES: usize = 20_000;

/// All of these, or none.
pub struct MakePromises {
    pub batch: PromiseBatch,
    /// By which the same request is known when it is sent again.
    pub key: Option<String>,
    pub by: String,
}

impl Request<TasksState> for MakePromises {
    /// The promises, whether they are new, and the ledger's revision.
    type Reply = (Vec<Arc<Promise>>, bool, u64);

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let (table, now) = (state.table(), state.tick());
        let promises = &table.promises;
        let known = self.key.as_deref().map(|key| promises.of_key(key)).unwrap_or_default();
        if let Some(first) = known.first() {
            let asked = known.iter().map(|promise| &promise.asked);
            return match asked.eq(self.batch.all_or_none.iter()) {
                true => Ok(Decision::Nothing((known, false, promises.revision))),
                false => Err(Rejection::PromiseKeyTaken(first.id.clone())),
            };
        }
        check_revision(promises, self.batch.if_revision)?;
        let removed = room(promises, self.batch.all_or_none.len())?;
        let windows: Vec<(PromiseRequest, Window)> = self
            .batch
            .all_or_none
            .into_iter()
            .map(|asked| Ok((asked.clone(), window(&asked, now)?)))
            .collect::<Result<_, Rejection>>()?;
        let units = table.book.promise(&windows).map_err(|room| {
            let room = Room { revision: promises.revision, ..room };
            let place = room.promise.and_then(|place| usize::try_from(place).ok()).unwrap_or(0);
            let asked = windows.get(place).map(|(asked, _)| asked.clone()).unwrap_or_default();
            Rejection::NoRoom { asked: Box::new(asked), room: Box::new(room) }
        })?;
        let mut made: Vec<Arc<Promise>> = Vec::new();
        for ((asked, window), units) in windows.into_iter().zip(units) {
            let number = promises.highest + 1 + made.len() as u64;
            let id = id(promises, &made, &asked, number)?;
            let begins = window.start() <= now;
            made.push(Arc::new(Promise {
                number,
                id,
                key: self.key.clone(),
                asked,
                state: if begins { PromiseState::Active } else { PromiseState::Promised },
                from: window.start(),
                until: window.end(),
                units,
                cause: "there is room for it".to_owned(),
                tally: Tally::default(),
                revision: promises.revision + 1,
                made_at: now,
                made_by: self.by.clone(),
            }));
        }
        let base = removed.iter().map(|promise| promise.revision).max().unwrap_or(0);
        let removed = removed.iter().map(|promise| promise.number).collect();
        let promises =
            PromiseChange { promises: made, removed, base, nodes: None, revision: promises.revision + 1 };
        Ok(Decision::change(change(table, state.now_us(), promises), |_: &TasksState, change| {
            (change.promises.promises.clone(), true, change.promises.revision)
        }))
    }
}

fn change(table: &TaskTable, at: i64, promises: PromiseChange) -> Change {
    Change { promises, highest: table.highest, at, ..Change::default() }
}

fn check_revision(promises: &Promises, given: Option<u64>) -> Result<(), Rejection> {
    let current = promises.revision;
    match given.filter(|given| *given != current) {
        Some(given) => Err(Rejection::LedgerMoved { given, current }),
        None if promises.nodes().is_none() => Err(Rejection::NodesUnknown),
        None => Ok(()),
    }
}

fn window(asked: &PromiseRequest, now: Tick) -> Result<Window, Rejection> {
    let from = asked.from.unwrap_or(now);
    match Window::new(from, asked.until) {
        Ok(window) if from >= now => Ok(window),
        _ => Err(Rejection::PastWindow { from, until: asked.until, now }),
    }
}

/// The promises that are over and make room for so many.
fn room(promises: &Promises, new: usize) -> Result<Vec<Arc<Promise>>, Rejection> {
    let missing = (promises.kept() + new).saturating_sub(MAX_PROMISES);
    let oldest = promises.oldest_over(missing);
    if oldest.len() == missing { Ok(oldest) } else { Err(Rejection::TooManyPromises(promises.kept())) }
}

fn id(
    promises: &Promises,
    made: &[Arc<Promise>],
    asked: &PromiseRequest,
    number: u64,
) -> Result<String, Rejection> {
    let is_free = |id: &str| promises.find(id).is_none() && made.iter().all(|promise| promise.id != id);
    match &asked.id {
        Some(id) if !is_free(id) => Err(Rejection::PromiseIdTaken(id.clone())),
        Some(id) => Ok(id.clone()),
        None => {
            let mut id = format!("p{number}");
            while !is_free(&id) {
                id.push('x');
            }
            Ok(id)
        }
    }
}

/// A live promise gets another end; one that has not begun another window and width. Its id and its tasks stay.
pub struct ResizePromise {
    pub id: String,
    pub to: PromiseResize,
}

impl Request<TasksState> for ResizePromise {
    type Reply = Arc<Promise>;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let (table, now) = (state.table(), state.tick());
        let promises = &table.promises;
        let promise = promises.find(&self.id).ok_or(Rejection::NoPromise(self.id))?;
        let PromiseResize { until, .. } = self.to;
        let width = promise.asked.width.max(1);
        let (from, wanted) = (self.to.from.unwrap_or(promise.from), self.to.width.unwrap_or(width));
        let is_only_longer = (from, wanted) == (promise.from, width);
        if is_only_longer && until == promise.until && promise.is_live() {
            return Ok(Decision::Nothing(Arc::clone(promise)));
        }
        check_revision(promises, self.to.if_revision)?;
        if !promise.is_live() {
            let state = promise.state.as_str();
            return Err(Rejection::PromiseOver { id: promise.id.clone(), state });
        }
        if !is_only_longer {
            let moved = moved(&table.book, promises.revision, promise, from, until, wanted, now)?;
            let change = change(table, state.now_us(), of_one(&moved));
            return Ok(Decision::change(change, move |_: &TasksState, _| moved));
        }
        if until <= now.max(promise.from) {
            return Err(Rejection::PastWindow { from: promise.from, until, now });
        }
        let resized = table.book.resized(promise, until).map_err(|error| match error {
            LedgerError::NoRoom { .. } => {
                Rejection::NoRoomToGrow { id: promise.id.clone(), reason: error.to_string() }
            }
            error => Rejection::NoRoomToGrow { id: promise.id.clone(), reason: error.to_string() },
        })?;
        let cause = format!("it ends at {until} and not at {}", promise.until);
        let resized = Arc::new(Promise { cause, revision: promises.revision + 1, ..resized });
        let change = change(table, state.now_us(), of_one(&resized));
        Ok(Decision::change(change, move |_: &TasksState, _| resized))
    }
}

/// The promise in another window or with another width, where there is room for that once its own is given back.
fn moved(
    book: &Book,
    revision: u64,
    promise: &Arc<Promise>,
    from: Tick,
    until: Tick,
    width: u64,
    now: Tick,
) -> Result<Arc<Promise>, Rejection> {
    if promise.state != PromiseState::Promised || promise.from <= now {
        return Err(Rejection::PromiseBegun(promise.id.clone()));
    }
    let asked = PromiseRequest { from: Some(from), until, width, ..promise.asked.clone() };
    let window = window(&asked, now)?;
    let units = book.replaced(promise, &asked, window).map_err(|room| Rejection::NoRoom {
        asked: Box::new(asked.clone()),
        room: Box::new(Room { revision, ..room }),
    })?;
    let state = if from <= now { PromiseState::Active } else { PromiseState::Promised };
    let cause = format!(
        "it has {width} units from {from} until {until}, and not {} from {} until {}",
        promise.asked.width.max(1),
        promise.from,
        promise.until
    );
    let moved = Promise {
        asked,
        state,
        from,
        until,
        units,
        cause,
        revision: revision + 1,
        ..Promise::clone(promise)
    };
    Ok(Arc::new(moved))
}

fn of_one(promise: &Arc<Promise>) -> PromiseChange {
    let revision = promise.revision;
    PromiseChange { promises: vec![Arc::clone(promise)], revision, ..PromiseChange::default() }
}

/// A promise is given back; its tasks end.
pub struct ReleasePromise {
    pub id: String,
    pub by: String,
}

impl Request<TasksState> for ReleasePromise {
    type Reply = Arc<Promise>;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let table = state.table();
        let promise = table.promises.find(&self.id).ok_or(Rejection::NoPromise(self.id))?;
        if !promise.is_live() {
            return Ok(Decision::Nothing(Arc::clone(promise)));
        }
        let change = with_tasks(state, vec![released(promise, &self.by)], None);
        let reply = |_: &TasksState, change: &Change| Arc::clone(&change.promises.promises[0]);
        Ok(Decision::change(change, reply))
    }
}

fn released(promise: &Promise, by: &str) -> Promise {
    promise.then(PromiseState::Released, format!("`{by}` gave it back"))
}

/// Promises are given back in one step, so the ledger moves on once; their tasks end. Those that are over are passed over.
pub struct ReleasePromises {
    pub ids: Vec<String>,
    pub by: String,
}

impl Request<TasksState> for ReleasePromises {
    type Reply = PromisesReleased;

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, PromisesReleased>, Rejection> {
        let promises = &state.table().promises;
        let ids: BTreeSet<String> = self.ids.into_iter().collect();
        let live = ids.iter().filter_map(|id| promises.find(id)).filter(|promise| promise.is_live());
        let all: Vec<Promise> = live.map(|promise| released(promise, &self.by)).collect();
        if all.is_empty() {
            let revision = promises.revision;
            return Ok(Decision::Nothing(PromisesReleased { revision, released: Vec::new() }));
        }
        let reply = |_: &TasksState, change: &Change| {
            let PromiseChange { promises, revision, .. } = &change.promises;
            let released = promises.iter().filter(|promise| promise.state == PromiseState::Released);
            let released = released.map(|promise| promise.id.clone()).collect();
            PromisesReleased { revision: *revision, released }
        };
        Ok(Decision::change(with_tasks(state, all, None), reply))
    }
}

/// Time has passed: promises begin and end, and their tasks are asked to end before that.
pub struct PassTime;

impl Request<TasksState> for PassTime {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let table = state.table();
        let due = table.promises.due(state.tick());
        if !due.is_empty() {
            return Ok(Decision::change(with_tasks(state, due, None), |_, _| ()));
        }
        let mut edits = Edits::new(table, state.now_us());
        for task in table.leaving(millis(state.now_us())) {
            let promise = task.document.promise.as_deref().unwrap_or_default();
            edits.end_for(task, PromiseEnd::reason(promise));
        }
        Ok(match edits.finish() {
            Some(change) => Decision::change(change, |_, _| ()),
            None => Decision::Nothing(()),
        })
    }
}

/// The nodes have changed, or the lease of a task on a silent one is over: what was promised on them is planned anew.
pub struct NodeOffers(pub Vec<Offer>);

impl Request<TasksState> for NodeOffers {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let table = state.table();
        let changed =
            table.promises.replanned(&self.0, state.tick(), &|promise, node| held(table, promise, node));
        let is_known = table.promises.nodes().is_some_and(|known| **known == self.0);
        if is_known && changed.is_empty() {
            return Ok(Decision::Nothing(()));
        }
        for promise in changed.iter().filter(|promise| !promise.is_live()) {
            tracing::warn!(promise = promise.id, cause = promise.cause, "a promise is broken");
        }
        Ok(Decision::change(with_tasks(state, changed, Some(Arc::new(self.0))), |_, _| ()))
    }
}

/// How many tasks of a promise are on a node by leases of their own, which hold while the node is silent.
fn held(table: &TaskTable, promise: &Promise, node: &str) -> usize {
    let tasks = table.of_promise(&promise.id).filter_map(|number| table.get(number));
    tasks.filter(|task| task.placed_on() == Some(node) && task.progress.lease_ms.is_some()).count()
}

/// The change of promises, with the end of the tasks of those that have ended.
fn with_tasks(state: &TasksState, changed: Vec<Promise>, nodes: Option<Arc<Vec<Offer>>>) -> Change {
    let (table, at) = (state.table(), state.now_us());
    let mut edits = Edits::new(table, at);
    edits.change_promises(changed);
    let mut change = edits.finish().unwrap_or_else(|| change(table, at, PromiseChange::default()));
    change.promises.nodes = nodes;
    change.promises.revision = table.promises.revision + 1;
    change
}
