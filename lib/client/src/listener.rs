//! The process that listens on an address of this machine: a token is shown to it only if it belongs to root or to this
//! user. Another user may take the port while a service restarts.
//!
//! The socket that listens is looked up in the kernel's table before a connection is made and again after it: if it is the
//! same one, the connection leads to it. TLS needs none of this, because there the service proves who it is.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;
use url::Url;

/// Names a further user, by number, whose services are trusted with tokens on this machine.
pub const SERVER_USER_VARIABLE: &str = "ESTIMAND_SERVER_USER";

/// The state of a socket that listens, in the kernel's table.
const LISTENS: &str = "0A";
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// A token must not be shown to what listens there.
#[derive(Debug)]
pub enum Stranger {
    /// It belongs to this user.
    User(u32),
    /// Another socket listens there than a moment ago.
    Changed,
    Unknown(io::Error),
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stranger::User(user) => write!(
                f,
                "what listens there belongs to the user {user}, neither root nor this one, so the token is not shown to it; \
                 if that is the user of the services, say so with {SERVER_USER_VARIABLE}={user}, or use https"
            ),
            Stranger::Changed => f.write_str("another process listens there than a moment ago"),
            Stranger::Unknown(error) => write!(f, "it cannot be said who listens there: {error}"),
        }
    }
}

impl std::error::Error for Stranger {}

/// A socket that listens: its number in the kernel, and its owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Listener {
    inode: u64,
    user: u32,
}

/// The address that a URL of this machine leads to.
pub(crate) fn address_of(base: &Url) -> Option<SocketAddr> {
    let port = base.port_or_known_default()?;
    let ip = match base.host()? {
        url::Host::Ipv4(ip) => IpAddr::V4(ip),
        url::Host::Ipv6(ip) => IpAddr::V6(ip),
        url::Host::Domain(_) => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// All sockets that could be the one to which a connection to that address leads.
fn listeners(address: SocketAddr) -> Result<BTreeSet<Listener>, Stranger> {
    let mut found = BTreeSet::new();
    for table in TABLES {
        match std::fs::read_to_string(table) {
            Ok(text) => found.extend(listening(&text, address)),
            // A machine without IPv6 has no table for it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && table.ends_with('6') => {}
            Err(error) => return Err(Stranger::Unknown(error)),
        }
    }
    Ok(found)
}

fn listening(table: &str, address: SocketAddr) -> impl Iterator<Item = Listener> + '_ {
    table.lines().filter_map(move |line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (parse_address(columns.get(1)?)?, *columns.get(3)?);
        let leads_there = local.port() == address.port()
            && (local.ip().is_unspecified() || local.ip().to_canonical() == address.ip());
        let (user, inode) = (columns.get(7)?.parse().ok()?, columns.get(9)?.parse().ok()?);
        (state == LISTENS && leads_there).then_some(Listener { inode, user })
    })
}

/// Reads an address as the kernel writes it: groups of four bytes in the machine's order, then the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<[u8; 4]>> = (0..ip.len() / 8)
        .map(|at| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    let bytes: Vec<u8> = words?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The users whose services are trusted: root, this process's, and the one that the environment names.
fn trusted() -> Vec<u32> {
    let own = rustix::process::geteuid().as_raw();
    let named = std::env::var(SERVER_USER_VARIABLE).ok().and_then(|user| user.trim().parse().ok());
    [0, own].into_iter().chain(named).collect()
}

/// Looks at the listener around each connection that is made.
#[derive(Clone)]
pub(crate) struct OnlyTrusted(pub(crate) SocketAddr);

impl<S> Layer<S> for OnlyTrusted {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, address: self.0 }
    }
}

#[derive(Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    address: SocketAddr,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S, R> Service<R> for Guarded<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let address = self.address;
        let before = check(address);
        let connecting = before.is_ok().then(|| self.inner.call(request));
        Box::pin(async move {
            let before = before?;
            let Some(connecting) = connecting else { return Err(Stranger::Changed.into()) };
            let connection = connecting.await?;
            match listeners(address)? == before {
                true => Ok(connection),
                false => Err(Stranger::Changed.into()),
            }
        })
    }
}

/// The sockets that listen there, if each of them is trusted.
fn check(address: SocketAddr) -> Result<BTreeSet<Listener>, Stranger> {
    let (found, trusted) = (listeners(address)?, trusted());
    match found.iter().find(|listener| !trusted.contains(&listener.user)) {
        None => Ok(found),
        Some(stranger) => Err(Stranger::User(stranger.user)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_listener_of_an_address_is_found_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 70 1 0 100 0 0 10 0\n\
            1: 00000000:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 71 1 0 100 0 0 10 0\n\
            2: 0100007F:1B9E 0100007F:9999 01 00000000:00000000 00:00000000 00000000     7        0 72 1 0 100 0 0 10 0\n\
            3: 0200007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     8        0 73 1 0 100 0 0 10 0\n\
            4: 0100007F:1B9F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     9        0 74 1 0 100 0 0 10 0\n";
        let address = "127.0.0.1:7070".parse().unwrap();
        let found: Vec<_> = listening(table, address).map(|one| (one.inode, one.user)).collect();
        match cfg!(target_endian = "little") {
            true => assert_eq!(found, [(70, 1001), (71, 0)]),
            false => assert_eq!(found, [(71, 0)]),
        }
    }

    #[test]
    fn an_own_listener_is_trusted_on_each_kind_of_address() {
        for at in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let bound = listener.local_addr().unwrap();
            let ip = if bound.ip().is_unspecified() { "127.0.0.1".parse().unwrap() } else { bound.ip() };
            let address = SocketAddr::new(ip, bound.port());
            assert_eq!(check(address).unwrap().len(), 1, "{at}");
        }
    }
}
