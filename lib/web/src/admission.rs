//! Admission: it alone decides whether a request goes on, by the role that its route declares. The one implemented here
//! trusts every caller that can connect; the one that knows tokens is another crate's.

use std::net::{IpAddr, Ipv4Addr};

use actix_web::HttpRequest;
use estimand_api::problem::Problem;
use futures_util::future::LocalBoxFuture;

use crate::role::{Principal, Role, address_of};

/// Ends with the reason when a request that was admitted would be rejected.
pub type Revocation = LocalBoxFuture<'static, Problem>;

/// Decides whether a request may go on. Runs before the handler, on every request: it must not block.
pub trait Admission: Send + Sync {
    fn check(&self, role: Role, req: &HttpRequest) -> Result<Principal, Problem>;

    /// Ends when a request that is admitted now would be rejected. Asked for long-running responses.
    fn revocation(&self, _role: Role, _req: &HttpRequest) -> Revocation {
        Box::pin(std::future::pending())
    }
}

/// Allows everything to every caller: for tests of services without access control.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenAdmission;

impl Admission for OpenAdmission {
    fn check(&self, _: Role, req: &HttpRequest) -> Result<Principal, Problem> {
        let from = address_of(req).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Ok(Principal::peer(from).as_agent(true))
    }
}
