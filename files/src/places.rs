//! Places at the disk: how many pieces are written, and how many files are read for their digests, at the same time.
//!
//! A place is held while something is done at the disk, and not while bytes are waited for. One owner has a part of them and
//! waits for themselves beyond it; the tasks of nodes have places of their own, so that no user keeps a task from ending.

use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_runtime::turns::{Turn, Turns};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::owner::Owner;

#[derive(Debug)]
pub struct Places {
    of_users: Room,
    of_tasks: Room,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    _own: Turn,
    _of_all: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Room {
    all: Arc<Semaphore>,
    owners: Turns<Owner>,
}

impl Places {
    /// So many for users, and as many for tasks, of which one owner has a part.
    pub fn new(all: usize, of_one: usize) -> Self {
        let room = || Room { all: Arc::new(Semaphore::new(all)), owners: Turns::new(of_one) };
        Places { of_users: room(), of_tasks: room() }
    }

    /// Waits for a place.
    pub async fn take(&self, owner: &Owner) -> Result<Place, Problem> {
        let room = if owner.is_tasks() { &self.of_tasks } else { &self.of_users };
        let own = room.owners.take(Some(owner)).await;
        let of_all = Arc::clone(&room.all).acquire_owned().await.map_err(|_| Problem::internal())?;
        Ok(Place { _own: own, _of_all: of_all })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_owner_waits_for_themselves_and_keeps_no_other_waiting() {
        let places = Places::new(4, 2);
        let (alice, bob) = (Owner::user("alice"), Owner::user("bob"));
        let hers = [places.take(&alice).await.unwrap(), places.take(&alice).await.unwrap()];
        let mut third = Box::pin(places.take(&alice));
        assert!(third.as_mut().now_or_never().is_none());
        let his = [places.take(&bob).await.unwrap(), places.take(&bob).await.unwrap()];
        // All places of users are taken, and those of tasks are not: hers neither.
        assert!(places.take(&Owner::user("carol")).now_or_never().is_none());
        let of_task = places.take(&Owner::tasks_of("alice")).now_or_never();
        drop(hers);
        third.await.unwrap();
        drop((his, of_task.unwrap().unwrap()));
        places.take(&bob).await.unwrap();
    }
}
