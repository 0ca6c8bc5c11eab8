//! The way from the handlers to the writer: bounded, and refusing when it is full.
//!
//! What is accepted is answered once: with what became of it when it is durable, or with a problem. A caller
//! that waits longer than [`PATIENCE`] is told that the outcome is unknown. What nobody waits for any more when its turn
//! comes is not done: in an overload there would otherwise be time only for what has been given up already.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use estimand_api::problem::Problem;
use tokio::sync::oneshot;

use crate::group::{Done, Op};

/// How many operations may wait.
const MAX_WAITING: usize = 8_192;
/// How many bytes of requests may wait.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// How long a caller waits for its write to be durable.
const PATIENCE: Duration = Duration::from_secs(10);

/// An operation and who waits for it.
#[derive(Debug)]
pub struct Job {
    pub op: Op,
    bytes: usize,
    reply: oneshot::Sender<Result<Done, Problem>>,
}

impl Job {
    pub fn answer(self, answer: Result<Done, Problem>) {
        // Whoever asked may have gone away; then nobody needs the answer.
        let _ = self.reply.send(answer);
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The handlers' end.
#[derive(Debug, Clone)]
pub struct Submit {
    sender: SyncSender<Job>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// The writer's end.
#[derive(Debug)]
pub struct Inbox {
    receiver: Receiver<Job>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// Why the inbox has nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Empty {
    /// Not yet.
    Now,
    /// Nobody is left who could send.
    ForEver,
}

pub fn queue() -> (Submit, Inbox) {
    let (sender, receiver) = sync_channel(MAX_WAITING);
    let waiting_bytes = Arc::new(AtomicUsize::new(0));
    (Submit { sender, waiting_bytes: waiting_bytes.clone() }, Inbox { receiver, waiting_bytes })
}

impl Submit {
    /// Has an operation done and waits until it is durable. `bytes` is the size of the request.
    pub async fn run(&self, op: Op, bytes: usize) -> Result<Done, Problem> {
        let (reply, answer) = oneshot::channel();
        if self.waiting_bytes.fetch_add(bytes, Ordering::AcqRel) > MAX_WAITING_BYTES {
            self.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            return Err(full());
        }
        if let Err(refused) = self.sender.try_send(Job { op, bytes, reply }) {
            self.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            return Err(match refused {
                TrySendError::Full(_) => full(),
                TrySendError::Disconnected(_) => {
                    Problem::unavailable("the service is ending; nothing was done", 1)
                }
            });
        }
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(ending()),
            Err(_) => Err(Problem::outcome_unknown(
                "the database does not answer; the write may or may not be stored, and it is safe to send it again",
                2,
            )),
        }
    }

    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Acquire)
    }
}

fn full() -> Problem {
    Problem::unavailable("more writes wait than can be stored at once; nothing of this one was done", 1)
}

fn ending() -> Problem {
    Problem::outcome_unknown("the service is ending; whether this was done is unknown", 1)
}

impl Inbox {
    /// The next job, waiting for it at most so long.
    pub fn wait(&self, at_most: Duration) -> Result<Job, Empty> {
        match self.receiver.recv_timeout(at_most) {
            Ok(job) => self.taken(job).ok_or(Empty::Now),
            Err(RecvTimeoutError::Timeout) => Err(Empty::Now),
            Err(RecvTimeoutError::Disconnected) => Err(Empty::ForEver),
        }
    }

    /// The next job, if it is there already.
    pub fn next(&self) -> Result<Job, Empty> {
        loop {
            match self.receiver.try_recv() {
                Ok(job) => {
                    if let Some(job) = self.taken(job) {
                        return Ok(job);
                    }
                }
                Err(TryRecvError::Empty) => return Err(Empty::Now),
                Err(TryRecvError::Disconnected) => return Err(Empty::ForEver),
            }
        }
    }

    /// None if nobody waits for it any more.
    fn taken(&self, job: Job) -> Option<Job> {
        self.waiting_bytes.fetch_sub(job.bytes, Ordering::AcqRel);
        (!job.reply.is_closed()).then_some(job)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_done() {
        let (submit, inbox) = queue();
        let mut gone = Box::pin(submit.run(Op::Retain(Default::default()), 7));
        let mut here = Box::pin(submit.run(Op::Retain(Default::default()), 5));
        assert!(gone.as_mut().now_or_never().is_none() && here.as_mut().now_or_never().is_none());
        assert_eq!(submit.waiting_bytes(), 12);
        drop(gone);
        assert_eq!(inbox.next().unwrap().bytes(), 5);
        assert_eq!(submit.waiting_bytes(), 0);
        assert_eq!(inbox.next().unwrap_err(), Empty::Now);
    }
}
