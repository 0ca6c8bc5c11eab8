//! The sums of the loans of each user and of each of a user's frameworks, and their dominant shares.
//!
//! A *dominant share* is the largest part that one has of any resource (Ghodsi and others, "Dominant Resource Fairness",
//! NSDI 2011). Serving the least one first gives users with different demands equal shares of whatever each needs most.
//! Resources of which the nodes have nothing count for nobody.
//!
//! A loan is added once and subtracted once, with the same shape. Changes are remembered until an order is brought up to date
//! with them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::amounts::{Resource, Shape};
use crate::ledger::Ledger;
use crate::share::{Share, Weight};

/// A framework of a user: a study, a batch, or the user's other work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub user: Arc<str>,
    pub framework: Arc<str>,
}

impl Holder {
    pub fn new(user: &str, framework: &str) -> Holder {
        Holder { user: Arc::from(user), framework: Arc::from(framework) }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Shares {
    /// The whole of each resource, by the ledger's numbers.
    wholes: Vec<u128>,
    users: BTreeMap<Arc<str>, UserAccount>,
    changes: ShareChanges,
}

/// The shares that are others than an order was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShareChanges {
    Of(BTreeSet<Holder>),
    All,
}

impl Default for ShareChanges {
    fn default() -> ShareChanges {
        ShareChanges::Of(BTreeSet::new())
    }
}

#[derive(Debug, Clone, Default)]
struct UserAccount {
    own: Account,
    frameworks: BTreeMap<Arc<str>, Account>,
}

#[derive(Debug, Clone, Default)]
struct Account {
    weight: Weight,
    /// The sum of the loans, of each resource of which there is any.
    lent: BTreeMap<usize, u128>,
}

impl Account {
    fn add(&mut self, shape: &Shape) {
        for (resource, amount) in shape.parts() {
            *self.lent.entry(resource).or_default() += u128::from(amount);
        }
    }

    fn subtract(&mut self, shape: &Shape) {
        for (resource, amount) in shape.parts() {
            let Entry::Occupied(mut sum) = self.lent.entry(resource) else { continue };
            *sum.get_mut() = sum.get().saturating_sub(u128::from(amount));
            if *sum.get() == 0 {
                sum.remove();
            }
        }
    }

    /// The resource of which it has the largest part, the first of several, and the share of that.
    fn dominant(&self, wholes: &[u128]) -> Option<(usize, Share)> {
        let share = |(resource, lent): (&usize, &u128)| {
            let whole = wholes.get(*resource).copied().unwrap_or(0);
            Some((*resource, Share::new(*lent, whole, self.weight)?))
        };
        self.lent.iter().filter_map(share).rev().max_by_key(|(_, share)| *share)
    }

    fn share(&self, wholes: &[u128]) -> Share {
        self.dominant(wholes).map_or(Share::NONE, |(_, share)| share)
    }

    fn is_default(&self) -> bool {
        self.lent.is_empty() && self.weight == Weight::default()
    }
}

impl Shares {
    /// Follows the nodes of a ledger. A node that is lost counts: its loans do, too.
    pub fn follow_nodes(&mut self, ledger: &Ledger) {
        let mut wholes = vec![0; ledger.resources.len()];
        for node in &ledger.nodes {
            for (whole, capacity) in wholes.iter_mut().zip(&node.capacity) {
                *whole += u128::from(*capacity);
            }
        }
        if wholes != self.wholes {
            self.wholes = wholes;
            self.changes = ShareChanges::All;
        }
    }

    pub fn set_user_weight(&mut self, user: &str, weight: Weight) {
        self.account_mut(user).own.weight = weight;
        self.forget_default(user);
        self.changes = ShareChanges::All;
    }

    /// The weight of a framework among those of its user.
    pub fn set_weight(&mut self, holder: &Holder, weight: Weight) {
        let account = self.account_mut(&holder.user);
        account.frameworks.entry(Arc::clone(&holder.framework)).or_default().weight = weight;
        self.settle(holder);
    }

    /// Counts a loan.
    pub fn lend(&mut self, holder: &Holder, shape: &Shape) {
        let account = self.account_mut(&holder.user);
        account.own.add(shape);
        account.frameworks.entry(Arc::clone(&holder.framework)).or_default().add(shape);
        self.settle(holder);
    }

    /// Counts a loan no more.
    pub fn take_back(&mut self, holder: &Holder, shape: &Shape) {
        let Some(account) = self.users.get_mut(&holder.user) else { return };
        let Some(framework) = account.frameworks.get_mut(&holder.framework) else { return };
        framework.subtract(shape);
        account.own.subtract(shape);
        self.settle(holder);
    }

    pub fn of_user(&self, user: &str) -> Share {
        self.users.get(user).map_or(Share::NONE, |account| account.own.share(&self.wholes))
    }

    /// The share of a framework in the whole, by its own weight.
    pub fn of(&self, holder: &Holder) -> Share {
        self.framework(holder).map_or(Share::NONE, |account| account.share(&self.wholes))
    }

    /// The resource of which a user has the largest part.
    pub fn dominant_of_user<'l>(&self, ledger: &'l Ledger, user: &str) -> Option<&'l Resource> {
        let (resource, _) = self.users.get(user)?.own.dominant(&self.wholes)?;
        ledger.resources.get(resource)
    }

    /// The users and frameworks that have a loan or a weight of their own.
    pub fn holders(&self) -> impl Iterator<Item = Holder> {
        self.users.iter().flat_map(|(user, account)| {
            let framework = |name: &Arc<str>| Holder { user: Arc::clone(user), framework: Arc::clone(name) };
            account.frameworks.keys().map(framework)
        })
    }

    /// The shares that changed since this was asked last.
    pub fn take_changes(&mut self) -> ShareChanges {
        std::mem::take(&mut self.changes)
    }

    fn framework(&self, holder: &Holder) -> Option<&Account> {
        self.users.get(&holder.user)?.frameworks.get(&holder.framework)
    }

    fn account_mut(&mut self, user: &str) -> &mut UserAccount {
        self.users.entry(Arc::from(user)).or_default()
    }

    /// Remembers a change, and nothing of whoever has nothing.
    fn settle(&mut self, holder: &Holder) {
        if let ShareChanges::Of(holders) = &mut self.changes {
            holders.insert(holder.clone());
        }
        if let Some(account) = self.users.get_mut(&holder.user)
            && account.frameworks.get(&holder.framework).is_some_and(Account::is_default)
        {
            account.frameworks.remove(&holder.framework);
        }
        self.forget_default(&holder.user);
    }

    fn forget_default(&mut self, user: &str) {
        let is_default = |account: &UserAccount| account.frameworks.is_empty() && account.own.is_default();
        if self.users.get(user).is_some_and(is_default) {
            self.users.remove(user);
        }
    }
}
