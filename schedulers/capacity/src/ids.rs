//! The numbers by which a ledger knows its nodes and promises.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A node of one ledger. It stays the same until the node is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// A small number, for tables that go along with the ledger's nodes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Given out once by a ledger, in growing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PromiseId(pub(crate) u64);

/// Given out once by a ledger, in growing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoanId(pub(crate) u64);

impl fmt::Display for PromiseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
