//! The tunnels that people wait for, those that agents make, and how many of them there may be.
//!
//! Somebody who wants a tunnel leaves an order and waits. The agent of the node reads the orders of its node, however often,
//! until it has made or refused the tunnel or the one who waits has given up. Nothing of this is stored: a service that
//! starts anew has no tunnels. Numbers are never given twice, also not by another start, so no order is taken for another.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;
use estimand_api::tunnel::TunnelOrder;
use estimand_runtime::metrics::Counter;
use estimand_runtime::tunnel::{Half, pair};
use estimand_web::{Permit as SharePermit, User};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::core::queue::TaskNumber;
use crate::core::state::State;
use crate::task::Task;

/// The most tunnels of one task, and of all together.
pub const MAX_OF_A_TASK: usize = 128;
pub const MAX_OF_ALL: usize = 512;
/// How long an agent may take to make one.
const MADE_WITHIN: Duration = Duration::from_secs(10);

/// A connection to the port of a task.
pub struct Tunnel {
    pub half: Half,
    pub permit: Permit,
}

#[derive(Debug)]
pub struct Tunnels {
    book: Mutex<Book>,
    /// Rung when there is another order.
    bell: watch::Sender<u64>,
    pub opened: Counter,
    pub failed: Counter,
}

#[derive(Debug)]
struct Book {
    /// The number of the last order.
    last: u64,
    orders: BTreeMap<u64, Waiting>,
    /// How many tunnels a task has, or waits for.
    of_tasks: HashMap<TaskNumber, usize>,
    of_all: usize,
}

/// An order, and the one who waits for it.
#[derive(Debug)]
struct Waiting {
    node: String,
    order: TunnelOrder,
    answer: oneshot::Sender<Result<Half, String>>,
}

/// A place among the tunnels of a task; given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    tunnels: Arc<Tunnels>,
    task: TaskNumber,
    /// The part of whoever uses it.
    _share: SharePermit,
}

/// An order that is withdrawn when nobody waits for it any more.
struct Withdrawal<'t> {
    tunnels: &'t Tunnels,
    number: u64,
}

impl Tunnels {
    /// `now` is in microseconds since 1970: numbers go on from there.
    pub fn new(now: i64) -> Arc<Self> {
        let last = u64::try_from(now).unwrap_or(0);
        let book = Book { last, orders: BTreeMap::new(), of_tasks: HashMap::new(), of_all: 0 };
        let (opened, failed) = (Counter::new(), Counter::new());
        Arc::new(Tunnels { book: Mutex::new(book), bell: watch::Sender::new(0), opened, failed })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are, those that are waited for among them.
    pub fn count(&self) -> usize {
        self.book().of_all
    }

    /// A tunnel to the port of a task, which its agent makes meanwhile.
    pub async fn open(self: &Arc<Self>, task: &Task, user: Option<&User>) -> Result<Tunnel, Problem> {
        self.open_within(task, user, MADE_WITHIN).await
    }

    async fn open_within(
        self: &Arc<Self>,
        task: &Task,
        user: Option<&User>,
        within: Duration,
    ) -> Result<Tunnel, Problem> {
        let node = node_of(task)?;
        let permit = self.permit(task, user)?;
        let (answer, answered) = oneshot::channel();
        let withdrawal = self.order(task, node, answer);
        let made = timeout(within, answered).await;
        drop(withdrawal);
        match made {
            Ok(Ok(Ok(half))) => {
                self.opened.increment();
                Ok(Tunnel { half, permit })
            }
            made => {
                self.failed.increment();
                let detail = match made {
                    Ok(Ok(Err(reason))) => reason,
                    _ => format!(
                        "the agent of `{node}`, where `{}` runs, has not connected within {} s",
                        task.id,
                        within.as_secs()
                    ),
                };
                Err(Problem::unavailable(detail, 1))
            }
        }
    }

    fn permit(self: &Arc<Self>, task: &Task, user: Option<&User>) -> Result<Permit, Problem> {
        let share = SharePermit::take_for(user, ShareKind::Tunnels, MAX_OF_ALL as u64)?;
        let mut book = self.book();
        let of_task = book.of_tasks.get(&task.number).copied().unwrap_or(0);
        let (id, most) = (&task.id, MAX_OF_A_TASK);
        if of_task >= most {
            return Err(Problem::unavailable(
                format!("`{id}` has {most} connections already, which is the most"),
                1,
            ));
        }
        if book.of_all >= MAX_OF_ALL {
            let detail = format!("there are {MAX_OF_ALL} connections to tasks already, which is the most");
            return Err(Problem::unavailable(detail, 1));
        }
        book.of_tasks.insert(task.number, of_task + 1);
        book.of_all += 1;
        Ok(Permit { tunnels: Arc::clone(self), task: task.number, _share: share })
    }

    fn order(
        &self,
        task: &Task,
        node: &str,
        answer: oneshot::Sender<Result<Half, String>>,
    ) -> Withdrawal<'_> {
        let mut book = self.book();
        book.last += 1;
        let number = book.last;
        let order = TunnelOrder { number, id: task.id.clone(), attempt: task.progress.attempt };
        book.orders.insert(number, Waiting { node: node.to_owned(), order, answer });
        drop(book);
        self.bell.send_modify(|rung| *rung += 1);
        Withdrawal { tunnels: self, number }
    }

    /// Heard when there is another order.
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// The orders of a node after this number. A number that was never given is one of a service whose clock was ahead.
    pub fn orders(&self, node: &str, after: u64) -> Vec<TunnelOrder> {
        let book = self.book();
        let after = if after > book.last { 0 } else { after };
        let later = book.orders.range(after.saturating_add(1)..).map(|(_, waiting)| waiting);
        later.filter(|waiting| waiting.node == node).map(|waiting| waiting.order.clone()).collect()
    }

    /// The agent that `speaks_for` the node of an order has made its tunnel. The half of the agent.
    pub fn make(&self, number: u64, speaks_for: impl FnOnce(&str) -> bool) -> Result<Half, Problem> {
        let (own, other) = pair();
        let answer = self.take(number, speaks_for)?;
        answer.send(Ok(other)).map_err(|_| nobody_waits(number))?;
        Ok(own)
    }

    /// It cannot be made.
    pub fn refuse(
        &self,
        number: u64,
        reason: String,
        speaks_for: impl FnOnce(&str) -> bool,
    ) -> Result<(), Problem> {
        // Nobody minds if nobody waits any more.
        let _ = self.take(number, speaks_for)?.send(Err(reason));
        Ok(())
    }

    fn take(
        &self,
        number: u64,
        speaks_for: impl FnOnce(&str) -> bool,
    ) -> Result<oneshot::Sender<Result<Half, String>>, Problem> {
        let mut book = self.book();
        // To another node it is as if it were not there.
        let is_own = book.orders.get(&number).is_some_and(|waiting| speaks_for(&waiting.node));
        let waiting = is_own.then(|| book.orders.remove(&number)).flatten();
        Ok(waiting.ok_or_else(|| nobody_waits(number))?.answer)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut book = self.tunnels.book();
        book.of_all -= 1;
        if let Some(count) = book.of_tasks.get_mut(&self.task) {
            *count -= 1;
            if *count == 0 {
                book.of_tasks.remove(&self.task);
            }
        }
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.tunnels.book().orders.remove(&self.number);
    }
}

fn nobody_waits(number: u64) -> Problem {
    Problem::not_found(format!("nobody on this node waits for the tunnel {number}"))
}

/// The node on which a task runs that has a port.
fn node_of(task: &Task) -> Result<&str, Problem> {
    let (id, state) = (&task.id, task.state());
    if task.document.port.is_none() {
        return Err(Problem::conflict(format!(
            "`{id}` has no port: a task is given one when it is submitted, as `port` in its document"
        )));
    }
    let node = task.progress.node.as_deref();
    match (state, node) {
        (State::Running | State::Stopping, Some(node)) => Ok(node),
        (State::Lost, Some(node)) => {
            Err(Problem::unavailable(format!("`{id}` cannot be reached: its node `{node}` is lost"), 5))
        }
        _ if state.is_final() => Err(Problem::conflict(format!(
            "`{id}` is over: it is {}, and nothing of it listens",
            state.as_str()
        ))),
        _ => Err(Problem::unavailable(format!("`{id}` does not run yet: it is {}", state.as_str()), 1)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
