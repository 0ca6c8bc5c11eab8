//! The interface of a policy that runs a job. Its driver (a run, or [`super::simulate`]) knows the nodes and the clock;
//! the policy knows only reports, and must cope with any order of them.

/// An item by its number.
pub type ItemId = u32;

/// Orders to the driver, carried out in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Put the items at the end of what the node has.
    Give { node: usize, items: Vec<ItemId> },
    /// Take the items away from the node. If it does some of them all the same, nothing is lost: the first report
    /// counts.
    TakeBack { node: usize, items: Vec<ItemId> },
    /// Every item is done; said once.
    Finished,
}

/// Runs a job over nodes that come, go and differ. Nodes have numbers; those it starts with have the first ones.
///
/// An item counts once in [`Policy::merged`], for the node that reported it first, lost or not. It is given to one node
/// at a time. A node that is lost keeps what it has reported.
pub trait Policy {
    /// The node is ready to work; one that was lost is back, without items.
    fn started(&mut self, node: usize) -> Vec<Action>;

    /// The node did these items in that time. A report without items is useful too: it lowers the estimate of the
    /// speed.
    fn done(&mut self, node: usize, items: &[ItemId], seconds: f64) -> Vec<Action>;

    /// The node is gone, or never came; others do what it has not reported.
    fn lost(&mut self, node: usize) -> Vec<Action>;

    /// A node may take part from now on; it works once it has started. A known name is that node again, without items.
    fn joined(&mut self, name: &str, capability: f64) -> (usize, Vec<Action>);

    /// By item: the node whose result counts.
    fn merged(&self) -> Vec<Option<usize>>;
}
