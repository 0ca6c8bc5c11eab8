//! A request to give up waiting for a database that cannot be reached. A transaction that has begun goes on.

use tokio::sync::watch;

/// Clones share one request.
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
        // `self` holds the sender, so the wait ends only with the request.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}
