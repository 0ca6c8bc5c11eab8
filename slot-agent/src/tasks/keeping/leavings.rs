//! When what tasks of users left outside of their folders is looked for: once none of the user's is on this node.
//!
//! The removal is a part of the round that accepts tasks, so no task of that user begins meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::super::Attempt;
use super::Round;
use crate::runners;

/// A look costs the same for one user and for all of them.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// So long may tasks that are new here wait for it.
const CLEAR_WITHIN: Duration = Duration::from_millis(200);

/// The numbers of users that may have left something.
#[derive(Default)]
pub(super) struct Leavings {
    /// An agent that starts has to think that all have: then there is none here.
    numbers: Option<BTreeSet<u32>>,
    looked_at: Option<Instant>,
}

impl Leavings {
    pub fn is_empty(&self) -> bool {
        self.numbers.as_ref().is_some_and(BTreeSet::is_empty)
    }
}

impl Round<'_> {
    /// Removes what was left by users who have no task here any more.
    pub(super) fn clear_leavings(&mut self) {
        let Some(given) = &self.tasks.options.runners.numbers else {
            self.state.leavings.numbers = Some(BTreeSet::new());
            return;
        };
        let leavings = &mut self.state.leavings;
        // A number may have come since.
        let all = leavings.numbers.get_or_insert_with(|| given.all());
        if all.is_empty() || leavings.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        leavings.looked_at = Some(Instant::now());
        let attempts = self.tasks.attempts();
        let here: BTreeSet<u32> = attempts.iter().filter_map(|one| Some(one.identity()?.uid)).collect();
        let (wait, look): (BTreeSet<u32>, BTreeSet<u32>) =
            all.iter().copied().partition(|number| here.contains(number));
        let left = runners::clear(&look, std::time::Instant::now() + CLEAR_WITHIN);
        *all = wait.union(&left).copied().collect();
    }

    /// An attempt is here, and may leave something.
    pub(super) fn expect_leavings(&mut self, attempt: &Attempt) {
        let given = self.tasks.options.runners.numbers.as_ref();
        let number = attempt.identity().map(|identity| identity.uid);
        let number = number.filter(|number| given.is_some_and(|given| given.range().contains(*number)));
        if let (Some(numbers), Some(number)) = (&mut self.state.leavings.numbers, number) {
            numbers.insert(number);
        }
    }
}
