//! A connection that is read a few KiB at a time.
//!
//! The HTTP library reads for as long as bytes come, up to 128 KiB, before it looks at any of them, and a
//! connection keeps that buffer for as long as it is open. So many clients that once sent a large body would
//! make the service large. Here the library is told after a few KiB that there is nothing more right now, and comes
//! back at once: its buffer stays small, and a body waits in the socket until a handler takes it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The buffer that a connection begins with: nearly all requests are smaller.
const SIP_BYTES: usize = 8 * 1024;

#[derive(Debug)]
pub(super) struct CappedReads<S> {
    stream: S,
    /// The bytes read since the reader was last told that there is nothing more.
    taken: usize,
}

impl<S> CappedReads<S> {
    pub(super) fn of(stream: S) -> Self {
        CappedReads { stream, taken: 0 }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CappedReads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken >= SIP_BYTES {
            self.taken = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        match read {
            Poll::Ready(_) => self.taken += into.filled().len() - before,
            Poll::Pending => self.taken = 0,
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CappedReads<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures_util::FutureExt as _;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn much_comes_in_sips_and_whole() {
        let sent: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        let mut sips = CappedReads::of(sent.as_slice());
        let (mut got, mut pauses, mut since) = (Vec::new(), 0, 0);
        while got.len() < sent.len() {
            match sips.read_buf(&mut got.limited()).now_or_never() {
                Some(read) => {
                    since += read.unwrap();
                    assert!(since < 2 * SIP_BYTES, "{since} bytes without a pause");
                }
                None => (pauses, since) = (pauses + 1, 0),
            }
        }
        assert!(got == sent && pauses >= sent.len() / (2 * SIP_BYTES), "{pauses} pauses");
    }

    trait Limited {
        fn limited(&mut self) -> bytes::buf::Limit<&mut Vec<u8>>;
    }

    impl Limited for Vec<u8> {
        fn limited(&mut self) -> bytes::buf::Limit<&mut Vec<u8>> {
            bytes::BufMut::limit(self, SIP_BYTES - 1)
        }
    }
}
