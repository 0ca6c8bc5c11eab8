//! The decision about each request: by its credential, the role that its route needs, and the openness of the service.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header::{AUTHORIZATION, FORWARDED, HeaderName, HeaderValue, VIA, X_FORWARDED_FOR};
use estimand_api::access::{Grant, TOKEN_VARIABLE, forbidden, unauthorized};
use estimand_api::identity::Identity;
use estimand_api::instant::to_rfc3339;
use estimand_api::problem::Problem;
use estimand_web::role::address_of;
use estimand_web::{Admission, PeerIdentity, Principal, Revocation, Role, host_of};
use tokio::time::timeout;

use crate::Access;
use crate::tokens::{Credential, CredentialKind};

/// The longest pause between two checks, whenever a credential expires: clocks are set.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The requests that need no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// Read and write values: for addresses that only this machine reaches. Starting a command needs a token.
    Values,
    /// Health, the interface's description and the files of the dashboard alone.
    Nothing,
    /// Everything.
    Everything,
}

impl Openness {
    fn admits(self, role: Role) -> bool {
        match self {
            Openness::Everything => true,
            Openness::Values => matches!(role, Role::Open | Role::Read | Role::Write),
            Openness::Nothing => role == Role::Open,
        }
    }
}

pub struct TokenAdmission(Access);

impl TokenAdmission {
    pub fn new(access: Access) -> Self {
        TokenAdmission(access)
    }
}

impl Admission for TokenAdmission {
    fn check(&self, role: Role, req: &HttpRequest) -> Result<Principal, Problem> {
        let from = address_of(req);
        let open = self.0.0.openness == Openness::Everything;
        Ok(match admit(&self.0, role, req)? {
            Some(credential) => {
                let Credential { name, grant, node, user, labels, .. } = credential;
                let is_agent = open || grants(grant, Role::Node);
                let named = Principal::named(name).bound_to(node).with_labels(labels);
                let user = user.map(|user| self.0.0.users.admit(&user));
                named.of_user(user).from_address(from).as_agent(is_agent)
            }
            None => Principal::peer(from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))).as_agent(open),
        })
    }

    /// Checks again whenever the tokens are other ones, and when the credential expires.
    fn revocation(&self, role: Role, req: &HttpRequest) -> Revocation {
        let (access, req) = (self.0.clone(), req.clone());
        Box::pin(async move {
            let mut changed = access.0.changed.subscribe();
            loop {
                let credential = match admit(&access, role, &req) {
                    Ok(Some(credential)) => credential,
                    Ok(None) => return std::future::pending().await,
                    Err(problem) => return problem,
                };
                let left = credential.expires_at.map(|end| end.saturating_sub(access.0.clock.now_micros()));
                let left =
                    left.map_or(LONGEST_WAIT, |left| Duration::from_micros(left.max(0).unsigned_abs()));
                let _ = timeout(left.min(LONGEST_WAIT), changed.changed()).await;
            }
        })
    }
}

/// The credential that admits a request; none if no credential is needed.
fn admit(access: &Access, role: Role, req: &HttpRequest) -> Result<Option<Credential>, Problem> {
    let proxied = proxied_by(access.0.openness, req);
    let openness = if proxied.is_some() { Openness::Nothing } else { access.0.openness };
    let Some(credential) = credential_of(access, role, req)? else {
        // A page has no token, so a caller that shows one may name this machine as it likes.
        if role != Role::Open && access.0.is_local && openness != Openness::Nothing {
            check_host(req)?;
        }
        return match openness.admits(role) {
            true => Ok(None),
            false => Err(nothing_shown(role, proxied)),
        };
    };
    if !openness.admits(role) && !grants(credential.grant, role) {
        let detail =
            format!("{} has the role {}; this needs {role}", credential.description(), credential.grant);
        return Err(forbidden(detail));
    }
    Ok(Some(credential))
}

/// The credential that a request shows; none if it shows none. All that it shows has to be valid. A token counts more
/// than the certificate of the connection, because it was given with the request; the credential expires with the first
/// of both.
pub fn credential_of(access: &Access, role: Role, req: &HttpRequest) -> Result<Option<Credential>, Problem> {
    let certificate = req.conn_data::<PeerIdentity>().map(|peer| of_certificate(access, peer)).transpose()?;
    let mut all = req.headers().get_all(AUTHORIZATION);
    let Some(shown) = all.next() else { return Ok(certificate) };
    if all.next().is_some() {
        return Err(unauthorized("there is more than one header Authorization"));
    }
    let mut credential = of_token(access, role, shown)?;
    let ends = [credential.expires_at, certificate.and_then(|certificate| certificate.expires_at)];
    credential.expires_at = ends.into_iter().flatten().min();
    Ok(Some(credential))
}

fn of_token(access: &Access, role: Role, shown: &HeaderValue) -> Result<Credential, Problem> {
    let token = shown.to_str().ok().and_then(bearer).ok_or_else(|| {
        unauthorized("the header Authorization is not understood; expected `Authorization: Bearer TOKEN`")
    })?;
    let tokens = access.0.tokens.load();
    // A used join token is kept for one reason: the answer may have been lost.
    let Some(credential) = tokens.find(token).filter(|credential| !credential.is_used || role == Role::Join)
    else {
        return Err(match tokens.stored().is_some() {
            true => unknown_token(),
            false => not_loaded(),
        });
    };
    match credential.expires_at {
        Some(end) if end <= access.0.clock.now_micros() => {
            Err(unauthorized(format!("the token `{}` expired at {}", credential.name, to_rfc3339(end))))
        }
        _ => Ok(credential.clone()),
    }
}

/// The handshake has checked that the authority signed it, and that it was valid then. A connection outlives that.
fn of_certificate(access: &Access, peer: &PeerIdentity) -> Result<Credential, Problem> {
    let tokens = access.0.tokens.load();
    if tokens.stored().is_none() {
        return Err(not_loaded());
    }
    if tokens.is_revoked(&peer.key) {
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
    Ok(Credential {
        kind: CredentialKind::Certificate(peer.key),
        name: peer.name.clone(),
        grant,
        node: peer.node.clone(),
        user: None,
        expires_at: Some(peer.expires_at),
        is_used: false,
        labels: tokens.labels_of_key(&peer.key),
    })
}

pub fn unknown_token() -> Problem {
    unauthorized("this token is not known here, or it was revoked")
}

fn not_loaded() -> Problem {
    Problem::unavailable("the tokens are not loaded yet", 1)
}

fn grants(grant: Grant, role: Role) -> bool {
    match role {
        Role::Open => true,
        Role::Join => matches!(grant, Grant::Join | Grant::Node | Grant::Operate),
        // A joining node has no other rights yet.
        _ if grant == Grant::Join => false,
        Role::Read => true,
        Role::Write => matches!(grant, Grant::Write | Grant::Node | Grant::Operate),
        Role::User => matches!(grant, Grant::User | Grant::Operate),
        Role::Node => matches!(grant, Grant::Node | Grant::Operate),
        Role::Service | Role::Operate => grant == Grant::Operate,
    }
}

/// As clients of InfluxDB say it, too.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    ["bearer", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known)).then(|| token.trim())
}

/// The header by which a proxy says that a request came from elsewhere, where this machine's own need no token. A proxy
/// on this machine that adds none of them cannot be told from a program here.
fn proxied_by(openness: Openness, req: &HttpRequest) -> Option<&'static str> {
    static OF_PROXIES: [(HeaderName, &str); 3] =
        [(X_FORWARDED_FOR, "X-Forwarded-For"), (FORWARDED, "Forwarded"), (VIA, "Via")];
    match openness {
        Openness::Values => {
            let found = OF_PROXIES.iter().find(|(name, _)| req.headers().contains_key(name));
            found.map(|(_, shown)| *shown)
        }
        Openness::Nothing | Openness::Everything => None,
    }
}

fn nothing_shown(role: Role, proxied: Option<&str>) -> Problem {
    let why = proxied.map_or_else(String::new, |name| {
        format!("the header {name} says that this comes by way of a proxy, so it is not of this machine; ")
    });
    unauthorized(format!(
        "{why}this needs a token with the role {role}, in a header `Authorization: Bearer TOKEN`; the command line takes \
         it from {TOKEN_VARIABLE}, and `estimand up` keeps its operator's in the file `token` of its data folder"
    ))
}

/// Where something is open to this machine, a page in a browser must not pass for it: a host name that leads here by
/// its owner's DNS is not one of ours.
fn check_host(req: &HttpRequest) -> Result<(), Problem> {
    match host_of(req).is_none_or(is_here) {
        true => Ok(()),
        false => Err(forbidden(
            "the header Host names another machine, and without a token this service is for this one; ask for 127.0.0.1 or \
             localhost, or show a token",
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
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn each_grant_admits_to_its_roles() {
        let roles = [Role::Open, Role::Join, Role::Read, Role::Write, Role::User, Role::Node, Role::Operate];
        let good_for = |grant| roles.map(|role| grants(grant, role));
        assert_eq!(good_for(Grant::Join), [true, true, false, false, false, false, false]);
        assert_eq!(good_for(Grant::Read), [true, false, true, false, false, false, false]);
        assert_eq!(good_for(Grant::Write), [true, false, true, true, false, false, false]);
        assert_eq!(good_for(Grant::User), [true, false, true, false, true, false, false]);
        assert_eq!(good_for(Grant::Node), [true, true, true, true, false, true, false]);
        assert_eq!(good_for(Grant::Operate), [true; 7]);
    }

    #[test]
    fn openness_admits_without_a_token() {
        let roles =
            [Role::Open, Role::Read, Role::Write, Role::User, Role::Node, Role::Service, Role::Operate];
        let open = |openness: Openness| roles.map(|role| openness.admits(role));
        assert_eq!(open(Openness::Values), [true, true, true, false, false, false, false]);
        assert_eq!(open(Openness::Nothing), [true, false, false, false, false, false, false]);
        assert_eq!(open(Openness::Everything), [true; 7]);
    }

    #[test]
    fn what_came_by_way_of_a_proxy_is_not_of_this_machine() {
        let proxied = |openness, header: &'static str| {
            let request = TestRequest::get().insert_header((header, "192.0.2.7")).to_http_request();
            proxied_by(openness, &request).is_some()
        };
        for header in ["X-Forwarded-For", "Forwarded", "Via"] {
            assert!(proxied(Openness::Values, header), "{header}");
            assert!(!proxied(Openness::Everything, header), "{header}");
        }
        assert!(!proxied(Openness::Values, "X-Request-Id"));
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
        assert_eq!(bearer("Token abc"), Some("abc"));
        assert_eq!((bearer("Basic abc"), bearer("Bearer")), (None, None));
    }
}
