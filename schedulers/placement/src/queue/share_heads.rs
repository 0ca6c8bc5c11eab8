//! The heads of the queue by the shares of users and frameworks, for a queue that serves the least share first.
//!
//! Heads come and go while no shares are at hand, so their changes are kept until the next pass looks. A head that a pass
//! refuses is set aside until the pass is over.

use estimand_capacity::{Holder, ShareOrder, Shares};

use super::Rank;

#[derive(Debug, Clone, Default)]
pub(super) struct ShareHeads {
    order: ShareOrder<Rank>,
    changes: Vec<HeadChange>,
    aside: Vec<(Holder, Rank)>,
}

#[derive(Debug, Clone)]
enum HeadChange {
    Came(Holder, Rank),
    Gone(Holder, Rank),
}

impl ShareHeads {
    pub fn add(&mut self, holder: Holder, head: Rank) {
        self.changes.push(HeadChange::Came(holder, head));
    }

    pub fn remove(&mut self, holder: Holder, head: Rank) {
        self.changes.push(HeadChange::Gone(holder, head));
    }

    /// The first head, by the shares as they are now, that this pass has not refused.
    pub fn first(&mut self, shares: &mut Shares) -> Option<Rank> {
        for change in self.changes.drain(..) {
            match change {
                HeadChange::Came(holder, head) => self.order.insert(&holder, head, shares),
                HeadChange::Gone(holder, head) => self.order.remove(&holder, head, shares),
            }
        }
        self.order.refresh(shares);
        self.order.first().map(|(_, head)| head)
    }

    pub fn set_aside(&mut self, holder: Holder, head: Rank) {
        self.remove(holder.clone(), head);
        self.aside.push((holder, head));
    }

    /// The pass is over: refused heads stand among the others again.
    pub fn end_pass(&mut self) {
        for (holder, head) in std::mem::take(&mut self.aside) {
            self.add(holder, head);
        }
    }
}
