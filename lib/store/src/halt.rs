//! Asks whoever waits for a database that cannot be reached to give up. A transaction that has begun goes on.

use tokio::sync::watch;

/// Clones ask, and hear, for the same.
#[derive(Clone, Debug, Default)]
pub struct Halt(watch::Sender<bool>);

impl Halt {
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn requested(&self) {
        // The sender is held here, so it ends only when that is so.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}
