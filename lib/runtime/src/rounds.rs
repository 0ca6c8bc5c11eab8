//! Work that is asked for by a poke: a round of it looks at everything, so many pokes may share one.
//!
//! A round that began before it was asked for does not count, since it may have looked too early.

use tokio::sync::watch;

/// Connects the callers that ask for rounds with the one task that makes them.
#[derive(Debug)]
pub struct Rounds {
    asked: watch::Sender<u64>,
    done: watch::Sender<u64>,
    /// The last round that was tried, also if it failed.
    tried: watch::Sender<u64>,
}

impl Default for Rounds {
    fn default() -> Self {
        Self::new()
    }
}

/// A place in the order of askings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Rounds {
    pub fn new() -> Self {
        Rounds { asked: watch::Sender::new(0), done: watch::Sender::new(0), tried: watch::Sender::new(0) }
    }

    /// Asks for a round that has not begun yet.
    pub fn ask(&self) -> Ticket {
        let mut ticket = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            ticket = *asked;
        });
        Ticket(ticket)
    }

    /// The ticket of the last caller.
    pub fn last(&self) -> Ticket {
        Ticket(*self.asked.borrow())
    }

    /// Waits until a round has ended that began after `ticket` was drawn.
    pub async fn done(&self, Ticket(ticket): Ticket) {
        // The sender is borrowed here, so that it cannot be gone.
        let _ = self.done.subscribe().wait_for(|done| *done >= ticket).await;
    }

    /// Waits until a round has ended, well or not, that began after `ticket` was drawn.
    pub async fn tried(&self, Ticket(ticket): Ticket) {
        let _ = self.tried.subscribe().wait_for(|tried| *tried >= ticket).await;
    }

    /// For the task: a round begins, and counts for all callers that have asked so far.
    pub fn begin(&self) -> Ticket {
        self.last()
    }

    /// For the task: the round of this ticket has ended.
    pub fn end(&self, Ticket(begun): Ticket) {
        self.done.send_replace(begun);
        self.tried.send_replace(begun);
    }

    /// For the task: the round of this ticket has failed. Callers that wait in [`Rounds::done`] go on waiting.
    pub fn fail(&self, Ticket(begun): Ticket) {
        self.tried.send_replace(begun);
    }

    /// For the task: waits for a request that the round of this ticket does not serve.
    pub async fn asked_since(&self, Ticket(begun): Ticket) {
        let _ = self.asked.subscribe().wait_for(|asked| *asked > begun).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_over(work: impl Future<Output = ()>) -> bool {
        pin!(work).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_round_counts_for_those_who_asked_before_it_began() {
        let rounds = Rounds::new();
        let (first, second) = (rounds.ask(), rounds.ask());
        let begun = rounds.begin();
        assert!(!is_over(rounds.asked_since(begun)));
        let late = rounds.ask();
        rounds.end(begun);
        assert!(is_over(rounds.done(first)) && is_over(rounds.done(second)));
        assert!(!is_over(rounds.done(late)));
        assert!(is_over(rounds.asked_since(begun)));
        rounds.end(rounds.begin());
        assert!(is_over(rounds.done(late)));
    }
}
