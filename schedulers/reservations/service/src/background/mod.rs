//! The background loops: following the ledger, and tidying up after reservations.

mod follower;
mod tidier;

use std::sync::Arc;
use std::time::Duration;

use estimand_runtime::single_writer::{SubmitError, Writer};
use estimand_runtime::{Rounds, Tasks, Work};
use tokio::time::timeout;

use crate::change::Rejection;
use crate::shared::Shared;
use crate::writer::ReservationsState;

use follower::Follower;
use tidier::Tidier;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often each looks although nothing was announced.
const TIDY_EVERY: Duration = Duration::from_secs(5);
const FOLLOW_EVERY: Duration = Duration::from_millis(50);
/// How long the task service may take for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

pub fn start(shared: &Arc<Shared>, writer: &Writer<ReservationsState>, tasks: &Tasks) {
    let (all, to) = (Arc::clone(shared), writer.clone());
    let follower = move || Follower::new(Arc::clone(&all), to.clone());
    let (name, activity) = ("reservations-follower", "following the ledger");
    spawn(tasks, shared, name, activity, FOLLOW_EVERY, follower, |all| &all.following);
    let (all, to) = (Arc::clone(shared), writer.clone());
    let tidier = move || Tidier { shared: Arc::clone(&all), writer: to.clone() };
    let (name, activity) = ("reservations-tidier", "telling the task service");
    spawn(tasks, shared, name, activity, TIDY_EVERY, tidier, |all| &all.tidying);
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

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error(transparent)]
    Client(#[from] estimand_client::Error),
    #[error("no answer within {ANSWER_WITHIN:?}")]
    Late,
    #[error("the reservations are not loaded yet")]
    NotLoaded,
    #[error("{0}")]
    Writer(String),
}

async fn within<T>(request: impl Future<Output = Result<T, estimand_client::Error>>) -> Result<T, PeerError> {
    Ok(timeout(ANSWER_WITHIN, request).await.map_err(|_| PeerError::Late)??)
}

fn of_write(error: SubmitError<Rejection>) -> PeerError {
    PeerError::Writer(match error {
        SubmitError::Rejected(rejection) => rejection.to_string(),
        error => format!("the store did not take it: {error:?}"),
    })
}
