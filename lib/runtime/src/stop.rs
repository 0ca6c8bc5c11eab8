//! The one cancellation that tasks, streams and servers listen to.
//!
//! The owner of the work holds a [`StopTrigger`]; any number of [`Stop`]s listen to it. A request to stop is never
//! taken back. If the trigger is dropped, its owner is gone and could not ask any more: that counts as a request too,
//! so no listener outlives its owner unnoticed.

use tokio::sync::watch;

/// Asks for the stop. Clones ask for the same one.
#[derive(Debug, Clone)]
pub struct StopTrigger(watch::Sender<bool>);

/// Hears of the stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// A new trigger and its first listener.
pub fn pair() -> (StopTrigger, Stop) {
    let (sender, receiver) = watch::channel(false);
    (StopTrigger(sender), Stop(receiver))
}

impl StopTrigger {
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    pub fn listener(&self) -> Stop {
        Stop(self.0.subscribe())
    }
}

impl Stop {
    /// Ends when the stop is requested; at once if it was already.
    pub async fn requested(&self) {
        // An error says that the trigger is gone, which is a request as well.
        let _ = self.0.clone().wait_for(|requested| *requested).await;
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_late_listener_hears_of_an_earlier_request() {
        let (trigger, stop) = pair();
        assert!(!stop.is_requested());
        trigger.request();
        trigger.listener().requested().await;
        assert!(stop.is_requested());
    }

    #[tokio::test]
    async fn a_dropped_trigger_counts_as_a_request() {
        let (trigger, stop) = pair();
        drop(trigger);
        stop.requested().await;
        assert!(stop.is_requested());
    }
}
