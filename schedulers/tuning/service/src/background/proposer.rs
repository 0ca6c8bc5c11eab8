//! The proposers: one for each study that somebody asks. Each makes the proposals that its shelf lacks, one batch after the
//! other, and ends when nobody has asked for a while.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::proposing::Plan;
use crate::shared::Shared;
use crate::shelves::Shelf;

/// A proposer ends if its study has not changed for so long.
const IDLE: Duration = Duration::from_secs(600);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The processors on which proposals are made. A user waits for all of them with half of them at most, so that very many studies
/// of one user leave others their turn.
struct Places {
    all: Semaphore,
    users: Mutex<HashMap<String, Arc<Semaphore>>>,
    most: usize,
}

type Place<'p> = (Option<OwnedSemaphorePermit>, SemaphorePermit<'p>);

impl Places {
    fn new(count: usize) -> Places {
        Places { all: Semaphore::new(count), users: Mutex::default(), most: (count / 2).max(1) }
    }

    /// None: they are closed.
    async fn take(&self, user: Option<String>) -> Option<Place<'_>> {
        let own = match user {
            Some(user) => Some(self.own(user).acquire_owned().await.ok()?),
            None => None,
        };
        Some((own, self.all.acquire().await.ok()?))
    }

    fn own(&self, user: String) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits with those that nobody else has.
        users.retain(|_, own| Arc::strong_count(own) > 1);
        Arc::clone(users.entry(user).or_insert_with(|| Arc::new(Semaphore::new(self.most))))
    }
}

/// Starts the proposer of each shelf that is opened.
pub async fn run(shared: &Shared, starting: &mut mpsc::Receiver<Arc<Shelf>>) {
    // Proposers of an earlier run are gone.
    shared.shelves.clear();
    // A processor is left for requests.
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let places = Places::new(cores.saturating_sub(1).max(1));
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

async fn propose(shared: &Shared, shelf: Arc<Shelf>, places: &Places) {
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
async fn make(shared: &Shared, shelf: &Shelf, places: &Places) -> bool {
    let user = shared.table.look(|table| table.get(shelf.study)?.definition.document.user.clone());
    let Some(_place) = places.take(user).await else { return false };
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// True if a place is had at once; it is given back then.
    fn is_free(places: &Places, user: &str) -> bool {
        let take = pin!(places.take(Some(user.to_owned())));
        matches!(take.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Some(_)))
    }

    #[tokio::test]
    async fn many_studies_of_one_user_leave_others_their_turn() {
        let places = Places::new(4);
        let one = places.take(Some("eve".to_owned())).await.unwrap();
        let _other = places.take(Some("eve".to_owned())).await.unwrap();
        assert!(!is_free(&places, "eve") && is_free(&places, "bob"));
        drop(one);
        assert!(is_free(&places, "eve"));
    }
}
