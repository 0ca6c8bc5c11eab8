//! Requests that wait for the writer, and those that it has decided.

use tokio::sync::oneshot;

use super::state::{Decision, Request, State};
use crate::SubmitError;

/// A request and its caller.
pub struct PendingRequest<R, Reply, Rejection> {
    pub request: R,
    pub reply: oneshot::Sender<Result<Reply, SubmitError<Rejection>>>,
}

/// A pending request of any type.
pub trait Job<S: State>: Send {
    /// True if the caller has gone away or waited too long. It was told nothing certain: not to begin is right then.
    fn is_abandoned(&self) -> bool;
    fn refuse(self: Box<Self>, error: SubmitError<S::Rejection>);
    /// Decides on what is staged after `before` changes of the group.
    fn decide(self: Box<Self>, state: &S, before: usize) -> (Option<S::Change>, Answer<S>);
}

/// Tells a caller the outcome of its group.
pub type Answer<S> =
    Box<dyn FnOnce(Result<(&S, &[<S as State>::Change]), SubmitError<<S as State>::Rejection>>) + Send>;

impl<S: State, R: Request<S>> Job<S> for PendingRequest<R, R::Reply, S::Rejection> {
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    // A caller that has gone away needs no answer.
    fn refuse(self: Box<Self>, error: SubmitError<S::Rejection>) {
        let _ = self.reply.send(Err(error));
    }

    fn decide(self: Box<Self>, state: &S, before: usize) -> (Option<S::Change>, Answer<S>) {
        let PendingRequest { request, reply } = *self;
        let known = match request.decide(state) {
            Ok(Decision::Change(change, make)) => {
                let answer: Answer<S> = Box::new(move |outcome| {
                    let _ = reply.send(outcome.map(|(state, changes)| make(state, &changes[before])));
                });
                return (Some(change), answer);
            }
            Ok(Decision::Nothing(answer)) => Ok(answer),
            Err(rejection) => Err(SubmitError::Rejected(rejection)),
        };
        let answer: Answer<S> = Box::new(move |outcome| {
            let _ = reply.send(outcome.and(known));
        });
        (None, answer)
    }
}

/// Requests that were decided together.
pub struct Group<S: State> {
    pub changes: Vec<S::Change>,
    /// Each is answered when so many of the changes are durable.
    pub callers: Vec<(usize, Answer<S>)>,
}
