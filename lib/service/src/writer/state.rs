//! A state, the requests to it, and what can come of them.

use std::fmt;
use std::future::Future;

use crate::StorageError;

/// The state of a service, which one writer owns.
pub trait State: Send + 'static {
    /// One change, as it is stored and then published.
    type Change: fmt::Debug + Send + Sync + 'static;
    /// The reason why a request is rejected: the service's own error.
    type Rejection: Clone + Send + 'static;

    /// Names the state in the log, as in "the registrations".
    const NAME: &'static str;
    /// The service, as in "task service".
    const SERVICE: &'static str;

    /// How much is stored at once, as [`State::weight`] counts it. One change at a time unless a state says otherwise; a
    /// state that does must stage.
    const GROUP: usize = 1;

    /// Claims the storage if it is not claimed yet, reads everything, and publishes it. Nothing is staged then.
    fn load(&mut self) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// Makes changes durable, all or nothing. The later may change again what the earlier did.
    fn store(&mut self, changes: &[Self::Change]) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// Shows changes that are durable to all readers.
    fn publish(&mut self, changes: &[Self::Change]);

    /// True if the state that was loaded last contains the changes. Asked after a broken connection.
    fn took_effect(&self, changes: &[Self::Change]) -> bool;

    /// A part of [`State::GROUP`].
    fn weight(_: &Self::Change) -> usize {
        1
    }

    /// Requests are decided from now on as if the change were durable already.
    fn stage(&mut self, _: &Self::Change) {}

    /// Nothing of what was staged takes effect.
    fn unstage(&mut self, _: &[Self::Change]) {}
}

/// Something that can be asked of a state.
pub trait Request<S: State>: Send + 'static {
    type Reply: Send + 'static;

    /// Decides, purely: no I/O, nothing published.
    fn decide(self, state: &S) -> Result<Decision<S, Self::Reply>, S::Rejection>;
}

/// The outcome of a request.
pub enum Decision<S: State, Reply> {
    /// It is so already.
    Nothing(Reply),
    /// A change, and the function that makes the reply once it is published.
    Change(S::Change, MakeReply<S, Reply>),
}

type MakeReply<S, Reply> = Box<dyn FnOnce(&S, &<S as State>::Change) -> Reply + Send>;

impl<S: State, Reply> Decision<S, Reply> {
    /// A change. `reply` is called once it is published, and also carries out its consequences.
    pub fn change(change: S::Change, reply: impl FnOnce(&S, &S::Change) -> Reply + Send + 'static) -> Self {
        Decision::Change(change, Box::new(reply))
    }
}
