//! Why nothing can be planned. Each names what is wrong and what would be right.

use super::problem::MAX_CAPABILITY;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("there are no nodes to divide the work among")]
    NoNodes,
    #[error("none of the {nodes} nodes is left: the policy leaves out every state that they are in")]
    NoneTrusted { nodes: usize },
    #[error("node {node} is listed twice")]
    NodeTwice { node: String },
    #[error("the capability of node {node} is {value}; expected a number of 0 to {MAX_CAPABILITY:e}")]
    Capability { node: String, value: f64 },
    #[error("the spread of the capability of node {node} is {value}; expected a finite number, 0 or more")]
    Spread { node: String, value: f64 },
    #[error("the {what} of node {node} is {value} seconds; expected a finite number, 0 or more")]
    Cost { node: String, what: &'static str, value: f64 },
    #[error(
        "capabilities are to be lessened by {value} times their spread; expected a finite number, 0 or more"
    )]
    Widening { value: f64 },
    #[error("the loads of the nodes add up to more than {} items", u64::MAX)]
    TooMuch,
    #[error("item {item} is listed twice")]
    ItemTwice { item: String },
    #[error("{items} items are more than can be numbered; expected at most {}", u32::MAX)]
    TooManyItems { items: usize },
    #[error("the plan is of other nodes or loads than the items: {what}")]
    OtherItems { what: String },
    #[error("the {what} of the policy is {value}; expected {expected}")]
    Setting { what: &'static str, value: f64, expected: &'static str },
    #[error("the parts are no partition of the items: {what}")]
    NoPartition { what: String },
}
