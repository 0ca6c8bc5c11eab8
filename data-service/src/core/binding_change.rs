//! A binding that has changed: for its history, and for the caller who changed it.

use estimand_api::names::DataName;
use estimand_api::value::{BindingTarget, SwapAction};

use super::snapshot::Bound;

/// A change of a binding, for its history.
#[derive(Debug)]
pub struct BindingChange {
    pub name: DataName,
    pub action: SwapAction,
    /// The target from then on, or until then.
    pub served: BindingTarget,
    /// The target before that.
    pub before: Option<BindingTarget>,
    pub revision: u64,
    pub by: String,
}

/// A binding as it is now, and the former target of the name if that is another one.
#[derive(Debug, Clone)]
pub struct Rebound {
    pub bound: Bound,
    pub before: Option<BindingTarget>,
}
