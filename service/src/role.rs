//! Who may do what: every route declares a role, and one policy decides whether a request fulfils it.
//!
//! The policy is the only place that decides. The one implemented here trusts whoever can connect, which is
//! right for a loopback address and nothing else; the server refuses other addresses unless told otherwise.

use std::borrow::Cow;
use std::fmt;
use std::future::{Ready, ready};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use estimand_api::problem::Problem;

use crate::failure::Failure;

/// What a route needs of whoever calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Anybody, known or not: health, the interface's description.
    Open,
    /// Reading data and registrations.
    Read,
    /// Writing data.
    Write,
    /// What the agent of a node does on that node's behalf.
    Node,
    /// Changing what runs: registrations, bindings, nodes.
    Operate,
}

impl Role {
    /// The name in the interface's description (`x-role`).
    pub fn name(self) -> &'static str {
        match self {
            Role::Open => "open",
            Role::Read => "read",
            Role::Write => "write",
            Role::Node => "node",
            Role::Operate => "operate",
        }
    }

    /// Whether handlers of this role are told who is calling. Reads are not, so that they pay nothing for it.
    pub(crate) fn names_principal(self) -> bool {
        matches!(self, Role::Write | Role::Node | Role::Operate)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Decides whether a request may go on. Runs before the handler, on every request: it must not block.
pub trait Policy: Send + Sync {
    fn check(&self, role: Role, req: &HttpRequest) -> Result<Principal, Problem>;
}

/// Who is calling. Handlers of the roles Write, Node and Operate take it as an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(Who);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    /// Known only by where the connection came from; becomes text when somebody asks.
    Peer(IpAddr),
    Named(Arc<str>),
}

impl Principal {
    pub fn peer(address: IpAddr) -> Self {
        Principal(Who::Peer(address))
    }

    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Principal(Who::Named(name.into()))
    }

    pub fn name(&self) -> Cow<'_, str> {
        match &self.0 {
            Who::Peer(address) => Cow::Owned(address.to_string()),
            Who::Named(name) => Cow::Borrowed(name),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Who::Peer(address) => address.fmt(f),
            Who::Named(name) => f.write_str(name),
        }
    }
}

impl FromRequest for Principal {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(req.extensions().get::<Principal>().cloned().ok_or_else(|| {
            tracing::error!(path = req.path(), "a handler asks who is calling, but its role does not tell");
            Failure::from(Problem::internal())
        }))
    }
}

/// Everything is allowed to whoever can connect.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopbackPolicy;

impl Policy for LoopbackPolicy {
    fn check(&self, _: Role, req: &HttpRequest) -> Result<Principal, Problem> {
        let address = req.peer_addr().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.ip());
        Ok(Principal::peer(address))
    }
}
