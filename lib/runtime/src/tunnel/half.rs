//! Two halves of a connection within a process, each of which knows whether the other one ended in good order.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

/// How many bytes may be on their way in each direction.
const ROOM: usize = 32 * 1024;

/// A half that is dropped before it was shut down broke off: the other one reads an error and no end.
#[derive(Debug)]
pub struct Half {
    stream: DuplexStream,
    was_shut_down: bool,
    own_broke: Arc<AtomicBool>,
    other_broke: Arc<AtomicBool>,
}

/// A connection.
pub fn pair() -> (Half, Half) {
    let (one, other) = duplex(ROOM);
    let (one_broke, other_broke) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let half = |stream, own: &Arc<AtomicBool>, other: &Arc<AtomicBool>| Half {
        stream,
        was_shut_down: false,
        own_broke: Arc::clone(own),
        other_broke: Arc::clone(other),
    };
    (half(one, &one_broke, &other_broke), half(other, &other_broke, &one_broke))
}

impl Drop for Half {
    fn drop(&mut self) {
        // Before the stream goes, whose end the other half sees.
        if !self.was_shut_down {
            self.own_broke.store(true, Ordering::Release);
        }
    }
}

impl AsyncRead for Half {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        let is_end =
            matches!(read, Poll::Ready(Ok(()))) && into.filled().len() == before && into.remaining() > 0;
        match is_end && self.other_broke.load(Ordering::Acquire) {
            true => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the connection broke off")))
            }
            false => read,
        }
    }
}

impl AsyncWrite for Half {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.was_shut_down = true;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
