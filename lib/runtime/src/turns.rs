//! Turns at a resource that many share. Each owner has a few at a time and waits for themselves beyond those, so that nobody
//! keeps others waiting by asking for much at once.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub struct Turns<O> {
    of_one: usize,
    owners: Mutex<HashMap<O, Weak<Semaphore>>>,
}

/// Given back when it is dropped. None: its owner is nobody in particular.
#[derive(Debug, Default)]
pub struct Turn(#[expect(dead_code, reason = "it is held")] Option<OwnedSemaphorePermit>);

impl<O: Eq + Hash> Turns<O> {
    /// So many for each owner.
    pub fn new(of_one: usize) -> Self {
        Turns { of_one, owners: Mutex::default() }
    }

    /// Waits for a turn of an owner. Nobody in particular waits for none.
    pub async fn take<Q>(&self, owner: Option<&Q>) -> Turn
    where
        O: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = O> + ?Sized,
    {
        let Some(owner) = owner else { return Turn(None) };
        // No semaphore is ever closed.
        Turn(self.of(owner).acquire_owned().await.ok())
    }

    /// The turns of an owner, for as long as they have or want any.
    fn of<Q>(&self, owner: &Q) -> Arc<Semaphore>
    where
        O: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = O> + ?Sized,
    {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = owners.get(owner).and_then(Weak::upgrade) {
            return own;
        }
        owners.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.of_one));
        owners.insert(owner.to_owned(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_owner_waits_for_themselves_and_nobody_else() {
        let turns: Turns<String> = Turns::new(2);
        let take = |owner| now(turns.take::<str>(owner));
        let mut alices: Vec<Turn> = (0..2).filter_map(|_| take(Some("alice"))).collect();
        assert_eq!(alices.len(), 2);
        let mut next = Box::pin(turns.take(Some("alice")));
        assert!(now(next.as_mut()).is_none());
        assert!(take(Some("bob")).is_some() && take(None).is_some());
        alices.pop();
        assert!(now(next).is_some());
        drop(alices);
        assert!(take(Some("carol")).is_some());
        assert_eq!(
            turns.owners.lock().unwrap_or_else(PoisonError::into_inner).len(),
            1,
            "owners without turns go"
        );
    }
}
