//! Turns at reading the store: one thread reads it for everybody, in the order in which it is asked. So a user has a few reads under way and
//! waits for themselves beyond those, however much they follow at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The reads of one user at the same time.
const OF_ONE: usize = 2;

#[derive(Debug, Default)]
pub struct ReadTurns(Mutex<HashMap<String, Weak<Semaphore>>>);

/// Given back when it is dropped.
#[derive(Debug)]
pub struct ReadTurn(#[expect(dead_code, reason = "it is held")] Option<OwnedSemaphorePermit>);

impl ReadTurns {
    /// Waits for a turn of a user. Reads for nobody in particular need none.
    pub async fn take(&self, user: Option<&str>) -> ReadTurn {
        let Some(user) = user else { return ReadTurn(None) };
        // No semaphore is ever closed.
        ReadTurn(self.of(user).acquire_owned().await.ok())
    }

    /// The turns of a user, for as long as they have or want any.
    fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = users.get(user).and_then(Weak::upgrade) {
            return own;
        }
        users.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(OF_ONE));
        users.insert(user.to_owned(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_user_waits_for_themselves_and_nobody_else() {
        let turns = ReadTurns::default();
        let take = |user| turns.take(user).now_or_never();
        let mut alices: Vec<ReadTurn> = (0..OF_ONE).filter_map(|_| take(Some("alice"))).collect();
        assert_eq!(alices.len(), OF_ONE);
        let mut next = Box::pin(turns.take(Some("alice")));
        assert!(next.as_mut().now_or_never().is_none());
        assert!(take(Some("bob")).is_some() && take(None).is_some());
        alices.pop();
        assert!(next.now_or_never().is_some());
        drop(alices);
        assert!(take(Some("carol")).is_some());
        assert_eq!(turns.0.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
    }
}
