//! A connection that is closed when its client takes nothing for a while.
//!
//! An answer that is not taken keeps memory and a socket. Whoever takes a little now and then is slow and gets all of it;
//! whoever takes nothing is gone, or means harm.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may take nothing of what waits for it.
const PROGRESS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct SteadyWrites<S> {
    stream: S,
    /// Runs while something waits to be taken.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> SteadyWrites<S> {
    pub(super) fn of(stream: S) -> Self {
        SteadyWrites { stream, deadline: None }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    fn watched<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.deadline = None;
            return polled;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(PROGRESS_WITHIN)));
        deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SteadyWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SteadyWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watched(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watched(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watched(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_cut_off() {
        let (ours, _theirs) = duplex(64);
        let began = Instant::now();
        let error = SteadyWrites::of(ours).write_all(&[7; 1000]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, PROGRESS_WITHIN));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_gets_all() {
        let (ours, mut theirs) = duplex(64);
        let mut ours = SteadyWrites::of(ours);
        let slow = async {
            let (mut taken, mut piece) = (0, [0; 64]);
            while taken < 1000 {
                sleep(PROGRESS_WITHIN * 9 / 10).await;
                taken += theirs.read(&mut piece).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[7; 1000]), slow);
        written.unwrap();
    }
}
