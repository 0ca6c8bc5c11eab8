//! The users of a process, with the limits that are set for them and the live things that each holds: watches, uploads and
//! so on. Access control says who they are; each service counts what it owns.
//!
//! A live thing takes a [`Permit`], which is given back when it is dropped. A stored one is checked by [`User::check`] against
//! the count of the service that keeps it. Callers without a user, such as operators, have no share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use actix_web::{HttpMessage, HttpRequest};
use arc_swap::ArcSwap;
use estimand_api::problem::Problem;
use estimand_api::share::{KINDS_OF_SHARE, Limits, ShareKind};

use crate::role::Principal;

/// All users that have or had a token, or limits. Clones are the same.
#[derive(Clone, Default)]
pub struct Users(Arc<RwLock<HashMap<Arc<str>, User>>>);

/// A user. Clones are the same.
#[derive(Clone)]
pub struct User(Arc<UserState>);

struct UserState {
    name: Arc<str>,
    limits: ArcSwap<Limits>,
    held: [AtomicU64; KINDS_OF_SHARE],
}

impl Users {
    /// The user of this name, who is known from now on. For names of tokens alone, so that there is a bound to them.
    pub fn admit(&self, name: &str) -> User {
        if let Some(user) = self.find(name) {
            return user;
        }
        let mut users = self.0.write().unwrap_or_else(PoisonError::into_inner);
        users.entry(name.into()).or_insert_with(|| User::from(name)).clone()
    }

    /// The user of this name, if a token or limits have made it known.
    pub fn find(&self, name: &str) -> Option<User> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Replaces the limits of all users. They count for everything that is asked for from now on; what is there stays.
    pub fn set_limits(&self, mut limits: HashMap<String, Limits>) {
        for user in self.all() {
            user.0.limits.store(Arc::new(limits.remove(user.name()).unwrap_or_default()));
        }
        for (name, limits) in limits {
            self.admit(&name).0.limits.store(Arc::new(limits));
        }
    }

    /// By name.
    pub fn all(&self) -> Vec<User> {
        let users = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut users: Vec<User> = users.values().cloned().collect();
        users.sort_by(|one, other| one.name().cmp(other.name()));
        users
    }
}

impl User {
    /// The user whose token a request shows.
    pub fn of(req: &HttpRequest) -> Option<User> {
        req.extensions().get::<Principal>().and_then(|caller| caller.as_user().cloned())
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn limits(&self) -> Arc<Limits> {
        self.0.limits.load_full()
    }

    /// The live things of a kind that the user holds now.
    pub fn held(&self, kind: ShareKind) -> u64 {
        self.0.held[kind as usize].load(Ordering::Relaxed)
    }

    /// Takes one live thing. `bound` is the most of them that all users together may hold.
    pub fn take(&self, kind: ShareKind, bound: u64) -> Result<Permit, Problem> {
        let limit = self.limits().limit(kind, bound);
        let held = &self.0.held[kind as usize];
        let add = |held: u64| (held < limit).then_some(held + 1);
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(Permit(Some((self.clone(), kind)))),
            Err(held) => Err(kind.busy(self.name(), held, 1, limit)),
        }
    }

    /// Takes so many bytes more of a thing that passes and has `own` already. A thing that is alone may be larger than the
    /// share, or it could never pass.
    pub(crate) fn take_bytes(
        &self,
        kind: ShareKind,
        own: usize,
        more: usize,
        bound: usize,
    ) -> Result<(), Problem> {
        let limit = self.limits().limit(kind, bound as u64);
        let add = |held: u64| {
            let all = held + more as u64;
            (more == 0 || held == own as u64 || all <= limit).then_some(all)
        };
        let taken = self.0.held[kind as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.map(drop).map_err(|held| kind.busy(self.name(), held, more as u64, limit))
    }

    pub(crate) fn give_back(&self, kind: ShareKind, amount: usize) {
        self.0.held[kind as usize].fetch_sub(amount as u64, Ordering::Relaxed);
    }

    /// Refuses `more` of a stored thing of which the user has `used`. `bound` is the most of them that is kept in all.
    pub fn check(&self, kind: ShareKind, used: u64, more: u64, bound: u64) -> Result<(), Problem> {
        let limit = self.limits().limit(kind, bound);
        if used.saturating_add(more) <= limit {
            Ok(())
        } else {
            Err(kind.full(self.name(), used, more, limit))
        }
    }
}

impl From<&str> for User {
    fn from(name: &str) -> Self {
        let limits = ArcSwap::default();
        let held = Default::default();
        User(Arc::new(UserState { name: name.into(), limits, held }))
    }
}

impl PartialEq for User {
    fn eq(&self, other: &User) -> bool {
        self.name() == other.name()
    }
}

impl Eq for User {}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({:?})", self.name())
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

/// A live thing that a user holds until this is dropped. Callers without a user hold as many as the process has.
#[derive(Debug)]
#[must_use]
pub struct Permit(Option<(User, ShareKind)>);

impl Permit {
    /// Takes one for the caller of a request, whatever its role.
    pub fn take(req: &HttpRequest, kind: ShareKind, bound: u64) -> Result<Permit, Problem> {
        Permit::take_for(User::of(req).as_ref(), kind, bound)
    }

    pub fn take_for(user: Option<&User>, kind: ShareKind, bound: u64) -> Result<Permit, Problem> {
        user.map_or(Ok(Permit(None)), |user| user.take(kind, bound))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((user, kind)) = &self.0 {
            user.give_back(*kind, 1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::share::LimitChanges;

    use super::*;

    fn limited(kind: ShareKind, limit: u64) -> HashMap<String, Limits> {
        let mut limits = Limits::default();
        let mut changes = LimitChanges::default();
        changes.set(kind, Some(limit));
        limits.change(&changes);
        HashMap::from([("alice".to_owned(), limits)])
    }

    #[test]
    fn a_user_holds_no_more_than_their_share_and_takes_nothing_from_others() {
        let users = Users::default();
        let (alice, bob) = (users.admit("alice"), users.admit("bob"));
        let held: Vec<Permit> = (0..2).map(|_| alice.take(ShareKind::Watches, 16).unwrap()).collect();
        let refused = alice.take(ShareKind::Watches, 16).unwrap_err();
        assert_eq!((refused.status, alice.held(ShareKind::Watches)), (503, 2));
        assert!(bob.take(ShareKind::Watches, 16).is_ok() && alice.take(ShareKind::Polls, 16).is_ok());
        drop(held);
        assert_eq!((alice.held(ShareKind::Watches), bob.held(ShareKind::Watches)), (0, 0));
        assert!(Permit::take_for(None, ShareKind::Watches, 0).is_ok());
    }

    #[test]
    fn limits_count_at_once_and_end_with_their_setting() {
        let users = Users::default();
        let alice = users.admit("alice");
        users.set_limits(limited(ShareKind::Tasks, 100));
        assert!(alice.check(ShareKind::Tasks, 99, 1, 8).is_ok());
        assert_eq!(alice.check(ShareKind::Tasks, 99, 2, 8).unwrap_err().status, 409);
        users.set_limits(HashMap::new());
        assert!(users.admit("alice").check(ShareKind::Tasks, 1, 1, 8).is_err());
    }
}
