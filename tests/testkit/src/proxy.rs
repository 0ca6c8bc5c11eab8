//! A TCP proxy in front of one server, which the test can make hold, close, refuse or delay connections.
//!
//! It takes a server away from some of its clients, those that go through the proxy, and leaves it to the rest.
//! It knows nothing of what it carries, and loses or reorders no byte of a connection that stays open: what is
//! held is delivered later. Plain threads and blocking sockets; all are over soon after it is dropped.

mod carrier;
mod state;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{Shutdown, listen, shutdown, sockopt};

use crate::ports::free_port;
use crate::wait;
use state::{State, Switchboard};

pub use state::Way;

/// The kernel's queue of connections that nobody has accepted yet.
const BACKLOG: i32 = 128;
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const LISTEN_DEADLINE: Duration = Duration::from_secs(10);

pub struct Proxy {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    board: Arc<Switchboard>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy on a free port of 127.0.0.1 for the server at `target`.
    #[track_caller]
    pub fn to(target: SocketAddr) -> Self {
        Self::on(Ipv4Addr::LOCALHOST, target)
    }

    /// A proxy on a free port of `address`, for instance where a [`Network`](crate::netns::Network) reaches
    /// the test process.
    #[track_caller]
    pub fn on(address: Ipv4Addr, target: SocketAddr) -> Self {
        // With a port asked for by number, the socket keeps it while it does not listen.
        let bound = wait::poll(LISTEN_DEADLINE, || TcpListener::bind((address, free_port())));
        let listener = Arc::new(bound.unwrap_or_else(|error| panic!("a port of {address}: {error}")));
        let address = listener.local_addr().expect("it is bound");
        let board = Arc::new(Switchboard::default());
        let (own, its_board) = (Arc::clone(&listener), Arc::clone(&board));
        let acceptor = thread::Builder::new()
            .name("proxy".into())
            .spawn(move || accept_all(&own, target, &its_board))
            .expect("a thread can be started");
        Self { address, listener, board, acceptor: Some(acceptor) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.board.with(|state| state.open.len())
    }

    /// Holds all bytes, both ways. Connections stay open and new ones are accepted, but nothing comes through,
    /// as from a server that is stuck.
    pub fn pause(&self) {
        self.board.with(|state| state.paused = [true; 2]);
    }

    /// Holds what goes one way only: a server that gets everything and is never heard, or the other way round.
    pub fn pause_only(&self, way: Way) {
        self.board.with(|state| state.paused[way as usize] = true);
    }

    /// Delivers what was held since [`Proxy::pause`] or [`Proxy::pause_only`], and what comes.
    pub fn resume(&self) {
        self.board.with(|state| state.paused = [false; 2]);
    }

    /// Closes all connections there are, as a server that was restarted would; what they held is lost. New
    /// ones are accepted.
    pub fn cut(&self) {
        self.board.with(State::cut);
    }

    /// Closes all connections and refuses new ones, as a machine without the server would.
    pub fn refuse(&self) {
        self.board.with(|state| {
            state.refusing = true;
            // Under the lock, so that it can't come after the listening of an `accept` in another thread. The
            // socket stays bound, and while it doesn't share its address nobody else gets the port.
            let _ = shutdown(&self.listener, Shutdown::Read);
            let _ = sockopt::set_socket_reuseaddr(&self.listener, false);
            state.cut();
        });
    }

    /// Accepts connections again after [`Proxy::refuse`], on the same port, which was the proxy's all the time.
    #[track_caller]
    pub fn accept(&self) {
        let listening = self.board.with(|state| {
            state.refusing = false;
            // Connections that were closed a moment ago are still on the address.
            sockopt::set_socket_reuseaddr(&self.listener, true)?;
            listen(&self.listener, BACKLOG)
        });
        listening.unwrap_or_else(|error| panic!("{} can't be listened on again: {error}", self.address));
    }

    /// Delays all bytes by `latency` on each way, so a question and its answer take twice that longer. Only
    /// for what arrives from now on; nothing overtakes what came before.
    pub fn set_latency(&self, latency: Duration) {
        self.board.with(|state| state.latency = latency);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.board.with(|state| {
            state.over = true;
            let _ = shutdown(&self.listener, Shutdown::Read);
            state.cut();
        });
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept_all(listener: &TcpListener, target: SocketAddr, board: &Arc<Switchboard>) {
    loop {
        match listener.accept() {
            Ok((client, _)) => {
                let board = Arc::clone(board);
                let carry = move || {
                    // A client whose server can't be reached finds its connection closed.
                    let _ = carry(&client, target, &board);
                };
                thread::Builder::new().name("proxied".into()).spawn(carry).expect("a thread can be started");
            }
            // It has stopped to listen, or something passing is wrong, such as too many open files.
            Err(_) => {
                if board.wait_until_accepting().is_err() {
                    return;
                }
            }
        }
    }
}

fn carry(client: &TcpStream, target: SocketAddr, board: &Arc<Switchboard>) -> io::Result<()> {
    let server = TcpStream::connect_timeout(&target, CONNECT_DEADLINE)?;
    for stream in [client, &server] {
        stream.set_nodelay(true)?;
    }
    let Some(connection) = board.open(client, &server)? else { return Ok(()) };
    carrier::carry(client, &server, &connection);
    Ok(())
}
