//! A node that is kept for a task which has waited too long: of what that task needs there, nothing is given to others.
//!
//! Tasks that come later may run there beside the one that waits. So they are counted together with it, as if all that was
//! there before had gone: however many of them come, its room is free once the tasks of before have ended.

use estimand_capacity::{LoanId, NodeId, Shape};

use super::cluster::Cluster;
use super::policy::Policy;
use super::queue::TaskNumber;
use super::request::Request;

#[derive(Debug, Clone)]
pub struct KeptNode {
    pub node: NodeId,
    /// The task that it is kept for, and the request of that task.
    pub task: TaskNumber,
    pub(super) request: Request,
    /// The loans that were given there since.
    beside: Vec<Beside>,
}

#[derive(Debug, Clone)]
struct Beside {
    loan: LoanId,
    shape: Shape,
    /// The processor time in thousandths that its task is expected to take.
    weight: u64,
}

impl KeptNode {
    pub fn new(node: NodeId, task: TaskNumber, request: &Request) -> KeptNode {
        KeptNode { node, task, request: request.clone(), beside: Vec::new() }
    }

    /// The node has room for a request beside the task that waits for it, and beside those that came meanwhile.
    pub fn has_room_for(&self, cluster: &Cluster, request: &Request) -> bool {
        let others: Vec<&Shape> =
            self.beside.iter().map(|beside| &beside.shape).chain([&self.request.shape]).collect();
        let leaves_processor = || {
            let expected: u64 = self.beside.iter().map(|beside| beside.weight).sum();
            let expected = expected.saturating_add(request.weight).saturating_add(self.request.weight);
            cluster.node(self.node).is_some_and(|node| expected <= node.cpu)
        };
        cluster.ledger.can_lend_beside(self.node, &request.shape, &others)
            && (self.request.policy != Policy::Queue || leaves_processor())
    }

    /// Counts a loan that was given there.
    pub fn add(&mut self, loan: LoanId, request: &Request) {
        self.beside.push(Beside { loan, shape: request.shape.clone(), weight: request.weight });
    }

    /// Counts the loans no more that are back.
    pub fn forget_ended(&mut self, cluster: &Cluster) {
        self.beside.retain(|beside| cluster.ledger.loan(beside.loan).is_some());
    }
}
