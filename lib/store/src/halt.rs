//! A request to give up waiting for a database. What has begun has a moment left, in which it may still end well: a
//! database that is away or hangs must not hold up the end of a process.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How much longer a statement may take that is under way when the end is requested.
pub(crate) const LAST_MOMENTS: Duration = Duration::from_millis(250);

/// Clones share one request.
#[derive(Clone, Debug, Default)]
pub struct Halt(watch::Sender<Option<Instant>>);

impl Halt {
    pub fn request(&self) {
        self.0.send_if_modified(|requested| {
            let is_first = requested.is_none();
            requested.get_or_insert_with(Instant::now);
            is_first
        });
    }

    pub fn is_requested(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(crate) async fn requested(&self) -> Instant {
        // `self` holds the sender, so the wait ends only with the request.
        match self.0.subscribe().wait_for(Option::is_some).await.map(|at| *at) {
            Ok(Some(at)) => at,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Waits until what was under way at the request has had its time.
    pub(crate) async fn elapsed(&self) {
        let end = self.requested().await + LAST_MOMENTS;
        tokio::time::sleep_until(end.into()).await;
    }
}
