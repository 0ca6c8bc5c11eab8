//! The background loops: reading the nodes and their pressure, planning, and telling managers what belongs on each node.

mod node_reader;
mod planner;
mod pressure_reader;
mod teller;

use std::sync::Arc;
use std::time::Duration;

use estimand_runtime::single_writer::Writer;
use estimand_runtime::{Rounds, Tasks, Work};
use tokio::time::timeout;

use crate::shared::{Peers, Shared};
use crate::writer::TasksState;

use node_reader::NodeReader;
use planner::PlannerLoop;
use pressure_reader::PressureReader;
use teller::Teller;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often each looks although nothing was announced.
const PLAN_EVERY: Duration = Duration::from_secs(5);
const TELL_EVERY: Duration = Duration::from_secs(2);
const READ_EVERY: Duration = Duration::from_secs(1);
/// How long another service may take for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub fn start(shared: &Arc<Shared>, writer: &Writer<TasksState>, tasks: &Tasks) {
    let (all, to) = (Arc::clone(shared), writer.clone());
    let planner = move || PlannerLoop::new(Arc::clone(&all), to.clone());
    spawn(tasks, shared, "tasks-planner", "planning", PLAN_EVERY, planner, |all| &all.planning);
    let all = Arc::clone(shared);
    let teller = move || Teller::new(Arc::clone(&all));
    spawn(tasks, shared, "tasks-teller", "telling the manager", TELL_EVERY, teller, |all| &all.telling);
    let (all, to) = (Arc::clone(shared), writer.clone());
    let reader = move || NodeReader::new(Arc::clone(&all), to.clone());
    spawn(tasks, shared, "tasks-nodes", "reading the nodes", READ_EVERY, reader, |all| &all.reading);
    let all = Arc::clone(shared);
    tasks.spawn("tasks-pressure", move |stop| {
        let reader = PressureReader::new(Arc::clone(&all));
        async move {
            tokio::select! {
                () = stop.requested() => {}
                () = reader.run() => {}
            }
        }
    });
}

/// `make` is called again after a panic, so that the work begins with nothing of before.
fn spawn<W: Work + 'static>(
    tasks: &Tasks,
    shared: &Arc<Shared>,
    name: &'static str,
    activity: &'static str,
    every: Duration,
    make: impl Fn() -> W + Send + 'static,
    rounds: fn(&Shared) -> &Rounds,
) where
    W::Error: Send,
{
    let (shared, drivers) = (Arc::clone(shared), tasks.clone());
    tasks.spawn(name, move |stop| {
        let driver = drivers.driver(name, activity).every(every);
        let mut driver = driver.pauses(FIRST_PAUSE, LONGEST_PAUSE);
        let (shared, mut work) = (Arc::clone(&shared), make());
        async move { driver.run(&mut work, rounds(&shared), stop.requested()).await }
    });
}

/// Why another service did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error(transparent)]
    Client(#[from] estimand_client::Error),
    #[error("no answer within {ANSWER_WITHIN:?}")]
    Late,
    #[error("{0}")]
    Writer(String),
}

/// The peers, as soon as they are known.
async fn peers(shared: &Shared) -> Arc<Peers> {
    let mut known = shared.peers.subscribe();
    loop {
        if let Some(peers) = known.borrow_and_update().clone() {
            return peers;
        }
        if known.changed().await.is_err() {
            // The sender lives as long as this is borrowed.
            std::future::pending::<()>().await;
        }
    }
}

async fn within<T>(request: impl Future<Output = Result<T, estimand_client::Error>>) -> Result<T, PeerError> {
    Ok(timeout(ANSWER_WITHIN, request).await.map_err(|_| PeerError::Late)??)
}
