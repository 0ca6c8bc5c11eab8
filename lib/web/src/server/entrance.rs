//! Where connections come in: accepted by the workers of the HTTP library's server, over TLS if there is any, and
//! read in [`CappedReads`], and closed when a client takes nothing ([`SteadyWrites`]).
//!
//! The library's own way in is the same but for that.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol};
use actix_server::{GracefulShutdownSignal, Server};
use actix_service::{IntoServiceFactory, ServiceFactory, ServiceFactoryExt as _, fn_service, map_config};
use actix_tls::accept::rustls_0_23::{Acceptor, TlsStream};
use actix_tls::accept::{TlsError, max_concurrent_tls_connect};
use actix_web::App;
use actix_web::dev::AppConfig;
use actix_web::rt::net::TcpStream;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};

use super::capped_reads::CappedReads;
use super::connections::Connections;
use super::steady_writes::SteadyWrites;
use super::tls::PeerIdentity;
use super::{
    BACKLOG, DISCONNECT_DEADLINE, HANDSHAKE_DEADLINE, HEAD_DEADLINE, KEEP_ALIVE, MAX_CONNECTIONS_PER_WORKER,
    SHUTDOWN_DEADLINE,
};
use crate::site::Site;

/// A connection, and from where it is.
type Met<S> = (CappedReads<SteadyWrites<S>>, Protocol, Option<SocketAddr>);
type EncryptedError = TlsError<io::Error, DispatchError>;

/// Makes the services that answer on a connection.
#[derive(Clone)]
pub(super) struct Entrance {
    pub(super) site: Arc<Site>,
    pub(super) connections: Connections,
}

/// Queues up connections, for now.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

impl Entrance {
    /// Accepts connections as soon as the server is polled.
    pub(super) fn open(
        self,
        listener: TcpListener,
        workers: Option<usize>,
        tls: Option<ServerConfig>,
    ) -> io::Result<Server> {
        let mut server = Server::build()
            .max_concurrent_connections(MAX_CONNECTIONS_PER_WORKER)
            .shutdown_timeout(SHUTDOWN_DEADLINE.as_secs().max(1))
            .disable_signals();
        if let Some(workers) = workers {
            server = server.workers(workers);
        }
        let ending = server.graceful_shutdown_signal();
        let server = match tls {
            None => server.listen("http", listener, move || self.plain(&ending)),
            Some(config) => {
                // Up to that number, handshakes that hang delay no other connection.
                max_concurrent_tls_connect(MAX_CONNECTIONS_PER_WORKER);
                server.listen("https", listener, move || self.encrypted(config.clone(), &ending))
            }
        };
        Ok(server?.run())
    }

    fn plain(
        &self,
        ending: &GracefulShutdownSignal,
    ) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = DispatchError, InitError = ()> + use<>
    {
        fn_service(async |stream: TcpStream| {
            let peer = met(&stream);
            Ok((CappedReads::of(SteadyWrites::of(stream)), Protocol::Http1, peer))
        })
        .and_then(self.http(ending))
    }

    fn encrypted(
        &self,
        mut config: ServerConfig,
        ending: &GracefulShutdownSignal,
    ) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = EncryptedError, InitError = ()> + use<>
    {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut acceptor = Acceptor::new(config);
        acceptor.set_handshake_timeout(HANDSHAKE_DEADLINE);
        acceptor
            .map_err(TlsError::into_service_error)
            .and_then(fn_service(async |stream: TlsStream<TcpStream>| {
                let peer = met(stream.get_ref().0);
                Ok((CappedReads::of(SteadyWrites::of(stream)), Protocol::Http1, peer))
            }))
            .and_then(self.http(ending).map_err(TlsError::Service))
    }

    /// The HTTP service of a connection, in one worker.
    fn http<S: AsyncRead + AsyncWrite + Unpin + 'static>(
        &self,
        ending: &GracefulShutdownSignal,
    ) -> impl ServiceFactory<Met<S>, Config = (), Response = (), Error = DispatchError, InitError = ()> + use<S>
    {
        let (ending, connections) = (ending.clone(), self.connections.clone());
        let app = App::new().configure(|config| self.site.configure(config));
        let app = app.into_factory().map_err(|error| error.error_response());
        HttpService::build()
            .graceful_shutdown_signal(move || {
                let ending = ending.clone();
                async move { ending.notified().await }
            })
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(HEAD_DEADLINE)
            .client_disconnect_timeout(DISCONNECT_DEADLINE)
            .on_connect_ext(move |connection: &CappedReads<SteadyWrites<S>>, data| {
                data.insert(connections.ticket());
                if let Some(peer) = PeerIdentity::of(connection.stream().stream()) {
                    data.insert(peer);
                }
            })
            .finish(map_config(app, |()| AppConfig::default()))
    }
}

/// Sees to a connection that has just come, and says from where it is.
fn met(stream: &TcpStream) -> Option<SocketAddr> {
    // Without it answers take longer, and nothing else is the matter.
    let _ = stream.set_nodelay(true);
    stream.peer_addr().ok()
}
