//! The places for tasks that each user has, and what is kept of all for users who have few.

use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct UserPlaces {
    /// How many each user has.
    by_user: HashMap<Arc<str>, u64>,
    /// All places for tasks of users.
    pub all: u64,
    /// The largest part that a node keeps.
    pub(super) most_kept: u64,
}

impl UserPlaces {
    pub fn of(&self, user: &str) -> u64 {
        self.by_user.get(user).copied().unwrap_or(0)
    }

    /// The user has so few that some node has a place for them while there is any.
    pub fn are_few_of(&self, user: Option<&Arc<str>>) -> bool {
        user.is_none_or(|user| self.of(user) < self.most_kept)
    }

    pub(super) fn add(&mut self, user: Option<&Arc<str>>) {
        if let Some(user) = user {
            *self.by_user.entry(Arc::clone(user)).or_default() += 1;
        }
    }

    pub(super) fn subtract(&mut self, user: Option<&Arc<str>>) {
        let Some(user) = user else { return };
        let Some(places) = self.by_user.get_mut(user) else { return };
        *places -= 1;
        if *places == 0 {
            self.by_user.remove(user);
        }
    }
}
