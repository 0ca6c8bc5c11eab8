//! Failures in a row, of which one is worth a line in the log.

use std::time::Duration;

use tokio::time::Instant;

/// A failure that is over within this is none for the log: services that start together do not all answer at once.
const PASSING: Duration = Duration::from_secs(1);
/// Before a longer pause than this it is told at once: the next attempt comes too late to tell it.
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// The failures of something that is tried again and again.
#[derive(Debug)]
pub struct Trouble {
    passing: Duration,
    since: Option<Instant>,
    is_told: bool,
}

impl Default for Trouble {
    fn default() -> Self {
        Trouble { passing: PASSING, since: None, is_told: false }
    }
}

impl Trouble {
    /// Of something that loses by each failure: the first one in a row is told.
    pub fn told_at_once() -> Self {
        Trouble { passing: Duration::ZERO, ..Trouble::default() }
    }

    /// Counts one more failure, with the pause until the next attempt. True for the one to be told, the first that may
    /// not be passing.
    pub fn failed(&mut self, pause: Duration) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let lasts = since.elapsed() >= self.passing || pause > LONG_PAUSE;
        lasts && !std::mem::replace(&mut self.is_told, true)
    }

    /// Counts a success. True if a failure before it was told, so that its end is to be told, too.
    pub fn over(&mut self) -> bool {
        self.since = None;
        std::mem::take(&mut self.is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(300);

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_once_if_it_lasts() {
        let mut trouble = Trouble::default();
        assert!(!trouble.failed(PAUSE), "it may be over in a moment");
        assert!(!trouble.over(), "nobody knows of it");
        assert!(!trouble.failed(PAUSE), "another one");
        tokio::time::advance(PASSING).await;
        assert!(trouble.failed(PAUSE), "it lasts");
        assert!(!trouble.failed(PAUSE), "it was told");
        assert!(trouble.over(), "its end is told");
        assert!(!trouble.over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_costs_something_is_told_at_once() {
        let mut trouble = Trouble::told_at_once();
        for _ in 0..2 {
            assert!(trouble.failed(PAUSE));
            assert!(!trouble.failed(PAUSE), "it was told");
            assert!(trouble.over());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_before_a_long_pause_is_told_at_once() {
        let mut trouble = Trouble::default();
        assert!(trouble.failed(2 * LONG_PAUSE));
        assert!(!trouble.failed(2 * LONG_PAUSE));
    }
}
