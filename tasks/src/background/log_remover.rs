//! Removes what is left of deleted tasks: logs that were too long to go with them, and last attempts of long ago. A piece a round, each a
//! change among the others, so nobody who submits or reports waits for more than one of them. The store knows what is left, also
//! after a start.

use std::sync::Arc;

use estimand_runtime::{Next, Work};
use estimand_service::{SubmitError, Writer};
use estimand_store::{Connection, Error, Reads};
use tokio::time::Instant;

use crate::change::Rejection;
use crate::core::queue::TaskNumber;
use crate::requests::{ForgetAttempts, ShortenLog};
use crate::shared::Shared;
use crate::storage::rows;
use crate::writer::TasksState;

pub struct LogRemover {
    shared: Arc<Shared>,
    reads: Arc<Reads>,
    writer: Writer<TasksState>,
}

#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("what is left of deleted tasks cannot be read: {0}")]
    Read(#[from] Error),
    #[error("what is left of a deleted task cannot be removed: {0}")]
    Write(#[from] SubmitError<Rejection>),
}

impl LogRemover {
    pub fn new(shared: Arc<Shared>, reads: Arc<Reads>, writer: Writer<TasksState>) -> Self {
        LogRemover { shared, reads, writer }
    }
}

impl Work for LogRemover {
    type Error = RemoveError;

    async fn round(&mut self) -> Result<Next, RemoveError> {
        if !self.shared.table.is_loaded() {
            return Ok(Next::Period);
        }
        let has_more = match self.reads.run(None, Connection::task_log_to_remove).await? {
            Some(task) => {
                let piece = ShortenLog { task: TaskNumber(rows::known(task)) };
                self.writer.submit(piece).await?;
                true
            }
            None => self.writer.submit(ForgetAttempts).await?,
        };
        Ok(if has_more { Next::At(Instant::now()) } else { Next::Period })
    }
}
