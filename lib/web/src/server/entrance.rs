//! Where connections come in: accepted by the workers of the HTTP library's server, entered among all that are open, over
//! TLS if there is any, read in [`CappedReads`], and closed when a client takes nothing ([`SteadyWrites`]).
//!
//! The library's own way in is the same but for that.

use std::fmt::Debug;
use std::future::ready;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::available_parallelism;

use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol};
use actix_server::{GracefulShutdownSignal, Server};
use actix_service::{IntoServiceFactory, ServiceFactory, ServiceFactoryExt as _, fn_service, map_config};
use actix_tls::accept::rustls_0_23::{Acceptor, TlsStream};
use actix_tls::accept::{TlsError, max_concurrent_tls_connect};
use actix_web::App;
use actix_web::dev::AppConfig;
use actix_web::rt::net::{TcpStream, UnixStream};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};

use super::accepted_stream::AcceptedStream;
use super::address::Listener;
use super::capped_reads::CappedReads;
use super::socket::Socket;
use super::steady_writes::SteadyWrites;
use super::tls::PeerIdentity;
use super::{BACKLOG, DISCONNECT_DEADLINE, HANDSHAKE_DEADLINE, HEAD_DEADLINE, KEEP_ALIVE, SHUTDOWN_DEADLINE};
use crate::connections::Connections;
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
        listener: Listener,
        workers: Option<usize>,
        tls: Option<ServerConfig>,
    ) -> io::Result<Server> {
        let most = self.connections.most_accepted();
        let workers = workers.unwrap_or_else(|| available_parallelism().map_or(2, Into::into));
        let server = Server::build()
            .workers(workers)
            // A connection that is accepted while a worker is late takes a descriptor, too, and is entered only then.
            .max_concurrent_connections(most.div_ceil(workers))
            .shutdown_timeout(SHUTDOWN_DEADLINE.as_secs().max(1))
            .disable_signals();
        let ending = server.graceful_shutdown_signal();
        let server = match (listener, tls) {
            (Listener::Unix(listener), _) => {
                server.listen_uds("http", listener, move || self.plain::<UnixStream>(&ending))
            }
            (Listener::Tcp(listener), None) => {
                server.listen("http", listener, move || self.plain::<TcpStream>(&ending))
            }
            (Listener::Tcp(listener), Some(config)) => {
                // Up to that number, handshakes that hang delay no other connection.
                max_concurrent_tls_connect(most);
                server.listen("https", listener, move || self.encrypted(config.clone(), &ending))
            }
        };
        Ok(server?.run())
    }

    fn plain<S: Into<Socket> + Debug + 'static>(
        &self,
        ending: &GracefulShutdownSignal,
    ) -> impl ServiceFactory<S, Config = (), Response = (), Error = DispatchError, InitError = ()> + use<S>
    {
        let connections = self.connections.clone();
        fn_service(move |stream: S| {
            let accepted = AcceptedStream::enter(stream, &connections);
            ready(accepted.map_err(DispatchError::Io).map(|stream| {
                let peer = Some(stream.peer());
                (CappedReads::of(SteadyWrites::of(stream)), Protocol::Http1, peer)
            }))
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
        let connections = self.connections.clone();
        fn_service(move |stream: TcpStream| {
            let accepted = AcceptedStream::enter(stream, &connections);
            ready(accepted.map_err(|error| TlsError::Service(DispatchError::Io(error))))
        })
        .and_then(acceptor.map_err(TlsError::into_service_error))
        .and_then(fn_service(async |stream: TlsStream<AcceptedStream>| {
            let peer = Some(stream.get_ref().0.peer());
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
        let ending = ending.clone();
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
                let stream = connection.stream().stream();
                if let Some(accepted) = AcceptedStream::below(stream) {
                    data.insert(accepted.connection());
                }
                if let Some(peer) = PeerIdentity::of(stream) {
                    data.insert(peer);
                }
            })
            .finish(map_config(app, |()| AppConfig::default()))
    }
}
