//! The operations on values and bindings, each with a reply of its own type.

use estimand_api::names::{DataName, NodeName};
use estimand_api::value::{BatchReceipt, BindingTarget, DeletionReceipt, StateReceipt, WriteReceipt};
use estimand_api::write::Write;

use super::Rejection;
use super::binding_change::Rebound;
use super::group::{Group, Retention};

/// Something to do. It may be applied several times, to groups of which only one is stored.
pub trait Operation: Send + 'static {
    type Reply: Send + 'static;
    /// True if it needs no room where values are stored.
    const ONLY_REMOVES: bool = false;

    /// Applies it to a group; `retention` holds before that group. An operation that is rejected changes nothing.
    fn apply(&self, group: &mut Group, retention: &Retention) -> Result<Self::Reply, Rejection>;
}

impl Operation for Write {
    type Reply = WriteReceipt;

    fn apply(&self, group: &mut Group, retention: &Retention) -> Result<WriteReceipt, Rejection> {
        group.reject_bound(&self.data_name)?;
        group.write(self, retention)
    }
}

/// All or nothing.
impl Operation for Vec<Write> {
    type Reply = BatchReceipt;

    fn apply(&self, group: &mut Group, retention: &Retention) -> Result<BatchReceipt, Rejection> {
        group.batch(self, retention)
    }
}

/// Deletes the values of a name, or the one for a node, with their history.
#[derive(Debug)]
pub struct Delete {
    pub name: DataName,
    pub node: Option<NodeName>,
}

impl Operation for Delete {
    type Reply = DeletionReceipt;
    const ONLY_REMOVES: bool = true;

    fn apply(&self, group: &mut Group, _: &Retention) -> Result<DeletionReceipt, Rejection> {
        group.delete(&self.name, self.node.as_ref())
    }
}

/// Marks all values of a node as those of a lost one, or not.
#[derive(Debug)]
pub struct MarkNode {
    pub node: NodeName,
    pub lost: bool,
}

impl Operation for MarkNode {
    type Reply = StateReceipt;

    fn apply(&self, group: &mut Group, _: &Retention) -> Result<StateReceipt, Rejection> {
        Ok(group.mark_node(&self.node, self.lost))
    }
}

/// Binds a name. With `from`, only if the name serves that until then.
#[derive(Debug)]
pub struct Bind {
    pub name: DataName,
    pub served: BindingTarget,
    pub from: Option<DataName>,
    pub by: String,
}

impl Operation for Bind {
    type Reply = Rebound;

    fn apply(&self, group: &mut Group, _: &Retention) -> Result<Rebound, Rejection> {
        group.bind(&self.name, &self.served, self.from.as_ref(), &self.by)
    }
}

/// Binds a name to its former target, in the same way.
#[derive(Debug)]
pub struct RollBack {
    pub name: DataName,
    pub from: Option<DataName>,
    pub by: String,
}

impl Operation for RollBack {
    type Reply = Rebound;

    fn apply(&self, group: &mut Group, _: &Retention) -> Result<Rebound, Rejection> {
        group.roll_back(&self.name, self.from.as_ref(), &self.by)
    }
}

/// Removes a binding.
#[derive(Debug)]
pub struct Unbind {
    pub name: DataName,
    pub by: String,
}

impl Operation for Unbind {
    type Reply = ();
    const ONLY_REMOVES: bool = true;

    fn apply(&self, group: &mut Group, _: &Retention) -> Result<(), Rejection> {
        group.unbind(&self.name, &self.by)
    }
}

/// Replaces the list of names that keep a history.
#[derive(Debug)]
pub struct Retain(pub Retention);

impl Operation for Retain {
    type Reply = ();

    fn apply(&self, group: &mut Group, retention: &Retention) -> Result<(), Rejection> {
        group.retain(&self.0, retention);
        Ok(())
    }
}
