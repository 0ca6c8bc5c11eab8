//! What a policy that runs a job hears and says. Its driver (a dispatcher, or [`super::simulate`]) knows the nodes and
//! the clock; the policy knows only what it is told, and must stand any order in which it is told.

/// An item by its number.
pub type ItemId = u32;

/// What the driver is to do, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Put the items at the end of what the node has.
    Give { node: usize, items: Vec<ItemId> },
    /// Take the items away from what the node has. If it does some of them all the same, nothing is lost: whoever
    /// tells first counts.
    TakeBack { node: usize, items: Vec<ItemId> },
    /// Every item is done; said once.
    Finished,
}

/// Runs a job over nodes that come, go and differ. Nodes have numbers; those it starts with have the first ones.
///
/// An item is done once in [`Policy::merged`], by whoever tells first, dead or alive; it is given to one node at a
/// time; a node that is lost loses nothing that it has told of.
pub trait Policy {
    /// The node is ready to work; one that was told lost is back, with nothing in its hands.
    fn started(&mut self, node: usize) -> Vec<Action>;

    /// The node did these items, and worked for so long on them. None in a while is worth telling too: it slows
    /// the estimate.
    fn done(&mut self, node: usize, items: &[ItemId], seconds: f64) -> Vec<Action>;

    /// The node is gone, or never came; what it has not told of is to be done by others.
    fn lost(&mut self, node: usize) -> Vec<Action>;

    /// A node may take part from now on; it works once it has started. A known name is that node again, with nothing
    /// in its hands.
    fn joined(&mut self, name: &str, capability: f64) -> (usize, Vec<Action>);

    /// By item: the node whose result counts.
    fn merged(&self) -> Vec<Option<usize>>;
}
