//! The way from the handlers to the writer: bounded, and refusing when it is full.
//!
//! An accepted operation is answered once: with its reply when it is durable, or with an error. A caller that
//! waits longer than [`ANSWER_WITHIN`] hears that the outcome is unknown. An operation whose caller has gone
//! when its turn comes is not done: in an overload there would otherwise be time only for operations that
//! were given up already.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::core::Rejection;
use crate::core::group::{Group, Retention};
use crate::core::operations::Operation;

/// The most operations that may wait.
const MAX_WAITING: usize = 8_192;
/// The most bytes of requests that may wait.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// How long a caller waits for its write to be durable.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// An operation of any type, with its caller.
pub trait Job: Send {
    /// Applies the operation to a group, and keeps the answer until the fate of the group is known.
    fn apply(&mut self, group: &mut Group, retention: &Retention);
    /// The group is stored, or changes nothing: gives the caller the answer.
    fn answer(self: Box<Self>);
    /// The group is not stored.
    fn fail(self: Box<Self>, error: SubmitError);
    /// The size of the request.
    fn bytes(&self) -> usize;
    /// True if it is worth trying alone when a group with others was refused, because the disk may be full.
    fn only_removes(&self) -> bool;
    fn is_abandoned(&self) -> bool;
}

struct PendingOperation<O: Operation> {
    operation: O,
    bytes: usize,
    answer: Option<Result<O::Reply, Rejection>>,
    reply: oneshot::Sender<Result<O::Reply, SubmitError>>,
}

// A caller that has gone away needs no answer.
impl<O: Operation> Job for PendingOperation<O> {
    fn apply(&mut self, group: &mut Group, retention: &Retention) {
        self.answer = Some(self.operation.apply(group, retention));
    }

    fn answer(self: Box<Self>) {
        let PendingOperation { answer, reply, .. } = *self;
        let _ = reply
            .send(answer.map_or(Err(SubmitError::Ended), |answer| answer.map_err(SubmitError::Rejected)));
    }

    fn fail(self: Box<Self>, error: SubmitError) {
        let _ = self.reply.send(Err(error));
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn only_removes(&self) -> bool {
        O::ONLY_REMOVES
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

/// Why an operation brought no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitError {
    Rejected(Rejection),
    /// Too much waits already: nothing was done.
    Overloaded,
    /// The service is ending: nothing was done.
    Stopping,
    /// The database refused the group: nothing was done.
    Refused,
    /// Another process has taken the store over. Nothing was done if that is known.
    TakenOver {
        is_known: bool,
    },
    /// The service ended, and the outcome is unknown.
    Ended,
    /// The database did not answer in time, and the outcome is unknown.
    Late,
}

/// The handlers' end.
#[derive(Debug, Clone)]
pub struct Submit {
    sender: SyncSender<Box<dyn Job>>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// The writer's end.
#[derive(Debug)]
pub struct Inbox {
    receiver: Receiver<Box<dyn Job>>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// Why the inbox has nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Empty {
    /// Not yet.
    Now,
    /// No sender is left.
    ForEver,
}

pub fn queue() -> (Submit, Inbox) {
    let (sender, receiver) = sync_channel(MAX_WAITING);
    let waiting_bytes = Arc::new(AtomicUsize::new(0));
    (Submit { sender, waiting_bytes: waiting_bytes.clone() }, Inbox { receiver, waiting_bytes })
}

impl Submit {
    /// Has an operation done and waits until it is durable. `bytes` is the size of the request.
    pub async fn run<O: Operation>(&self, operation: O, bytes: usize) -> Result<O::Reply, SubmitError> {
        let (reply, answer) = oneshot::channel();
        if self.waiting_bytes.fetch_add(bytes, Ordering::AcqRel) > MAX_WAITING_BYTES {
            self.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            return Err(SubmitError::Overloaded);
        }
        let job = Box::new(PendingOperation { operation, bytes, answer: None, reply });
        if let Err(refused) = self.sender.try_send(job) {
            self.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            return Err(match refused {
                TrySendError::Full(_) => SubmitError::Overloaded,
                TrySendError::Disconnected(_) => SubmitError::Stopping,
            });
        }
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(SubmitError::Ended),
            Err(_) => Err(SubmitError::Late),
        }
    }

    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Acquire)
    }
}

impl Inbox {
    /// The next job, waiting for it at most so long.
    pub fn wait(&self, at_most: Duration) -> Result<Box<dyn Job>, Empty> {
        match self.receiver.recv_timeout(at_most) {
            Ok(job) => self.taken(job).ok_or(Empty::Now),
            Err(RecvTimeoutError::Timeout) => Err(Empty::Now),
            Err(RecvTimeoutError::Disconnected) => Err(Empty::ForEver),
        }
    }

    /// The next job, if it is there already.
    pub fn next(&self) -> Result<Box<dyn Job>, Empty> {
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

    /// None if its caller waits no more.
    fn taken(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        self.waiting_bytes.fetch_sub(job.bytes(), Ordering::AcqRel);
        (!job.is_abandoned()).then_some(job)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::operations::Retain;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn an_operation_that_nobody_waits_for_any_more_is_not_done() {
        let (submit, inbox) = queue();
        let mut gone = Box::pin(submit.run(Retain(Default::default()), 7));
        let mut here = Box::pin(submit.run(Retain(Default::default()), 5));
        assert!(gone.as_mut().now_or_never().is_none() && here.as_mut().now_or_never().is_none());
        assert_eq!(submit.waiting_bytes(), 12);
        drop(gone);
        assert_eq!(inbox.next().map(|job| job.bytes()).unwrap(), 5);
        assert_eq!(submit.waiting_bytes(), 0);
        assert_eq!(inbox.next().err(), Some(Empty::Now));
    }
}
