//! A connection as it was accepted, of the network or of a socket in the file system.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::rt::net::{ActixStream, Ready, TcpStream, UnixStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Stands for the peers of a socket in the file system: the files' permissions say who may connect, all on this machine.
const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The ends of a connection.
pub(super) struct Ends {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// The user at the other end, if the kernel says so of the socket itself.
    pub user: Option<u32>,
}

impl Socket {
    pub(super) fn ends(&self) -> io::Result<Ends> {
        Ok(match self {
            Socket::Tcp(stream) => {
                Ends { local: stream.local_addr()?, peer: stream.peer_addr()?, user: None }
            }
            Socket::Unix(stream) => Ends { local: HERE, peer: HERE, user: Some(stream.peer_cred()?.uid()) },
        })
    }

    /// Sends small answers at once. Without it they take longer, and nothing else is the matter.
    pub(super) fn hurry(&self) {
        if let Socket::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Socket::Tcp(stream)
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Socket::Unix(stream)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl ActixStream for Socket {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        match self {
            Socket::Tcp(stream) => ActixStream::poll_read_ready(stream, cx),
            Socket::Unix(stream) => ActixStream::poll_read_ready(stream, cx),
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        match self {
            Socket::Tcp(stream) => ActixStream::poll_write_ready(stream, cx),
            Socket::Unix(stream) => ActixStream::poll_write_ready(stream, cx),
        }
    }
}
