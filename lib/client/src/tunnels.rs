//! Tunnels to the ports of tasks: the part of the client by which people open them and agents make them.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use estimand_api::names::NodeName;
use estimand_api::problem::Problem;
use estimand_api::tunnel::{TunnelOrders, TunnelRefusal};
use estimand_runtime::tcp_sockets::tcp_sockets;
use estimand_runtime::tunnel::{Side, relay};
use reqwest::{Method, StatusCode, Upgraded, header};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::net::TcpStream;
use url::Url;

use crate::{Client, Error, Repeat};

/// How long a service may take to open one, which waits for the agent of the task's node.
const OPEN_WITHIN: Duration = Duration::from_secs(30);
/// Goes with a key into the answer of a server that speaks WebSocket (RFC 6455).
const WEBSOCKET: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The question of an agent for the tunnels that it is to make.
#[derive(Debug, Clone, Copy)]
pub struct TunnelQuery<'a> {
    pub node: &'a NodeName,
    /// Only those after this number.
    pub after: u64,
    /// How long the service may take until there is one.
    pub wait: Duration,
}

/// An open tunnel.
pub struct Tunnel(Upgraded);

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tunnel")
    }
}

impl Tunnel {
    /// Joins it with a connection, until both directions have ended. If it breaks off, so does the connection.
    pub async fn join(self, mut connection: TcpStream) -> std::io::Result<()> {
        let joined = relay(tokio::io::split(self.0), &mut connection, Side::Client).await;
        if joined.is_err() {
            // Its peer is to see that this was no end.
            let _ = connection.set_zero_linger();
        }
        joined
    }
}

impl Client {
    /// Opens a tunnel to the port of a task.
    pub async fn open_tunnel(&self, id: &str) -> Result<Tunnel, Error> {
        self.websocket(&self.url(&["api", "tasks", id, "tunnel"], &[])).await
    }

    /// The tunnels that the agent of a node is to make.
    pub async fn tunnel_orders(&self, query: &TunnelQuery<'_>) -> Result<TunnelOrders, Error> {
        let (after, wait_ms) = (query.after.to_string(), self.bounded(query.wait));
        let pairs = [("node", query.node.as_str()), ("after", &after), ("waitMs", &wait_ms)];
        let answer = self.get(self.url(&["api", "tasks", "tunnels"], &pairs)).await?;
        self.read(&answer)
    }

    /// Makes the tunnel of an order, as its agent.
    pub async fn make_tunnel(&self, number: u64) -> Result<Tunnel, Error> {
        self.websocket(&self.url(&["api", "tasks", "tunnels", &number.to_string()], &[])).await
    }

    /// Says why the tunnel of an order cannot be made.
    pub async fn refuse_tunnel(&self, number: u64, refusal: &TunnelRefusal) -> Result<(), Error> {
        let url = self.url(&["api", "tasks", "tunnels", &number.to_string()], &[]);
        let body = serde_json::to_vec(refusal)
            .map_err(|error| Error::Unexpected { url: url.to_string(), cause: error.to_string() })?;
        self.send(Method::POST, url, Some(Bytes::from(body)), Repeat::Safe).await.map(drop)
    }

    /// Opens a WebSocket at the first service that serves it.
    async fn websocket(&self, url: &Url) -> Result<Tunnel, Error> {
        let mut failed = None;
        for service in self.services() {
            match service.websocket_at(service.rebased(self, url)).await {
                Err(error) if error.is_for_another() => failed = failed.or(Some(error)),
                opened => return opened,
            }
        }
        Err(failed.unwrap_or_else(|| Error::Address(url.to_string())))
    }

    async fn websocket_at(&self, url: Url) -> Result<Tunnel, Error> {
        let shown = self.shown(&url);
        let unexpected = |cause: &str| Error::Unexpected { url: shown.clone(), cause: cause.to_owned() };
        let silent = |_| Error::Unreachable { url: shown.clone(), cause: "no answer in time".to_owned() };
        let mut key = [0; 16];
        SystemRandom::new().fill(&mut key).map_err(|_| unexpected("this machine gives no random numbers"))?;
        let key = BASE64_STANDARD.encode(key);
        let request = self.http.client().get(url).header(header::CONNECTION, "Upgrade");
        let request =
            request.header(header::UPGRADE, "websocket").header(header::SEC_WEBSOCKET_VERSION, "13");
        let sent = request.header(header::SEC_WEBSOCKET_KEY, &key).send();
        let response = tokio::time::timeout(OPEN_WITHIN, sent).await.map_err(silent)?;
        let response = response.map_err(|error| self.no_answer(shown.clone(), &error))?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let body = tokio::time::timeout(OPEN_WITHIN, response.bytes()).await.map_err(silent)?;
            return Err(match serde_json::from_slice::<Problem>(&body.unwrap_or_default()) {
                Ok(problem) => Error::Problem(Box::new(problem)),
                Err(_) => unexpected(&format!("status {status}, and no WebSocket")),
            });
        }
        let accept = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{WEBSOCKET}").as_bytes());
        let accept = BASE64_STANDARD.encode(accept);
        if response.headers().get(header::SEC_WEBSOCKET_ACCEPT).is_none_or(|given| given != accept.as_str()) {
            return Err(unexpected("it does not know the key of the WebSocket"));
        }
        let upgraded = tokio::time::timeout(OPEN_WITHIN, response.upgrade()).await.map_err(silent)?;
        Ok(Tunnel(upgraded.map_err(|error| self.no_answer(shown.clone(), &error))?))
    }
}

/// True if a process of this user's, or of root's, made a connection on this machine that was accepted here.
pub async fn is_of_this_user(accepted: &TcpStream) -> bool {
    let (Ok(here), Ok(there)) = (accepted.local_addr(), accepted.peer_addr()) else { return false };
    let own = rustix::process::geteuid().as_raw();
    let sockets = tokio::task::spawn_blocking(tcp_sockets).await;
    let Ok(Ok(sockets)) = sockets else { return false };
    let peer = sockets.iter().find(|socket| (socket.local, socket.remote) == (there, here));
    peer.is_some_and(|peer| [0, own].contains(&peer.user))
}
