//! One listening address, from binding it to closing it in order.
//!
//! Limits hold on everything a client can make us keep: how many connections, how long their headers may
//! take, how long they may idle. An address that other machines can reach is refused unless that is asked for
//! in so many words. The end is one sequence under one deadline: no longer ready, streams ended, connections
//! drained, tasks stopped; then the caller closes its stores.

mod accepted_stream;
mod address;
mod capped_reads;
mod entrance;
mod socket;
mod steady_writes;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev;
use tokio::time::{Instant, timeout_at};

use crate::connections::Connections;
use crate::site::Site;
use address::{Listener, MadeSocket};
use entrance::Entrance;
use estimand_runtime::open_files::{open_files, raise_open_files};
use estimand_runtime::stop::Stop;
use estimand_runtime::tasks::{Tasks, UnfinishedTasks};

pub use address::{HandedOn, ListenAddress};
pub use tls::{PeerIdentity, Tls, TlsOptions};

/// How long an orderly stop may take, everything together: whoever waits for something that is away has to do without.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_millis(900);

/// The part of that which the tasks get at least, however long the connections take.
const TASKS_SHARE: Duration = Duration::from_millis(300);

/// Longer than the common 60 seconds of clients and proxies, so that they close idle connections first.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long the head of a request may take to arrive.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// How long a TLS handshake may take.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// How long a connection that is being closed may take to go.
const DISCONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// The permissions of a socket in the file system unless said otherwise: its user and group may connect.
pub const SOCKET_MODE: u32 = 0o660;

/// Where to listen, and with how many threads.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Port 0 takes any free port.
    pub listen: ListenAddress,
    /// The permissions of a socket in the file system.
    pub socket_mode: u32,
    /// One a core unless said otherwise.
    pub workers: Option<usize>,
    /// None: plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// Allows an address that other machines can reach although there is no TLS.
    pub insecure: bool,
}

impl ServerOptions {
    pub fn new(listen: impl Into<ListenAddress>) -> Self {
        let socket_mode = SOCKET_MODE;
        ServerOptions { listen: listen.into(), socket_mode, workers: None, tls: None, insecure: false }
    }
}

/// The reason why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(
        "refusing to listen on {0} without TLS: other machines can reach it, and could read and change everything on \
         the way\n\
         \n  estimand pki init\
         \n  estimand pki issue NAME --service --address {ip}\
         \n  estimand COMMAND --listen {0} --tls DIR        (as the second one says)\n\
         \nor listen on 127.0.0.1, or accept it with --insecure", ip = .0.ip()
    )]
    Exposed(SocketAddr),
    #[error("{0} is in use by another process: end it first, or listen elsewhere with --listen ADDRESS")]
    Taken(ListenAddress),
    #[error("cannot listen on {address}")]
    Bind { address: ListenAddress, source: io::Error },
    #[error("the server on {address} ended although nobody asked it to")]
    Ended { address: ListenAddress, source: Option<io::Error> },
    #[error(
        "{0} takes no TLS: nothing leaves this machine there; leave --tls out, or listen on an address of the network"
    )]
    Encrypted(ListenAddress),
    #[error("the socket that systemd hands on cannot be used")]
    HandedOn(#[source] io::Error),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Tasks(#[from] UnfinishedTasks),
}

/// An address that is bound, and belongs to this process. Connections queue up.
#[derive(Debug)]
pub struct BoundAddress {
    listener: Listener,
    address: ListenAddress,
    made: Option<MadeSocket>,
}

impl BoundAddress {
    /// Binds the address, if it may be listened on.
    pub fn bind(options: &ServerOptions) -> Result<Self, ServerError> {
        Self::check(options)?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::Taken(options.listen.clone()),
            _ => ServerError::Bind { address: options.listen.clone(), source },
        };
        match &options.listen {
            ListenAddress::Tcp(address) => {
                let listener = entrance::listen(*address).map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?.into();
                Ok(BoundAddress { listener: Listener::Tcp(listener), address, made: None })
            }
            ListenAddress::Unix(path) => {
                let (made, listener) = MadeSocket::make(path, options.socket_mode).map_err(failed)?;
                let address = options.listen.clone();
                Ok(BoundAddress { listener: Listener::Unix(listener), address, made: Some(made) })
            }
        }
    }

    /// The address of a socket that systemd hands on, if it may be listened on; `options` have it, too.
    pub fn handed_on(socket: HandedOn, options: &ServerOptions) -> Result<Self, ServerError> {
        Self::check(options)?;
        let HandedOn { listener, address } = socket;
        Ok(BoundAddress { listener, address, made: None })
    }

    fn check(options: &ServerOptions) -> Result<(), ServerError> {
        let is_encrypted = options.tls.is_some();
        match &options.listen {
            ListenAddress::Tcp(address)
                if !options.insecure && !is_encrypted && !options.listen.is_local() =>
            {
                Err(ServerError::Exposed(*address))
            }
            ListenAddress::Unix(_) if is_encrypted => Err(ServerError::Encrypted(options.listen.clone())),
            _ => Ok(()),
        }
    }

    /// The address, with its real port.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// A server with its address. Connections are accepted once it runs; until then they queue up.
pub struct Server {
    address: ListenAddress,
    made: Option<MadeSocket>,
    site: Arc<Site>,
    connections: Connections,
    tls: Option<Arc<Tls>>,
    running: dev::Server,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    pub fn bind(options: &ServerOptions, site: Arc<Site>) -> Result<Self, ServerError> {
        Self::on(BoundAddress::bind(options)?, options, site)
    }

    /// The server of an address that was bound with the same options.
    pub fn on(bound: BoundAddress, options: &ServerOptions, site: Arc<Site>) -> Result<Self, ServerError> {
        let BoundAddress { listener, address, made } = bound;
        raise_open_files();
        let connections = Connections::new(open_files().unwrap_or(0));
        let shown = connections.clone();
        site.metrics().source(Box::new(move |text| shown.write_figures(text)));
        let tls = options.tls.clone();
        let config = tls.as_ref().map(Tls::config).transpose()?;
        let failed = |source| ServerError::Bind { address: address.clone(), source };
        let entrance = Entrance { site: Arc::clone(&site), connections: connections.clone() };
        let running = entrance.open(listener, options.workers, config).map_err(failed)?;
        if let Some(tls) = tls.clone() {
            site.metrics().source(Box::new(move |text| tls.write_figures(text)));
        }
        Ok(Server { address, made, site, connections, tls, running })
    }

    /// The address that is listened on, with its real port.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Serves until the stop is requested, then stops in order.
    ///
    /// Handlers of long streams listen to the same `stop`, so that their streams end while the others drain.
    /// When this returns no request is being answered and no task runs: stores can be closed.
    pub async fn run_until(self, stop: Stop, tasks: &Tasks) -> Result<(), ServerError> {
        let Server { address, made, site, connections, tls, mut running } = self;
        tracing::info!(%address, tls = tls.is_some(), "listening");
        if let Some(tls) = tls {
            tasks.spawn("certificates", move |stop| {
                let tls = Arc::clone(&tls);
                async move { tls.look_until(&stop).await }
            });
        }
        tokio::select! {
            ended = &mut running => {
                return Err(ServerError::Ended { address, source: ended.err() });
            }
            () = stop.requested() => {}
        }
        let deadline = Instant::now() + SHUTDOWN_DEADLINE;
        site.readiness().withdraw();
        // Nobody finds it any more.
        drop(made);
        drain(running, &connections, deadline - TASKS_SHARE).await;
        tasks.stop_all(deadline.saturating_duration_since(Instant::now())).await?;
        tracing::info!(%address, "stopped");
        Ok(())
    }
}

/// Accepts no more connections and waits for the open ones to end; cuts off the rest at the deadline.
async fn drain(mut running: dev::Server, connections: &Connections, deadline: Instant) {
    let asked = running.handle().stop(true);
    let drained = timeout_at(deadline, async {
        tokio::select! {
            _ = async { tokio::join!(asked, &mut running) } => {}
            // The library looks only once a second whether all connections are gone; the count knows at once.
            () = connections.drained() => {}
        }
    });
    if drained.await.is_err() {
        tracing::warn!(connections = connections.open(), "cutting off what did not end in time");
    }
    // Dropping the server closes the listener and ends the workers.
}
