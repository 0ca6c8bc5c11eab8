//! The orders that the ledger has answered, and whose answer is being stored while the desk goes on.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The keys of these orders. Clones are the same.
#[derive(Clone)]
pub struct Answering(watch::Sender<BTreeSet<String>>);

/// The turn of an order, until it is dropped.
pub struct Turn {
    orders: Answering,
    key: String,
}

impl Answering {
    pub fn new() -> Answering {
        Answering(watch::Sender::default())
    }

    pub fn begin(&self, key: &str) -> Turn {
        self.0.send_modify(|keys| {
            keys.insert(key.to_owned());
        });
        Turn { orders: self.clone(), key: key.to_owned() }
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.borrow().contains(key)
    }

    /// Waits until none is left.
    pub async fn end(&self) {
        // The sender is here, so there is nothing else to wait for.
        let _ = self.0.subscribe().wait_for(BTreeSet::is_empty).await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.orders.0.send_modify(|keys| {
            keys.remove(&self.key);
        });
    }
}
