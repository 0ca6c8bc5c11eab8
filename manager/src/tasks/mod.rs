//! The manager's background tasks: one that stands by and leads, and four that work while it does.
//!
//! The work of a leader is made anew for each leadership, and ends with it: only stored state is carried over
//! from one to the next.

mod candidate;
mod data_service_upkeep;
mod label_reader;
mod leadership;
mod reconciliation;
mod registry_reader;
mod stops;

use std::sync::Arc;

use estimand_runtime::{Driver, Rounds, Stop, Tasks, Work};
use tokio::sync::Mutex;

use crate::leadership::Leadership;
use crate::{Peers, Shared};

use data_service_upkeep::DataServiceUpkeep;
use label_reader::LabelReader;
use reconciliation::Reconciliation;
use registry_reader::RegistryReader;

pub use candidate::{Candidate, LeadershipTimes};

/// Background work that goes on while this process leads.
trait LeaderWork: Work<Error: Send> + Sized + 'static {
    const TASK: &'static str;
    /// For the log, as in "reading the registry".
    const ACTIVITY: &'static str;

    /// Sets the period and the pauses.
    fn schedule(shared: &Shared, driver: Driver) -> Driver;

    fn new(shared: &Arc<Shared>, leadership: &Arc<Leadership>, peers: &Peers) -> Self;

    /// Where rounds of it are asked for.
    fn rounds(leadership: &Leadership) -> &Rounds;
}

pub fn start(shared: &Arc<Shared>, candidate: Candidate, tasks: &Tasks) {
    let leading = Arc::clone(shared);
    // The lock says that one run of the task at a time owns the candidate; no other task ever takes it.
    let candidate = Arc::new(Mutex::new(candidate));
    tasks.spawn("manager-leadership", move |stop| {
        let (shared, candidate) = (Arc::clone(&leading), Arc::clone(&candidate));
        async move { shared.stand_by_and_lead(&mut *candidate.lock().await, stop).await }
    });
    spawn::<RegistryReader>(shared, tasks);
    spawn::<Reconciliation>(shared, tasks);
    spawn::<DataServiceUpkeep>(shared, tasks);
    spawn::<LabelReader>(shared, tasks);
}

fn spawn<W: LeaderWork>(shared: &Arc<Shared>, tasks: &Tasks) {
    let (shared, drivers) = (Arc::clone(shared), tasks.clone());
    tasks.spawn(W::TASK, move |stop| {
        let shared = Arc::clone(&shared);
        let mut driver = W::schedule(&shared, drivers.driver(W::TASK, W::ACTIVITY));
        async move {
            while let Some((leadership, peers)) = shared.next_leadership(&stop).await {
                let mut work = W::new(&shared, &leadership, &peers);
                let end = end_of(&leadership, &stop);
                driver.run(&mut work, W::rounds(&leadership), end).await;
            }
        }
    });
}

async fn end_of(leadership: &Leadership, stop: &Stop) {
    tokio::select! {
        _ = leadership.term().ended() => {}
        () = stop.requested() => {}
    }
}
