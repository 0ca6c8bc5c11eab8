//! The proposers: one for each study that somebody asks. Each makes the proposals that its shelf lacks, one batch after the
//! other, and ends when nobody has asked for a while.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::proposing::Plan;
use crate::shared::Shared;
use crate::shelves::Shelf;

/// A proposer ends if its study has not changed for so long.
const IDLE: Duration = Duration::from_secs(600);
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the proposer of each shelf that is opened.
pub async fn run(shared: &Shared, starting: &mut mpsc::Receiver<Arc<Shelf>>) {
    // Proposers of an earlier run are gone.
    shared.shelves.clear();
    // One processor is left for requests.
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let places = Semaphore::new(cores.saturating_sub(1).max(1));
    let mut proposers = FuturesUnordered::new();
    loop {
        tokio::select! {
            shelf = starting.recv() => match shelf {
                Some(shelf) => proposers.push(propose(shared, shelf, &places)),
                None => return,
            },
            Some(()) = proposers.next() => {}
        }
    }
}

async fn propose(shared: &Shared, shelf: Arc<Shelf>, places: &Semaphore) {
    loop {
        if make(shared, &shelf, places).await {
            continue;
        }
        // Whoever waits looks why there is nothing.
        shelf.chain.send_modify(|_| ());
        let is_idle = timeout(IDLE, shelf.poke.notified()).await.is_err();
        if is_idle && shared.shelves.close(&shelf) {
            return;
        }
    }
}

/// Makes what the shelf lacks; false if that is nothing.
async fn make(shared: &Shared, shelf: &Shelf, places: &Semaphore) -> bool {
    let Ok(_place) = places.acquire().await else { return false };
    let chain = shelf.chain.borrow().clone();
    let plan = shared.table.look(|table| Plan::new(table.get(shelf.study)?, &chain, shelf.wanted()));
    let Some(plan) = plan else { return false };
    let begun = Instant::now();
    match spawn_blocking(|| plan.make()).await {
        Ok(made) => {
            shared.figures.proposed(begun.elapsed());
            shelf.chain.send_replace(made);
        }
        Err(error) => {
            tracing::error!(study = shelf.study, %error, "a proposal could not be made");
            sleep(PAUSE).await;
        }
    }
    true
}
