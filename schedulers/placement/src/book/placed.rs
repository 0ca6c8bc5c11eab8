//! The placed tasks of a book: each has a loan, or a unit of its promise.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use estimand_capacity::{Holder, LoanId, NodeId, Shape};

use super::{Book, Promised};
use crate::decision::Decision;
use crate::planner::value;
use crate::queue::TaskNumber;
use crate::request::Request;
use crate::task::TaskView;

/// A task that has a node.
#[derive(Debug, Clone)]
pub struct Placed {
    pub attempt: u32,
    pub node: String,
    /// None while the node is not known: then it is not counted.
    pub at: Option<NodeId>,
    hold: Option<Hold>,
    pub shape: Shape,
    /// The processor time in thousandths that it is expected to take.
    pub weight: u64,
    pub priority: i32,
    /// The promise on whose capacity it is.
    pub promise: Option<String>,
    /// The user who has its place; on a promise that is nobody's.
    user: Option<Arc<str>>,
    /// The shares that its loan is counted with; on a promise there are none.
    holder: Option<Holder>,
    pub has_started: bool,
    /// The task is to end, before any promise could want its capacity.
    leaves_soon: bool,
}

/// The load that a task is for its node.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    attempt: u32,
    pub at: Option<NodeId>,
    pub weight: u64,
    pub has_started: bool,
}

impl Load {
    /// The same attempt on the same node.
    pub fn is_same(&self, other: &Load) -> bool {
        (self.attempt, self.at) == (other.attempt, other.at)
    }
}

/// The part of the ledger that a task has.
#[derive(Debug, Clone)]
enum Hold {
    Loan(LoanId),
    /// A unit of this shape.
    Unit(Shape),
}

impl Placed {
    pub fn new(attempt: u32, node: &str, shape: Shape, weight: u64) -> Placed {
        Placed {
            attempt,
            node: node.to_owned(),
            at: None,
            hold: None,
            shape,
            weight,
            priority: 0,
            promise: None,
            user: None,
            holder: None,
            has_started: false,
            leaves_soon: false,
        }
    }

    #[must_use]
    pub fn with_priority(self, priority: i32) -> Placed {
        Placed { priority, ..self }
    }

    #[must_use]
    pub fn with_user(self, user: Option<Arc<str>>) -> Placed {
        Placed { user, ..self }
    }

    #[must_use]
    pub fn with_holder(self, holder: Option<Holder>) -> Placed {
        Placed { holder, ..self }
    }

    #[must_use]
    pub fn on_promise(self, promise: String) -> Placed {
        Placed { promise: Some(promise), ..self }
    }

    pub fn load(&self) -> Load {
        Load { attempt: self.attempt, at: self.at, weight: self.weight, has_started: self.has_started }
    }
}

impl Book {
    /// Counts the tasks on nodes that are gone no more; returns the tasks on all of these nodes.
    pub(super) fn leave_nodes(&mut self, gone: &[String], nodes: &BTreeSet<String>) -> Vec<TaskNumber> {
        let here = self.placed.iter().filter(|(_, placed)| nodes.contains(&placed.node));
        let tasks: Vec<TaskNumber> = here.map(|(task, _)| *task).collect();
        for task in &tasks {
            if self.placed.get(task).is_some_and(|placed| gone.contains(&placed.node)) {
                self.uncount_task(*task);
            }
        }
        tasks
    }

    /// Follows a task to where it is now.
    pub fn put_task(&mut self, task: &TaskView<'_>) {
        let Some(node) = task.placed_on() else { return self.remove_task(task.number) };
        let leaves_soon = task.progress.leaves_soon();
        if let Some(known) = self.placed.get_mut(&task.number)
            && known.attempt == task.progress.attempt
            && known.node == node
        {
            known.has_started |= task.has_started();
            known.leaves_soon = leaves_soon;
            // A task that did not hear of its recall, because its node was lost then, is asked again.
            if let (Some(Hold::Loan(loan)), None) = (&known.hold, &known.promise) {
                self.cluster.ledger.set_recalled(*loan, leaves_soon);
            }
            return;
        }
        let request = task.request(&mut self.cluster.ledger);
        let holder = request.holder_in(&self.cluster).filter(|_| task.promise.is_none());
        let Request { shape, weight, user, .. } = request;
        let placed = Placed {
            priority: task.priority,
            promise: task.promise.map(str::to_owned),
            user: user.filter(|_| task.promise.is_none()),
            holder,
            has_started: task.has_started(),
            leaves_soon,
            ..Placed::new(task.progress.attempt, node, shape, weight)
        };
        self.place(task.number, placed);
    }

    pub fn remove_task(&mut self, task: TaskNumber) {
        self.uncount_task(task);
        self.placed.remove(&task);
    }

    /// Counts a task on its node.
    pub fn place(&mut self, task: TaskNumber, placed: Placed) {
        self.remove_task(task);
        self.placed.insert(task, placed);
        self.count_task(task);
    }

    /// Counts a task that has its loan already.
    pub fn place_on_loan(&mut self, decision: &Decision, placed: Placed) {
        let Decision { task, node, loan, .. } = *decision;
        self.remove_task(task);
        self.loans.insert(loan, task);
        self.placed.insert(task, Placed { at: Some(node), hold: Some(Hold::Loan(loan)), ..placed });
    }

    pub(super) fn count_task(&mut self, task: TaskNumber) {
        let Some(placed) = self.placed.get_mut(&task) else { return };
        let Some(node) = self.cluster.ledger.node(&placed.node) else { return };
        if placed.at.replace(node).is_none() {
            self.cluster.count(node, placed.weight, placed.user.as_ref());
        }
        match placed.promise.clone() {
            Some(promise) => {
                self.on_promise.entry(promise.clone()).or_default().insert(task);
                self.seat(&promise);
            }
            None => self.lend(task, node),
        }
    }

    /// Counts a task no more, which stays here.
    fn uncount_task(&mut self, task: TaskNumber) {
        let Some(placed) = self.placed.get_mut(&task) else { return };
        let Some(node) = placed.at.take() else { return };
        self.cluster.uncount(node, placed.weight, placed.user.as_ref());
        let promise = placed.promise.clone();
        self.take_back(task, node);
        let Some(promise) = promise else { return };
        if let Some(tasks) = self.on_promise.get_mut(&promise) {
            tasks.remove(&task);
            if tasks.is_empty() {
                self.on_promise.remove(&promise);
            }
        }
        self.seat(&promise);
    }

    /// Gives the units of a promise to its tasks, and loans to those for whom there is none.
    pub(super) fn seat(&mut self, promise: &str) {
        let Some(tasks) = self.on_promise.get(promise) else { return };
        let promised = self.promised_as(promise);
        let shape = promised.map(|promised| promised.shape.clone());
        let mut free: HashMap<NodeId, usize> = HashMap::new();
        for (_, node) in promised.iter().flat_map(|promised| &promised.units) {
            *free.entry(*node).or_default() += 1;
        }
        let mut changed = Vec::new();
        for task in tasks {
            let Some((placed, node)) = self.placed.get(task).and_then(|placed| Some((placed, placed.at?)))
            else {
                continue;
            };
            let unit = free.get_mut(&node).filter(|free| **free > 0);
            let gets_unit = unit.map(|free| *free -= 1).is_some();
            let is_so = match &placed.hold {
                Some(Hold::Unit(_)) => gets_unit,
                Some(Hold::Loan(_)) => !gets_unit,
                None => false,
            };
            if !is_so {
                changed.push((*task, node, shape.clone().filter(|_| gets_unit)));
            }
        }
        for (task, node, unit) in changed {
            self.take_back(task, node);
            match unit {
                Some(shape) => self.occupy(task, node, shape),
                None => self.lend(task, node),
            }
        }
    }

    fn occupy(&mut self, task: TaskNumber, node: NodeId, shape: Shape) {
        self.cluster.ledger.occupy(node, &shape);
        if let Some(placed) = self.placed.get_mut(&task) {
            placed.hold = Some(Hold::Unit(shape));
        }
    }

    fn lend(&mut self, task: TaskNumber, node: NodeId) {
        let Some(placed) = self.placed.get_mut(&task) else { return };
        let loan = self.cluster.ledger.lend(node, placed.shape.clone(), value(placed.priority));
        // A task on a promise, or one that is about to end already, is not asked to make room.
        self.cluster.ledger.set_recalled(loan, placed.promise.is_some() || placed.leaves_soon);
        placed.hold = Some(Hold::Loan(loan));
        self.cluster.count_loan(placed.holder.as_ref(), &placed.shape);
        self.loans.insert(loan, task);
    }

    /// Gives back the part of the ledger that a task has.
    fn take_back(&mut self, task: TaskNumber, node: NodeId) {
        let Some(placed) = self.placed.get_mut(&task) else { return };
        match placed.hold.take() {
            Some(Hold::Loan(loan)) => {
                self.cluster.ledger.take_back(loan);
                self.cluster.uncount_loan(placed.holder.as_ref(), &placed.shape);
                self.loans.remove(&loan);
            }
            Some(Hold::Unit(shape)) => self.cluster.ledger.vacate(node, &shape),
            None => {}
        }
    }

    /// The units of a promise that no task has.
    pub fn free_units<'b>(&'b self, promised: &'b Promised) -> impl Iterator<Item = (usize, NodeId)> + 'b {
        let mut taken: HashMap<NodeId, usize> = HashMap::new();
        let tasks = self.on_promise.get(&promised.promise.id).into_iter().flatten();
        for placed in tasks.filter_map(|task| self.placed.get(task)) {
            if let (Some(node), Some(Hold::Unit(_))) = (placed.at, &placed.hold) {
                *taken.entry(node).or_default() += 1;
            }
        }
        promised.units.iter().copied().filter(move |(_, node)| match taken.get_mut(node) {
            Some(taken) if *taken > 0 => {
                *taken -= 1;
                false
            }
            _ => true,
        })
    }
}
