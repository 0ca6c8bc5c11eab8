//! The errors of planning. Each names the invalid input and the expected one.

use super::problem::MAX_CAPABILITY;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("there are no nodes to divide the work among")]
    NoNodes,
    #[error("all {nodes} nodes are excluded because of their states")]
    AllExcluded { nodes: usize },
    #[error("node {node} is listed twice")]
    DuplicateNode { node: String },
    #[error("the capability of node {node} is {value}; expected a number of 0 to {MAX_CAPABILITY:e}")]
    Capability { node: String, value: f64 },
    #[error("the spread of the capability of node {node} is {value}; expected a finite number, 0 or more")]
    Spread { node: String, value: f64 },
    #[error("the {what} of node {node} is {value} seconds; expected a finite number, 0 or more")]
    Cost { node: String, what: &'static str, value: f64 },
    #[error("the factor of the spread is {value}; expected a finite number, 0 or more")]
    Widening { value: f64 },
    #[error("the loads of the nodes add up to more than {} items", u64::MAX)]
    LoadOverflow,
    #[error("item {item} is listed twice")]
    DuplicateItem { item: String },
    #[error("{items} items are more than can be numbered; expected at most {}", u32::MAX)]
    TooManyItems { items: usize },
    #[error("the plan does not match the items: {what}")]
    PlanMismatch { what: String },
    #[error("the {what} of the policy is {value}; expected {expected}")]
    Setting { what: &'static str, value: f64, expected: &'static str },
    #[error("the parts are no partition of the items: {what}")]
    NotAPartition { what: String },
}
