//! A node as the ledger counts it: its capacity, what is used of it over time, and the promises that use it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::amounts::Shape;
use crate::ids::{LoanId, PromiseId};
use crate::steps::Steps;
use crate::window::{Tick, Window};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    #[default]
    Up,
    /// Its tasks go on, nothing new is claimed.
    Cordoned,
    /// It has nothing to give until it is heard of again.
    Lost,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Up => "up",
            Standing::Cordoned => "cordoned",
            Standing::Lost => "lost",
        })
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub name: String,
    pub class: String,
    pub standing: Standing,
    /// By the ledger's numbers of resources; what is missing at the end is 0.
    pub capacity: Vec<u64>,
    pub used: Vec<Steps>,
    pub promises: BTreeSet<PromiseId>,
    /// How much of each resource tasks have by promises at this moment.
    pub occupied: Vec<u128>,
    /// How much is lent of each resource, and by which loans.
    pub lent: Vec<u128>,
    pub loans: BTreeSet<LoanId>,
}

impl Node {
    /// The amount of a resource that it has now; nothing while it is lost.
    pub fn capacity(&self, resource: usize) -> u64 {
        match self.standing {
            Standing::Lost => 0,
            Standing::Up | Standing::Cordoned => self.capacity.get(resource).copied().unwrap_or(0),
        }
    }

    pub fn most_used(&self, resource: usize, window: Window) -> u128 {
        self.used.get(resource).map_or(0, |steps| steps.most(window))
    }

    pub fn peak(&self, resource: usize) -> u128 {
        self.used.get(resource).map_or(0, Steps::peak)
    }

    pub fn lent(&self, resource: usize) -> u128 {
        self.lent.get(resource).copied().unwrap_or(0)
    }

    pub fn change_lent(&mut self, shape: &Shape, new: impl Fn(u128, u128) -> u128) {
        change(&mut self.lent, shape, new);
    }

    pub fn occupied(&self, resource: usize) -> u128 {
        self.occupied.get(resource).copied().unwrap_or(0)
    }

    pub fn change_occupied(&mut self, shape: &Shape, new: impl Fn(u128, u128) -> u128) {
        change(&mut self.occupied, shape, new);
    }

    /// The amount of a resource that is promised to nobody all through a window.
    pub fn free(&self, resource: usize, window: Window) -> u64 {
        let used = u64::try_from(self.most_used(resource, window)).unwrap_or(u64::MAX);
        self.capacity(resource).saturating_sub(used)
    }

    /// The amount of a resource that is not lent, nor promised in a window, also while the node is lost.
    pub fn idle(&self, resource: usize, window: Window) -> u64 {
        let taken = self.lent(resource) + self.most_used(resource, window);
        let whole = self.capacity.get(resource).copied().unwrap_or(0);
        whole.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX))
    }

    pub fn has_room(&self, shape: &Shape, window: Window) -> bool {
        shape.parts().all(|(resource, amount)| {
            let Some(room) = self.capacity(resource).checked_sub(amount) else { return false };
            let (room, Some(steps)) = (u128::from(room), self.used.get(resource)) else { return true };
            steps.peak() <= room || steps.most(window) <= room
        })
    }

    /// The fullest of the shape's resources in a window, with all loans and the shape on it, in millionths.
    pub fn fullness(&self, shape: &Shape, window: Window) -> u64 {
        let full = shape.parts().map(|(resource, amount)| {
            let used = self.most_used(resource, window) + self.lent(resource) + u128::from(amount);
            used * 1_000_000 / u128::from(self.capacity(resource).max(1))
        });
        full.max().map_or(0, |millionths| u64::try_from(millionths).unwrap_or(u64::MAX))
    }

    /// The same without promises and loans, and with the use of a window alone.
    pub fn within(&self, window: Window) -> Node {
        let Node { name, class, standing, capacity, used, lent, .. } = self;
        Node {
            name: name.clone(),
            class: class.clone(),
            standing: *standing,
            capacity: capacity.clone(),
            used: used.iter().map(|steps| steps.within(window)).collect(),
            lent: lent.clone(),
            ..Node::default()
        }
    }

    pub fn add(&mut self, shape: &Shape, window: Window, now: Tick) {
        for (resource, amount) in shape.parts() {
            if self.used.len() <= resource {
                self.used.resize_with(resource + 1, Steps::default);
            }
            self.used[resource].forget_before(now);
            self.used[resource].add(window, amount);
        }
    }

    pub fn subtract(&mut self, shape: &Shape, window: Window, now: Tick) {
        for (resource, amount) in shape.parts() {
            if let Some(steps) = self.used.get_mut(resource) {
                steps.forget_before(now);
                steps.subtract(window, amount);
            }
        }
    }

    /// Somewhere from now on more of a resource is used than there is.
    pub fn is_overfull(&self, now: Tick) -> bool {
        let Ok(all) = Window::open(now) else { return false };
        (0..self.used.len()).any(|resource| self.is_crowded(resource, all))
    }

    /// More of a resource is used than there is, at some tick of a window.
    pub fn is_crowded(&self, resource: usize, window: Window) -> bool {
        let capacity = u128::from(self.capacity(resource));
        self.used.get(resource).is_some_and(|steps| steps.peak() > capacity && steps.most(window) > capacity)
    }
}

/// Changes sums of resources by the amounts of a shape.
fn change(sums: &mut Vec<u128>, shape: &Shape, new: impl Fn(u128, u128) -> u128) {
    for (resource, amount) in shape.parts() {
        if sums.len() <= resource {
            sums.resize(resource + 1, 0);
        }
        sums[resource] = new(sums[resource], u128::from(amount));
    }
}
