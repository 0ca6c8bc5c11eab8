//! A connection that is entered among all that are open, and ends when it is given up there.

use std::any::Any;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::rt::net::{ActixStream, Ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::{Ends, Socket};
use crate::connections::{Connection, Connections, Ticket};

pub(super) struct AcceptedStream {
    stream: Socket,
    ticket: Ticket,
    peer: SocketAddr,
}

impl AcceptedStream {
    /// Fails if there is no room for it, or it is gone already.
    pub(super) fn enter(stream: impl Into<Socket>, connections: &Connections) -> io::Result<Self> {
        let stream = stream.into();
        stream.hurry();
        let Ends { local, peer, user } = stream.ends()?;
        let descriptor = usize::try_from(stream.as_fd().as_raw_fd()).unwrap_or(0);
        let ticket = connections.admit(descriptor, local, peer, user).ok_or_else(given_up)?;
        Ok(AcceptedStream { stream, ticket, peer })
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn connection(&self) -> Arc<Connection> {
        self.ticket.connection()
    }

    /// The stream below a connection, with or without TLS.
    pub(super) fn below(connection: &dyn Any) -> Option<&Self> {
        match connection.downcast_ref::<TlsStream<AcceptedStream>>() {
            Some(encrypted) => Some(encrypted.get_ref().0),
            None => connection.downcast_ref(),
        }
    }
}

impl Drop for AcceptedStream {
    /// The kernel would remember each that this side ends for a minute, and a crowd that comes again at once would fill
    /// its table.
    fn drop(&mut self) {
        if self.ticket.is_closed() {
            let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        }
    }
}

fn given_up() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "there are too many connections")
}

impl AsyncRead for AcceptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ticket.is_closed_or_wakes(cx.waker()) {
            return Poll::Ready(Err(given_up()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for AcceptedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.ticket.is_closed() {
            return Poll::Ready(Err(given_up()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.ticket.is_closed() {
            return Poll::Ready(Err(given_up()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl ActixStream for AcceptedStream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        ActixStream::poll_read_ready(&self.stream, cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        ActixStream::poll_write_ready(&self.stream, cx)
    }
}
