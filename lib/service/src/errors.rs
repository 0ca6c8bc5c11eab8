//! The errors of a store and of a writer. Here and nowhere else one becomes another, a problem of callers, or a reason of background
//! loops.

use std::fmt::Display;

use estimand_api::problem::Problem;
use estimand_client::PeerError;
use estimand_store::Error;

/// The reason why the storage did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// Another process writes now, and this one never will again.
    #[error("{0}")]
    TakenOver(String),
    /// The connection broke: the change may have taken effect.
    #[error("{0}")]
    Unknown(String),
    /// Nothing took effect.
    #[error("{0}")]
    NotStored(String),
}

impl From<Error> for StorageError {
    fn from(error: Error) -> Self {
        let cause = error.to_string();
        match error {
            Error::Fenced { .. } => StorageError::TakenOver(cause),
            Error::Connection { .. } => StorageError::Unknown(cause),
            Error::Busy { .. }
            | Error::Refused { .. }
            | Error::Denied { .. }
            | Error::Damaged { .. }
            | Error::Url(_) => StorageError::NotStored(cause),
        }
    }
}

/// The reason why a request brought no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError<Rejection> {
    #[error("{0}")]
    Rejected(Rejection),
    /// Nothing was loaded yet, or the storage does not answer: nothing was done.
    #[error("the store does not answer")]
    Unreachable,
    /// The storage refused the change: nothing was done.
    #[error("the store refused it")]
    NotStored,
    /// The connection broke, and the change did not take effect.
    #[error("the connection to the store broke")]
    Broken,
    /// The change may or may not have taken effect.
    #[error("whether it is stored is unknown")]
    OutcomeUnknown,
    /// Another process has taken the storage of this service over: nothing was done, and nothing will be.
    #[error("another process has taken the store over")]
    TakenOver(&'static str),
    /// Too many requests wait: nothing was done.
    #[error("too much waits for the store")]
    Overloaded,
    /// This service is stopping: nothing was done.
    #[error("the process is stopping")]
    Stopping(&'static str),
}

/// The reason why nothing can be changed any more, also for the operator.
pub fn taken_over(service: &str) -> String {
    format!("another {service} has taken over this store")
}

impl<Rejection: Into<Problem>> From<SubmitError<Rejection>> for Problem {
    fn from(error: SubmitError<Rejection>) -> Self {
        let detail = match error {
            SubmitError::Rejected(rejection) => return rejection.into(),
            SubmitError::OutcomeUnknown => {
                let detail = "the database does not answer, and whether this took effect is unknown: look, and send it \
                              again if not";
                return Problem::outcome_unknown(detail, 1);
            }
            SubmitError::Unreachable => "the database does not answer; nothing was done".to_owned(),
            SubmitError::NotStored => "the database did not take this; nothing of it was done".to_owned(),
            SubmitError::Broken => {
                "the connection to the database broke; nothing was done, send it again".to_owned()
            }
            SubmitError::TakenOver(service) => {
                format!("{}; nothing was done, and nothing can be changed here any more", taken_over(service))
            }
            SubmitError::Overloaded => "too many changes wait; nothing was done".to_owned(),
            SubmitError::Stopping(service) => format!("the {service} is stopping; nothing was done"),
        };
        Problem::unavailable(detail, 1)
    }
}

impl<Rejection: Display> From<SubmitError<Rejection>> for PeerError {
    fn from(error: SubmitError<Rejection>) -> Self {
        PeerError::Writer(error.to_string())
    }
}
