//! Requests of background work to another service, each under a deadline of its own, and why one was not done.

use std::time::Duration;

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

/// Waits for an answer for so long.
pub async fn within<T>(
    span: Duration,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, PeerError> {
    Ok(timeout(span, request).await.map_err(|_| PeerError::Late(span))??)
}
