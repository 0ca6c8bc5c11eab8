//! Requests of background work to another service, each under a deadline of its own, and why one was not done.

use std::fmt::Display;
use std::time::Duration;

use estimand_runtime::single_writer::SubmitError;
use tokio::time::timeout;

use crate::Error;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error(transparent)]
    Client(#[from] Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The own writer did not take what came of it.
    #[error("{0}")]
    Writer(String),
}

impl PeerError {
    pub fn of_write<R: Display>(error: SubmitError<R>) -> PeerError {
        PeerError::Writer(match error {
            SubmitError::Rejected(rejection) => rejection.to_string(),
            SubmitError::Unreachable => "the store does not answer".to_owned(),
            SubmitError::NotStored => "the store refused it".to_owned(),
            SubmitError::Broken => "the connection to the store broke".to_owned(),
            SubmitError::OutcomeUnknown => "whether it is stored is unknown".to_owned(),
            SubmitError::TakenOver => "another process has taken the store over".to_owned(),
            SubmitError::Overloaded => "too much waits for the store".to_owned(),
            SubmitError::Stopping => "the process is stopping".to_owned(),
        })
    }
}

/// Waits for an answer for so long.
pub async fn within<T>(
    span: Duration,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, PeerError> {
    Ok(timeout(span, request).await.map_err(|_| PeerError::Late(span))??)
}
