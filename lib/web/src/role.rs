//! Roles, of which every route declares one, and principals, the callers that were found to have it.
//!
//! The handlers check the node of a principal that is bound to one, because only they know the node that a request is
//! about.

use std::borrow::Cow;
use std::fmt;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use estimand_api::labels::LabelMap;
use estimand_api::problem::Problem;

use crate::failure::Failure;
use crate::log_text::logged;
use crate::shares::User;

/// The permission that a route requires of its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Any caller, known or not: health, the interface's description.
    Open,
    /// Getting the certificate of a node.
    Join,
    /// Reading data and registrations.
    Read,
    /// Writing data.
    Write,
    /// Tasks and files of users.
    User,
    /// Requests of an agent on behalf of its node.
    Node,
    /// Requests of one service to another.
    Service,
    /// Changing registrations, bindings, nodes.
    Operate,
}

impl Role {
    /// The name in the interface's description (`x-role`).
    pub fn name(self) -> &'static str {
        match self {
            Role::Open => "open",
            Role::Join => "join",
            Role::Read => "read",
            Role::Write => "write",
            Role::User => "user",
            Role::Node => "node",
            Role::Service => "service",
            Role::Operate => "operate",
        }
    }

    /// True if handlers of this role are given any principal. Those of reads are given users alone, so that others pay nothing
    /// for it.
    pub(crate) fn names_principal(self) -> bool {
        matches!(self, Role::Join | Role::Write | Role::User | Role::Node | Role::Operate)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The caller of a request. Handlers of the roles Join, Write, User, Node and Operate take it as an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// None: an unknown caller, admitted because the route is open to all.
    name: Option<Arc<str>>,
    /// The one node that it speaks for, if it is bound to one.
    node: Option<Arc<str>>,
    /// The one user whose tasks and files it sees; none: those of all.
    user: Option<User>,
    from: Option<IpAddr>,
    labels: LabelGrant,
    /// It may do what agents do.
    is_agent: bool,
}

/// The statement of a credential about the labels of its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelGrant {
    /// These and no others are bound to the node.
    These(Arc<LabelMap>),
    /// Its agent is the operator's own: what it claims is bound.
    Claimed,
}

impl Principal {
    /// A caller of which only the address is known.
    pub fn peer(address: IpAddr) -> Self {
        Principal {
            name: None,
            node: None,
            user: None,
            from: Some(address),
            labels: LabelGrant::Claimed,
            is_agent: false,
        }
    }

    pub fn named(name: impl Into<Arc<str>>) -> Self {
        let name = Some(name.into());
        Principal { name, node: None, user: None, from: None, labels: LabelGrant::Claimed, is_agent: false }
    }

    /// The same, bound to a node if one is given. Then it binds no labels to it.
    pub fn bound_to(self, node: Option<Arc<str>>) -> Self {
        let labels = match node {
            Some(_) => LabelGrant::These(Arc::default()),
            None => self.labels,
        };
        Principal { node, labels, ..self }
    }

    /// The same, for one user if one is given.
    pub fn of_user(self, user: Option<User>) -> Self {
        Principal { user, ..self }
    }

    /// The same with what its credential says of its node's labels; a caller that is bound to no node may say them all.
    pub fn with_labels(self, labels: LabelGrant) -> Self {
        if self.node.is_none() {
            return self;
        }
        Principal { labels, ..self }
    }

    /// Those labels of its node that are bound, given those that its agent claims.
    pub fn bound_labels<'a>(&'a self, claimed: &'a LabelMap) -> &'a LabelMap {
        match &self.labels {
            LabelGrant::These(labels) => labels,
            LabelGrant::Claimed => claimed,
        }
    }

    /// The same, which may do what agents do if `is_agent`: the role `node`, or more.
    pub fn as_agent(self, is_agent: bool) -> Self {
        Principal { is_agent, ..self }
    }

    /// True if the order of its writes is believed: those of a slot have one.
    pub fn may_order(&self) -> bool {
        self.is_agent
    }

    pub fn from_address(self, from: Option<IpAddr>) -> Self {
        Principal { from, ..self }
    }

    pub fn name(&self) -> Cow<'_, str> {
        match (&self.name, self.from) {
            (Some(name), _) => Cow::Borrowed(name),
            (None, Some(address)) => Cow::Owned(address.to_string()),
            (None, None) => Cow::Borrowed("unknown"),
        }
    }

    /// The node that it is bound to: it may act for no other one.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// The user whose tasks and files it sees and changes; none: those of all, as operators do.
    pub fn user(&self) -> Option<&str> {
        self.user.as_ref().map(User::name)
    }

    /// The user of the caller, with their limits and with what they hold.
    pub fn as_user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// True if it may act for this node.
    pub fn speaks_for(&self, node: &str) -> bool {
        self.node().is_none_or(|own| own == node)
    }
}

/// Name and address: `laptop@10.0.0.7`, or the address alone. Neither names nor addresses contain an `@`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.from) {
            (Some(name), Some(from)) => write!(f, "{name}@{from}"),
            _ => f.write_str(&self.name()),
        }
    }
}

/// The address that a request came from.
pub fn address_of(req: &HttpRequest) -> Option<IpAddr> {
    req.peer_addr().map(|peer| peer.ip().to_canonical())
}

impl FromRequest for Principal {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(req.extensions().get::<Principal>().cloned().ok_or_else(|| {
            tracing::error!(path = %logged(req.path()), "a handler asks who is calling, but its role does not tell");
            Failure::from(Problem::internal())
        }))
    }
}
