//! The process that listens on an address of this machine: a token is shown to it only if it belongs to root or to this
//! user. Another user may take the port while a service restarts.
//!
//! The socket that listens is looked up in the kernel's table before a connection is made and again after it: if it is the
//! same one, the connection leads to it. TLS needs none of this, because there the service proves who it is.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use estimand_runtime::tcp_sockets::{TcpSocket, listening_at};
use nix::unistd::{Uid, User};
use tower_layer::Layer;
use tower_service::Service;
use url::Url;

/// Names a further user whose services are trusted with tokens on this machine, by name or by number.
pub const SERVER_USER_VARIABLE: &str = "ESTIMAND_SERVER_USER";

/// A token must not be shown to what listens there.
#[derive(Debug)]
pub enum Stranger {
    /// It belongs to this user.
    User(u32),
    /// Another socket listens there than a moment ago.
    Changed,
    Unknown(io::Error),
}

impl Stranger {
    /// True where a later try may find a trusted one: a service was restarted just while the connection was made. Nothing
    /// was sent over that connection.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Stranger::Changed)
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stranger::User(user) => {
                let user = name_of(*user);
                write!(
                    f,
                    "what listens there belongs to the user {user}, neither root nor this one, so the token is not shown to it; \
                     if that is the user of the services, say so with {SERVER_USER_VARIABLE}={user}, or use https"
                )
            }
            Stranger::Changed => {
                f.write_str("another socket listens there than a moment ago, as after a restart")
            }
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
    Ok(listening(&listening_at(address.port()).map_err(Stranger::Unknown)?, address))
}

fn listening(sockets: &[TcpSocket], address: SocketAddr) -> BTreeSet<Listener> {
    let leads_there = |socket: &&TcpSocket| {
        socket.listens
            && socket.local.port() == address.port()
            && (socket.local.ip().is_unspecified() || socket.local.ip() == address.ip())
    };
    let found = sockets.iter().filter(leads_there);
    found.map(|socket| Listener { inode: socket.inode, user: socket.user }).collect()
}

/// The users whose services are trusted: root, this process's, and the one that the environment names.
fn trusted() -> Vec<u32> {
    let own = rustix::process::geteuid().as_raw();
    static NAMED: LazyLock<Option<u32>> =
        LazyLock::new(|| std::env::var(SERVER_USER_VARIABLE).ok().and_then(|user| number_of(user.trim())));
    [0, own].into_iter().chain(*NAMED).collect()
}

/// A user's number; none if this machine knows nobody of that name.
fn number_of(user: &str) -> Option<u32> {
    let known = || User::from_name(user).ok().flatten().map(|user| user.uid.as_raw());
    user.parse().ok().or_else(known)
}

/// A user's name, or the number of one that this machine does not know.
fn name_of(user: u32) -> String {
    let known = User::from_uid(Uid::from_raw(user)).ok().flatten();
    known.map_or_else(|| user.to_string(), |user| user.name)
}

/// Looks at the listener around each connection that is made.
#[derive(Clone)]
pub(crate) struct ListenerCheck(pub(crate) SocketAddr);

impl<S> Layer<S> for ListenerCheck {
    type Service = CheckedConnector<S>;

    fn layer(&self, inner: S) -> CheckedConnector<S> {
        CheckedConnector { inner, address: self.0 }
    }
}

#[derive(Clone)]
pub(crate) struct CheckedConnector<S> {
    inner: S,
    address: SocketAddr,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S, R> Service<R> for CheckedConnector<S>
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

/// Looks at the owner of a socket in the file system before each connection: whoever may put another one into its folder is
/// root or owns that.
#[derive(Clone)]
pub(crate) struct SocketCheck(pub(crate) Arc<Path>);

impl<S> Layer<S> for SocketCheck {
    type Service = CheckedSocket<S>;

    fn layer(&self, inner: S) -> CheckedSocket<S> {
        CheckedSocket { inner, path: self.0.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct CheckedSocket<S> {
    inner: S,
    path: Arc<Path>,
}

impl<S, R> Service<R> for CheckedSocket<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        match std::fs::metadata(&self.path) {
            Ok(socket) if !trusted().contains(&socket.uid()) => {
                Box::pin(async move { Err(Stranger::User(socket.uid()).into()) })
            }
            // Whether it is there the connection will show.
            _ => Box::pin(self.inner.call(request)),
        }
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
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::{Client, Credentials, Options, Token};

    #[test]
    fn the_listeners_of_an_address_are_found_in_the_table() {
        let socket = |local: &str, listens, user, inode| TcpSocket {
            local: local.parse().unwrap(),
            remote: "0.0.0.0:0".parse().unwrap(),
            listens,
            user,
            inode,
        };
        let table = [
            socket("127.0.0.1:7070", true, 1001, 70),
            socket("0.0.0.0:7070", true, 0, 71),
            socket("127.0.0.1:7070", false, 7, 72),
            socket("127.0.0.2:7070", true, 8, 73),
            socket("127.0.0.1:7071", true, 9, 74),
        ];
        let found = listening(&table, "127.0.0.1:7070".parse().unwrap());
        let found: Vec<_> = found.iter().map(|one| (one.inode, one.user)).collect();
        assert_eq!(found, [(70, 1001), (71, 0)]);
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

    /// A service that is restarted has another socket, and the port is free or somebody else's for a moment.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_is_sent_again_where_another_socket_listens_than_a_moment_ago() {
        rustls::crypto::ring::default_provider().install_default().unwrap();
        let listen = |address: SocketAddr| {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_reuseport(true).unwrap();
            socket.bind(address).unwrap();
            socket.listen(64).unwrap()
        };
        let service = listen("127.0.0.1:0".parse().unwrap());
        let address = service.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = service.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                let _ = stream.write_all(answer).await;
            }
        });
        let coming_and_going = tokio::spawn(async move {
            loop {
                let other = listen(address);
                tokio::time::sleep(Duration::from_millis(5)).await;
                drop(other);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let token = Some(Token::parse("a-token-of-this-one-test").unwrap());
        let options = Options {
            attempts: 1_000,
            retry_within: Duration::from_secs(60),
            credentials: Credentials { token, ..Credentials::default() },
            ..Options::default()
        };
        for _ in 0..10 {
            let client = Client::with_options(&format!("http://{address}"), options.clone()).unwrap();
            client.get(client.url(&["api"], &[])).await.unwrap();
        }
        serving.abort();
        coming_and_going.abort();
    }
}
