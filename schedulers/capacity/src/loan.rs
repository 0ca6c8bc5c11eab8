//! Loans: capacity that nobody was promised, lent to work that makes room when a promise needs it.
//!
//! A loan has no end, and no place in the time to come: it never stands in the way of a promise. It is given where it
//! leaves room for all that is promised within the *notice*, the ticks that its work may take to leave. So if each loan
//! that is recalled is back within the notice, what is lent and what is promised never exceed the capacity together.

use std::collections::{BTreeMap, BTreeSet};

use crate::amounts::{Amounts, Resource, Shape};
use crate::ids::{LoanId, NodeId};
use crate::ledger::Ledger;
use crate::node::{Node, Standing};
use crate::window::{Tick, Window};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loan {
    pub node: NodeId,
    pub shape: Shape,
    /// The worth of what uses it: where room must be made, the least value goes first.
    pub value: u64,
    /// It was recalled, and is still in use.
    pub is_recalled: bool,
}

impl Ledger {
    /// The same ledger with so many ticks between the recall of a loan and the start of the promise that needs it.
    #[must_use]
    pub fn with_notice(mut self, ticks: u64) -> Ledger {
        self.notice = ticks;
        self
    }

    pub fn notice(&self) -> u64 {
        self.notice
    }

    /// The present tick and those within the notice.
    pub fn near(&self) -> Option<Window> {
        Window::lasting(self.now, self.notice.saturating_add(1)).ok()
    }

    pub fn loan(&self, id: LoanId) -> Option<&Loan> {
        self.loans.get(&id)
    }

    /// There is room for a loan: beside all other loans, and all that is promised within the notice.
    pub fn can_lend(&self, node: NodeId, shape: &Shape) -> bool {
        self.can_lend_at(self.now, node, shape, std::iter::empty())
    }

    /// The same at a tick, beside further shapes that are to be lent.
    pub fn can_lend_at<'s>(
        &self,
        now: Tick,
        node: NodeId,
        shape: &Shape,
        others: impl Iterator<Item = &'s Shape>,
    ) -> bool {
        let up = |node: &&Node| node.standing == Standing::Up;
        let near = Window::lasting(now, self.notice.saturating_add(1));
        let (Some(node), Ok(near)) = (self.nodes.get(node.index()).filter(up), near) else {
            return false;
        };
        let others = sums(others);
        shape.parts().all(|(resource, amount)| {
            let other = others.get(&resource).copied().unwrap_or(0);
            let taken = node.lent(resource) + other + u128::from(amount);
            let capacity = u128::from(node.capacity(resource));
            taken + node.peak(resource) <= capacity || taken + node.most_used(resource, near) <= capacity
        })
    }

    /// There is room for a loan beside other shapes and all that is promised within the notice, once the loans that are out
    /// now are back. Resources that the loan takes nothing of don't matter.
    pub fn can_lend_beside(&self, node: NodeId, shape: &Shape, others: &[&Shape]) -> bool {
        let up = |node: &&Node| node.standing == Standing::Up;
        let (Some(node), Some(near)) = (self.nodes.get(node.index()).filter(up), self.near()) else {
            return false;
        };
        shape.parts().all(|(resource, amount)| {
            let beside = others.iter().flat_map(|other| other.parts()).filter(|(of, _)| *of == resource);
            let taken: u128 = beside.map(|(_, amount)| u128::from(amount)).sum();
            let taken = taken + u128::from(amount) + node.most_used(resource, near);
            taken <= u128::from(node.capacity(resource))
        })
    }

    /// The whole of a node is enough for a shape, whatever is used of it and whether it is heard of or not.
    pub fn is_large_enough(&self, node: NodeId, shape: &Shape) -> bool {
        let Some(node) = self.nodes.get(node.index()) else { return false };
        shape.parts().all(|(resource, amount)| amount <= node.capacity.get(resource).copied().unwrap_or(0))
    }

    /// The amounts of a node that are not lent, nor promised within the notice. A lost node has them when it is
    /// back.
    pub fn idle(&self, node: NodeId) -> Amounts {
        let (Some(node), Some(near)) = (self.nodes.get(node.index()), self.near()) else {
            return Amounts::default();
        };
        let idle = |(number, name): (usize, &Resource)| (name.clone(), node.idle(number, near));
        self.resources.iter().enumerate().map(idle).collect()
    }

    /// The idle amounts of a node of the resources that a shape has, in the shape's order.
    pub fn idle_parts(&self, node: NodeId, shape: &Shape) -> impl Iterator<Item = u64> {
        let known = self.nodes.get(node.index()).zip(self.near());
        shape.parts().map(move |(resource, _)| known.map_or(0, |(node, near)| node.idle(resource, near)))
    }

    /// The amounts of a node that are promised at a tick, and lent all the same: they are to be back, and are awaited.
    pub fn awaited(&self, node: NodeId, at: Tick) -> Amounts {
        let (Some(node), Ok(now)) = (self.nodes.get(node.index()), Window::lasting(at, 1)) else {
            return Amounts::default();
        };
        let awaited = |resource: usize| {
            let taken = node.lent(resource) + node.most_used(resource, now);
            u64::try_from(taken.saturating_sub(u128::from(node.capacity(resource)))).unwrap_or(u64::MAX)
        };
        let all = self.resources.iter().enumerate().map(|(number, name)| (name.clone(), awaited(number)));
        all.filter(|(_, amount)| *amount > 0).collect()
    }

    /// Counts a loan, whether there is room for it or not: what is there is there.
    pub fn lend(&mut self, node: NodeId, shape: Shape, value: u64) -> LoanId {
        let id = LoanId(self.next_loan);
        self.next_loan += 1;
        if let Some(place) = self.nodes.get_mut(node.index()) {
            place.change_lent(&shape, |lent, amount| lent + amount);
            place.loans.insert(id);
            self.loans.insert(id, Loan { node, shape, value, is_recalled: false });
        }
        id
    }

    /// A loan is not used any more; false if it was back already.
    pub fn take_back(&mut self, id: LoanId) -> bool {
        let Some(loan) = self.loans.remove(&id) else { return false };
        let node = &mut self.nodes[loan.node.index()];
        node.change_lent(&loan.shape, u128::saturating_sub);
        node.loans.remove(&id);
        self.freed.insert(loan.node);
        true
    }

    /// The loans of a node that have to make room for what is promised within the notice, and were not recalled before: as
    /// few as will do, the least value first. They count until they are taken back. A lost node has nobody to be asked.
    pub fn recall(&mut self, node: NodeId) -> Vec<LoanId> {
        let Some(near) = self.near().filter(|_| self.standing(node) != Standing::Lost) else {
            return Vec::new();
        };
        let place = &self.nodes[node.index()];
        let mut missing = Missing::new(place, near);
        let mut staying: Vec<(LoanId, &Loan)> =
            place.loans.iter().filter_map(|id| Some((*id, self.loans.get(id)?))).collect();
        staying.retain(|(_, loan)| {
            if loan.is_recalled {
                missing.give(&loan.shape);
            }
            !loan.is_recalled
        });
        staying.sort_by_key(|(id, loan)| (loan.value, std::cmp::Reverse(*id)));
        let mut recalled = Vec::new();
        for (id, loan) in staying {
            if missing.is_met() {
                break;
            }
            if missing.is_helped_by(&loan.shape) {
                missing.give(&loan.shape);
                recalled.push((id, loan));
            }
        }
        // The last one was needed. Of the others those that are worth most stay if they can.
        let mut needed = BTreeSet::new();
        while let Some((id, loan)) = recalled.pop() {
            missing.keep(&loan.shape);
            if !missing.is_met() {
                missing.give(&loan.shape);
                needed.insert(id);
            }
        }
        for id in &needed {
            if let Some(loan) = self.loans.get_mut(id) {
                loan.is_recalled = true;
            }
        }
        needed.into_iter().collect()
    }

    /// There is room at this moment for what was promised: beside all tasks that are there by promises, all loans that are not
    /// back yet, and further shapes.
    pub fn has_room_now<'s>(
        &self,
        node: NodeId,
        shape: &Shape,
        others: impl Iterator<Item = &'s Shape>,
    ) -> bool {
        let Some(place) = self.nodes.get(node.index()).filter(|place| place.standing != Standing::Lost)
        else {
            return false;
        };
        let others = sums(others);
        shape.parts().all(|(resource, amount)| {
            let other = others.get(&resource).copied().unwrap_or(0);
            let taken = place.occupied(resource) + place.lent(resource) + other + u128::from(amount);
            taken <= u128::from(place.capacity(resource))
        })
    }

    /// A loan is to be back soon for another reason than a promise, and is not recalled; or its recall was not heard.
    pub fn set_recalled(&mut self, id: LoanId, is_recalled: bool) {
        if let Some(loan) = self.loans.get_mut(&id) {
            loan.is_recalled = is_recalled;
        }
    }
}

/// How much shapes have of each resource.
fn sums<'s>(shapes: impl Iterator<Item = &'s Shape>) -> BTreeMap<usize, u128> {
    let mut sums = BTreeMap::new();
    for (resource, amount) in shapes.flat_map(Shape::parts) {
        *sums.entry(resource).or_default() += u128::from(amount);
    }
    sums
}

/// How much of each resource is lent that promises need.
struct Missing(Vec<(usize, i128)>);

impl Missing {
    fn new(node: &Node, near: Window) -> Missing {
        let missing = |resource: usize| {
            let promised = node.most_used(resource, near);
            let all = i128::try_from(promised + node.lent(resource)).unwrap_or(i128::MAX);
            // Where nothing is promised nobody has to leave, even if there is less than is lent.
            (promised > 0).then(|| (resource, all - i128::from(node.capacity(resource))))
        };
        Missing((0..node.used.len()).filter_map(missing).collect())
    }

    fn is_met(&self) -> bool {
        self.0.iter().all(|(_, missing)| *missing <= 0)
    }

    fn is_helped_by(&self, shape: &Shape) -> bool {
        let short = |resource| self.0.iter().any(|(of, missing)| *of == resource && *missing > 0);
        shape.parts().any(|(resource, _)| short(resource))
    }

    fn give(&mut self, shape: &Shape) {
        self.change(shape, -1);
    }

    fn keep(&mut self, shape: &Shape) {
        self.change(shape, 1);
    }

    fn change(&mut self, shape: &Shape, sign: i128) {
        for (resource, amount) in shape.parts() {
            for (_, missing) in self.0.iter_mut().filter(|(of, _)| *of == resource) {
                *missing += sign * i128::from(amount);
            }
        }
    }
}
