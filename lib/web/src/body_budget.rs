//! The memory that bodies being read may take together.
//!
//! A service keeps the part of a large body that has arrived so far. All of those together get a fixed budget, however
//! many they are; a body that does not fit any more is not kept, and is rejected when it has been read. A body that
//! arrives in one piece goes to its handler without a wait and needs none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;

use crate::shares::User;

/// A few of the largest bodies that there may be.
pub(crate) const BUDGET_BYTES: usize = 32 * 1024 * 1024;

/// The bytes that all bodies together take at the moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyBudget(Arc<AtomicUsize>);

/// The bytes that one body takes; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct BodyReservation {
    budget: BodyBudget,
    user: Option<User>,
    bytes: usize,
}

impl BodyBudget {
    pub(crate) fn reserve(&self, user: Option<User>) -> BodyReservation {
        BodyReservation { budget: self.clone(), user, bytes: 0 }
    }
}

impl BodyReservation {
    /// Grows the reservation to this many bytes.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes);
        if let Some(user) = &self.user {
            user.take_bytes(ShareKind::Bodies, self.bytes, more, BUDGET_BYTES)?;
        }
        // Given back with the rest, also if it was too much.
        self.bytes += more;
        match self.budget.0.fetch_add(more, Ordering::AcqRel) + more {
            0..=BUDGET_BYTES => Ok(()),
            _ => Err(Problem::unavailable(
                "more large bodies arrive than there is room for; nothing was done",
                1,
            )),
        }
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::AcqRel);
        if let Some(user) = &self.user {
            user.give_back(ShareKind::Bodies, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_that_one_gives_back_another_takes() {
        let budget = BodyBudget::default();
        let (mut one, mut other) = (budget.reserve(None), budget.reserve(None));
        one.grow_to(BUDGET_BYTES - 10).unwrap();
        other.grow_to(7).unwrap();
        other.grow_to(10).unwrap();
        other.grow_to(10).unwrap();
        assert_eq!(other.grow_to(11).unwrap_err().status, 503);
        drop(one);
        other.grow_to(20).unwrap();
        drop(other);
        assert_eq!(budget.0.load(Ordering::Acquire), 0);
    }
    #[test]
    fn bodies_of_a_user_leave_room_for_those_of_others() {
        let (budget, alice) = (BodyBudget::default(), User::from("alice"));
        let of_alice = || budget.reserve(Some(alice.clone()));
        let (mut large, mut second) = (of_alice(), of_alice());
        // A body that is alone may be as large as any.
        large.grow_to(BUDGET_BYTES / 4).unwrap();
        large.grow_to(BUDGET_BYTES / 2).unwrap();
        let refused = second.grow_to(1).unwrap_err();
        assert!(refused.status == 503 && refused.detail.contains("users set alice --bodies"), "{refused:?}");
        budget.reserve(Some("bob".into())).grow_to(BUDGET_BYTES / 2).unwrap();
        drop(large);
        second.grow_to(1).unwrap();
        drop(second);
        assert_eq!(alice.held(ShareKind::Bodies), 0);
    }
}
