//! The tunnels that people wait for, as orders to agents.
//!
//! Somebody who wants a tunnel leaves an order and waits. The agent of the node reads the orders of its node, however often,
//! until it has made or refused the tunnel or the one who waits has given up. Nothing of this is stored: a service that
//! starts anew has no orders. Numbers are never given twice, also not by another start, so no order is taken for another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_api::tunnel::TunnelOrder;
use estimand_runtime::tunnel::{Half, pair};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::engines::{EngineError, PlacedAttempt};

#[derive(Debug)]
pub struct OrderBook {
    orders: Mutex<Orders>,
    /// Rung when there is another order.
    bell: watch::Sender<u64>,
}

#[derive(Debug)]
struct Orders {
    /// The number of the last order.
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
}

/// An order, and the one who waits for it.
#[derive(Debug)]
struct Waiting {
    node: String,
    order: TunnelOrder,
    answer: oneshot::Sender<Result<Half, String>>,
}

/// An order that is withdrawn when nobody waits for it any more.
struct Withdrawal<'t> {
    book: &'t OrderBook,
    number: u64,
}

impl OrderBook {
    /// `now` is in microseconds since 1970: numbers go on from there.
    pub fn new(now: i64) -> Arc<Self> {
        let orders = Orders { last: u64::try_from(now).unwrap_or(0), waiting: BTreeMap::new() };
        Arc::new(OrderBook { orders: Mutex::new(orders), bell: watch::Sender::new(0) })
    }

    fn all(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tunnel that the agent of an attempt makes within this time.
    pub async fn connect(&self, attempt: &PlacedAttempt, within: Duration) -> Result<Half, EngineError> {
        let PlacedAttempt { node, id, .. } = attempt;
        let (answer, answered) = oneshot::channel();
        let withdrawal = self.order(attempt, answer);
        let made = timeout(within, answered).await;
        drop(withdrawal);
        match made {
            Ok(Ok(made)) => made.map_err(EngineError::Failed),
            _ => Err(EngineError::Failed(format!(
                "the agent of `{node}`, where `{id}` runs, has not connected within {} s",
                within.as_secs()
            ))),
        }
    }

    fn order(
        &self,
        attempt: &PlacedAttempt,
        answer: oneshot::Sender<Result<Half, String>>,
    ) -> Withdrawal<'_> {
        let PlacedAttempt { node, id, attempt } = attempt.clone();
        let mut all = self.all();
        all.last += 1;
        let number = all.last;
        all.waiting.insert(number, Waiting { node, order: TunnelOrder { number, id, attempt }, answer });
        drop(all);
        self.bell.send_modify(|rung| *rung += 1);
        Withdrawal { book: self, number }
    }

    /// Heard when there is another order.
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// The orders of a node after this number. A number that was never given is one of a service whose clock was ahead.
    pub fn of_node(&self, node: &str, after: u64) -> Vec<TunnelOrder> {
        let all = self.all();
        let after = if after > all.last { 0 } else { after };
        let later = all.waiting.range(after.saturating_add(1)..).map(|(_, waiting)| waiting);
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
        let mut all = self.all();
        // To another node it is as if it were not there.
        let is_own = all.waiting.get(&number).is_some_and(|waiting| speaks_for(&waiting.node));
        let waiting = is_own.then(|| all.waiting.remove(&number)).flatten();
        Ok(waiting.ok_or_else(|| nobody_waits(number))?.answer)
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.book.all().waiting.remove(&self.number);
    }
}

fn nobody_waits(number: u64) -> Problem {
    Problem::not_found(format!("nobody on this node waits for the tunnel {number}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn attempt() -> PlacedAttempt {
        PlacedAttempt { node: "n1".to_owned(), id: "t1".to_owned(), attempt: 2 }
    }

    #[tokio::test]
    async fn the_agent_of_the_node_makes_the_tunnel_and_no_other() {
        let book = OrderBook::new(1_000);
        let agent = async {
            let mut bell = book.listen();
            while book.of_node("n1", 0).is_empty() {
                bell.changed().await.unwrap();
            }
            let order = book.of_node("n1", 0).remove(0);
            assert_eq!((order.number, order.id.as_str(), order.attempt), (1_001, "t1", 2));
            // It is read again as long as nobody has made it, and by nobody else.
            assert_eq!(book.of_node("n1", 1_000).len(), 1);
            assert!(book.of_node("n1", 1_001).is_empty() && book.of_node("n2", 0).is_empty());
            assert_eq!(book.make(order.number, |node| node == "n2").unwrap_err().status, 404);
            let half = book.make(order.number, |node| node == "n1").unwrap();
            assert_eq!(book.make(order.number, |_| true).unwrap_err().status, 404);
            half
        };
        let attempt = attempt();
        let (connected, mut agents) = tokio::join!(book.connect(&attempt, PATIENCE), agent);
        let mut half = connected.unwrap();
        half.write_all(b"hello").await.unwrap();
        half.shutdown().await.unwrap();
        let mut got = String::new();
        agents.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "hello");
    }

    #[tokio::test]
    async fn an_agent_that_says_nothing_or_no_is_told_of() {
        let book = OrderBook::new(0);
        let attempt = attempt();
        let error = book.connect(&attempt, Duration::from_millis(50)).await.unwrap_err();
        assert!(error.to_string().contains("agent of `n1`"), "{error}");
        assert!(book.of_node("n1", 0).is_empty());
        let mut bell = book.listen();
        let refuse = async {
            bell.changed().await.unwrap();
            book.refuse(2, "nothing listens".to_owned(), |_| true).unwrap();
        };
        let (connected, ()) = tokio::join!(book.connect(&attempt, PATIENCE), refuse);
        assert_eq!(connected.unwrap_err().to_string(), "nothing listens");
    }
}
