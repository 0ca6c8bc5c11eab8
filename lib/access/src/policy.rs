//! The decision about each request: from what it shows, what its route needs, and what is open to anybody.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header::{AUTHORIZATION, HeaderValue};
use estimand_api::access::{Grant, TOKEN_VARIABLE, forbidden, unauthorized};
use estimand_api::identity::Identity;
use estimand_api::instant::to_rfc3339;
use estimand_api::problem::Problem;
use estimand_web::role::address_of;
use estimand_web::{Lapse, PeerIdentity, Policy, Principal, Role, host_of};
use tokio::time::timeout;

use crate::Access;
use crate::book::{By, Known};

/// Between two looks at what goes on, whatever expires when: clocks are set.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What whoever can connect may do without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// Read and write values: for addresses that only this machine reaches. What starts a command needs a token.
    Values,
    /// Ask whether the service is well.
    Nothing,
    /// Everything.
    Everything,
}

impl Openness {
    fn lets(self, role: Role) -> bool {
        match self {
            Openness::Everything => true,
            Openness::Values => matches!(role, Role::Open | Role::Read | Role::Write),
            Openness::Nothing => role == Role::Open,
        }
    }
}

pub struct Tokens(Access);

impl Tokens {
    pub fn new(access: Access) -> Self {
        Tokens(access)
    }
}

impl Policy for Tokens {
    fn check(&self, role: Role, req: &HttpRequest) -> Result<Principal, Problem> {
        let from = address_of(req);
        Ok(match admit(&self.0, role, req)? {
            Some(known) => Principal::named(known.name).bound_to(known.node).from_address(from),
            None => Principal::peer(from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
        })
    }

    /// Looks again whenever the book is another one, and when what was shown expires.
    fn lapse(&self, role: Role, req: &HttpRequest) -> Lapse {
        let (access, req) = (self.0.clone(), req.clone());
        Box::pin(async move {
            let mut changed = access.0.changed.subscribe();
            loop {
                let known = match admit(&access, role, &req) {
                    Ok(Some(known)) => known,
                    Ok(None) => return std::future::pending().await,
                    Err(problem) => return problem,
                };
                let left = known.expires_at.map(|end| end.saturating_sub(access.0.clock.now_micros()));
                let left =
                    left.map_or(LONGEST_WAIT, |left| Duration::from_micros(left.max(0).unsigned_abs()));
                let _ = timeout(left.min(LONGEST_WAIT), changed.changed()).await;
            }
        })
    }
}

/// Who may go on; none: anybody may.
fn admit(access: &Access, role: Role, req: &HttpRequest) -> Result<Option<Known>, Problem> {
    let openness = access.0.openness;
    let Some(known) = whom(access, role, req)? else {
        // A page has no token, so that whoever shows one may call this machine what they like.
        if openness == Openness::Values {
            check_host(req)?;
        }
        return match openness.lets(role) {
            true => Ok(None),
            false => Err(nothing_shown(role)),
        };
    };
    if !openness.lets(role) && !lets(known.grant, role) {
        let detail = format!("{} has the role {}; this needs {role}", known.shown(), known.grant);
        return Err(forbidden(detail));
    }
    Ok(Some(known))
}

/// Who a request shows to be; none if it shows nothing. What it shows has to be good, all of it; a token says more than
/// the certificate of the connection, because it was given with the request. It is good until the first of both expires.
pub fn whom(access: &Access, role: Role, req: &HttpRequest) -> Result<Option<Known>, Problem> {
    let certificate = req.conn_data::<PeerIdentity>().map(|peer| of_certificate(access, peer)).transpose()?;
    let mut all = req.headers().get_all(AUTHORIZATION);
    let Some(shown) = all.next() else { return Ok(certificate) };
    if all.next().is_some() {
        return Err(unauthorized("there is more than one header Authorization"));
    }
    let mut known = of_token(access, role, shown)?;
    let ends = [known.expires_at, certificate.and_then(|certificate| certificate.expires_at)];
    known.expires_at = ends.into_iter().flatten().min();
    Ok(Some(known))
}

fn of_token(access: &Access, role: Role, shown: &HeaderValue) -> Result<Known, Problem> {
    let token = shown.to_str().ok().and_then(bearer).ok_or_else(|| {
        unauthorized("the header Authorization is not understood; expected `Authorization: Bearer TOKEN`")
    })?;
    let book = access.0.book.load();
    // What was used up is known for one thing only: that its answer may have been lost.
    let Some(known) = book.find(token).filter(|known| !known.is_used || role == Role::Join) else {
        return Err(match book.stored().is_some() {
            true => unknown_token(),
            false => not_loaded(),
        });
    };
    match known.expires_at {
        Some(end) if end <= access.0.clock.now_micros() => {
            Err(unauthorized(format!("the token `{}` expired at {}", known.name, to_rfc3339(end))))
        }
        _ => Ok(known.clone()),
    }
}

/// The handshake has checked that the authority signed it, and that it was valid then. A connection outlives that.
fn of_certificate(access: &Access, peer: &PeerIdentity) -> Result<Known, Problem> {
    let book = access.0.book.load();
    if book.stored().is_none() {
        return Err(not_loaded());
    }
    if book.is_revoked(&peer.key) {
        return Err(unauthorized(format!("the certificate of {} was revoked", peer.who)));
    }
    if peer.expires_at <= access.0.clock.now_micros() {
        let end = to_rfc3339(peer.expires_at);
        return Err(unauthorized(format!("the certificate of {} expired at {end}", peer.who)));
    }
    let grant = match &peer.who {
        Identity::Node(_) => Grant::Node,
        Identity::Service(_) | Identity::Operator(_) => Grant::Operate,
    };
    Ok(Known {
        by: By::Certificate(peer.key),
        name: peer.name.clone(),
        grant,
        node: peer.node.clone(),
        expires_at: Some(peer.expires_at),
        is_used: false,
    })
}

pub fn unknown_token() -> Problem {
    unauthorized("this token is not known here, or it was revoked")
}

fn not_loaded() -> Problem {
    Problem::unavailable("the tokens are not loaded yet", 1)
}

fn lets(grant: Grant, role: Role) -> bool {
    match role {
        Role::Open => true,
        Role::Join => matches!(grant, Grant::Join | Grant::Node | Grant::Operate),
        // What joins knows nothing yet.
        _ if grant == Grant::Join => false,
        Role::Read => true,
        Role::Write => grant != Grant::Read,
        Role::Node => matches!(grant, Grant::Node | Grant::Operate),
        Role::Service | Role::Operate => grant == Grant::Operate,
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn nothing_shown(role: Role) -> Problem {
    unauthorized(format!(
        "this needs a token with the role {role}, in a header `Authorization: Bearer TOKEN`; the command line takes it \
         from {TOKEN_VARIABLE}, and `estimand up` keeps its operator's in the file `token` of its data folder"
    ))
}

/// Where values are open to this machine, a page in somebody's browser must not pass for it: a name that leads here by
/// its owner's DNS is not one of ours.
fn check_host(req: &HttpRequest) -> Result<(), Problem> {
    match host_of(req).is_none_or(is_here) {
        true => Ok(()),
        false => Err(forbidden(
            "the header Host names another machine, and this service is for this one; ask for 127.0.0.1 or localhost",
        )),
    }
}

fn is_here(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some(found) => found,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if !rest.strip_prefix(':').map_or(rest.is_empty(), is_port) {
        return false;
    }
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_grant_is_good_for() {
        let roles = [Role::Open, Role::Join, Role::Read, Role::Write, Role::Node, Role::Operate];
        let good_for = |grant| roles.map(|role| lets(grant, role));
        assert_eq!(good_for(Grant::Join), [true, true, false, false, false, false]);
        assert_eq!(good_for(Grant::Read), [true, false, true, false, false, false]);
        assert_eq!(good_for(Grant::Write), [true, false, true, true, false, false]);
        assert_eq!(good_for(Grant::Node), [true, true, true, true, true, false]);
        assert_eq!(good_for(Grant::Operate), [true; 6]);
    }

    #[test]
    fn what_is_open_to_anybody() {
        let roles = [Role::Open, Role::Read, Role::Write, Role::Node, Role::Service, Role::Operate];
        let open = |openness: Openness| roles.map(|role| openness.lets(role));
        assert_eq!(open(Openness::Values), [true, true, true, false, false, false]);
        assert_eq!(open(Openness::Nothing), [true, false, false, false, false, false]);
        assert_eq!(open(Openness::Everything), [true; 6]);
    }

    #[test]
    fn names_of_this_machine() {
        for here in ["localhost", "LOCALHOST:7070", "127.0.0.1", "127.8.0.1:80", "[::1]:7070", "[::1]"] {
            assert!(is_here(here), "{here}");
        }
        for other in [
            "",
            "evil.example:7070",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]:1",
            "localhost.evil",
            "localhost:x@evil.example",
            "[::1]evil.example",
        ] {
            assert!(!is_here(other), "{other}");
        }
    }

    #[test]
    fn a_bearer() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        assert_eq!((bearer("Basic abc"), bearer("Bearer")), (None, None));
    }
}
