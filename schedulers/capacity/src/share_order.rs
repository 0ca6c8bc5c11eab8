//! An ordered set of heads: users by their share, the frameworks of a user by theirs, the heads of a framework by rank.
//!
//! Users with equal shares stand in the order of the heads that they would be served by, and so do frameworks. So if all
//! shares are equal and each user has one framework, the order is that of the ranks alone.
//!
//! Cost: a head that comes or goes, or a share that changes, moves one framework within its user and one user: O(log n), however
//! many heads these have. A share that changes is told by [`ShareOrder::refresh`]; until then each stands by the last one told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::share::Share;
use crate::shares::{Holder, ShareChanges, Shares};

/// The share, the head to be served by, and the name.
type Place<R> = (Share, R, Arc<str>);

#[derive(Debug, Clone)]
pub struct ShareOrder<R> {
    users: BTreeMap<Arc<str>, UserHeads<R>>,
    order: BTreeSet<Place<R>>,
}

#[derive(Debug, Clone)]
struct UserHeads<R> {
    share: Share,
    frameworks: BTreeMap<Arc<str>, FrameworkHeads<R>>,
    order: BTreeSet<Place<R>>,
}

#[derive(Debug, Clone)]
struct FrameworkHeads<R> {
    share: Share,
    heads: BTreeSet<R>,
}

impl<R> Default for ShareOrder<R> {
    fn default() -> ShareOrder<R> {
        ShareOrder { users: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<R> Default for UserHeads<R> {
    fn default() -> UserHeads<R> {
        UserHeads { share: Share::NONE, frameworks: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<R> Default for FrameworkHeads<R> {
    fn default() -> FrameworkHeads<R> {
        FrameworkHeads { share: Share::NONE, heads: BTreeSet::new() }
    }
}

impl<R: Ord + Copy> FrameworkHeads<R> {
    fn place(&self, name: &Arc<str>) -> Option<Place<R>> {
        Some((self.share, *self.heads.first()?, Arc::clone(name)))
    }
}

impl<R: Ord + Copy> UserHeads<R> {
    fn place(&self, name: &Arc<str>) -> Option<Place<R>> {
        let (_, first, _) = self.order.first()?;
        Some((self.share, *first, Arc::clone(name)))
    }

    /// The heads in their order, each with its framework.
    fn heads(&self) -> impl Iterator<Item = (&Arc<str>, R)> {
        self.order.iter().flat_map(|(_, _, name)| {
            let heads = self.frameworks.get(name).into_iter().flat_map(|framework| &framework.heads);
            heads.map(move |head| (name, *head))
        })
    }
}

impl<R: Ord + Copy> ShareOrder<R> {
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn insert(&mut self, holder: &Holder, head: R, shares: &Shares) {
        self.change(holder, shares, |heads| {
            heads.insert(head);
        });
    }

    pub fn remove(&mut self, holder: &Holder, head: R, shares: &Shares) {
        self.change(holder, shares, |heads| {
            heads.remove(&head);
        });
    }

    /// Follows the shares that changed.
    pub fn refresh(&mut self, shares: &mut Shares) {
        let holders: Vec<Holder> = match shares.take_changes() {
            ShareChanges::Of(holders) => holders.into_iter().collect(),
            ShareChanges::All => self.holders(),
        };
        holders.iter().for_each(|holder| self.change(holder, shares, |_| {}));
    }

    /// The head to be served first.
    pub fn first(&self) -> Option<(Holder, R)> {
        self.iter().next()
    }

    /// The heads in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Holder, R)> {
        self.order.iter().flat_map(|(_, _, user)| {
            let heads = self.users.get(user).into_iter().flat_map(UserHeads::heads);
            heads.map(|(framework, head)| {
                (Holder { user: Arc::clone(user), framework: Arc::clone(framework) }, head)
            })
        })
    }

    fn holders(&self) -> Vec<Holder> {
        let of_user = |(user, heads): (&Arc<str>, &UserHeads<R>)| {
            let holder = |name: &Arc<str>| Holder { user: Arc::clone(user), framework: Arc::clone(name) };
            heads.frameworks.keys().map(holder).collect::<Vec<_>>()
        };
        self.users.iter().flat_map(of_user).collect()
    }

    /// Changes the heads of a framework, and puts it and its user at the places that they have by now.
    fn change(&mut self, holder: &Holder, shares: &Shares, change: impl FnOnce(&mut BTreeSet<R>)) {
        let Holder { user: user_name, framework: name } = holder;
        let user = self.users.entry(Arc::clone(user_name)).or_default();
        if let Some(place) = user.place(user_name) {
            self.order.remove(&place);
        }
        let framework = user.frameworks.entry(Arc::clone(name)).or_default();
        if let Some(place) = framework.place(name) {
            user.order.remove(&place);
        }
        change(&mut framework.heads);
        framework.share = shares.of(holder);
        match framework.place(name) {
            Some(place) => {
                user.order.insert(place);
            }
            None => {
                user.frameworks.remove(name);
            }
        }
        user.share = shares.of_user(user_name);
        match user.place(user_name) {
            Some(place) => {
                self.order.insert(place);
            }
            None => {
                self.users.remove(user_name);
            }
        }
    }
}
