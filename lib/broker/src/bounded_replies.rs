//! A connection to a server whose replies are short. One that says more than it was asked for is hung up on: the crate would
//! keep all of what a reply announces, however long that is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What may come after each request; the replies that are waited for have some hundred bytes.
const MAX_REPLY_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct BoundedReplies<S> {
    stream: S,
    /// How much may come until something is asked again.
    left: usize,
}

impl<S> BoundedReplies<S> {
    pub(crate) fn of(stream: S) -> Self {
        BoundedReplies { stream, left: MAX_REPLY_BYTES }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedReplies<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        match self.left.checked_sub(into.filled().len() - before) {
            Some(left) => self.left = left,
            None => {
                let message = format!("it says more than {MAX_REPLY_BYTES} bytes to one request");
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, message)));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedReplies<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.left = MAX_REPLY_BYTES;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
