//! Tunnels: connections to the ports of tasks.
//!
//! An agent opens no port. So the task service writes down that somebody wants a tunnel, the agent of the task's node, which
//! asks for that, connects to the port and dials out to the service, and the service joins the two.

use serde::{Deserialize, Serialize};

/// The longest that an agent may wait for an order, in milliseconds.
pub const MAX_TUNNEL_WAIT_MS: u64 = 30_000;
/// The longest reason, in bytes.
pub const MAX_REASON_BYTES: usize = 1024;

/// A tunnel that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelOrder {
    /// Larger than those of all orders before it.
    pub number: u64,
    /// The task,
    pub id: String,
    /// and the attempt at it whose port is meant.
    pub attempt: u32,
}

/// The tunnels that an agent is to make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelOrders {
    pub tunnels: Vec<TunnelOrder>,
}

/// An agent cannot make a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TunnelRefusal {
    /// The reason, for the person who waits.
    pub reason: String,
}
