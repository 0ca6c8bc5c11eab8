//! Does in the task service what reservations need there: submits their tasks, and releases the promises of those that were
//! cancelled. Each may be done again: the task service knows it by its key, or has nothing left to release.

use std::sync::Arc;

use estimand_client::{Client, Error, PeerError, within};
use estimand_runtime::single_writer::Writer;
use estimand_runtime::{Next, Work};
use serde_json::{Map, Value, json};

use super::ANSWER_WITHIN;
use crate::requests::{Cancel, Released, TaskKnown};
use crate::reservation::{Reservation, State, TaskStanding};
use crate::shared::Shared;
use crate::writer::ReservationsState;

pub struct Tidier {
    pub shared: Arc<Shared>,
    pub writer: Writer<ReservationsState>,
}

impl Work for Tidier {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let client = self.shared.task_service().await;
        let open: Vec<Arc<Reservation>> = self.shared.table(|table| table.open().cloned().collect());
        for reservation in open {
            let is_live = matches!(reservation.state(), State::Promised | State::Active);
            if reservation.progress.is_to_release {
                self.release(&client, &reservation).await?;
            } else if is_live && reservation.progress.task == TaskStanding::Due {
                self.submit(&client, &reservation).await?;
            }
        }
        Ok(Next::Period)
    }
}

impl Tidier {
    async fn release(&self, client: &Client, reservation: &Reservation) -> Result<(), PeerError> {
        match within(ANSWER_WITHIN, client.release_promise(&reservation.promise_id())).await {
            Ok(promise) => self.shared.heard_of(promise.revision),
            // It is not kept any more, so it is over.
            Err(PeerError::Client(error)) if error.status() == Some(404) => {}
            Err(error) => return Err(error),
        }
        self.writer.submit(Released(reservation.number)).await.map_err(PeerError::of_write)
    }

    async fn submit(&self, client: &Client, reservation: &Reservation) -> Result<(), PeerError> {
        let Some(document) = task(reservation) else { return Ok(()) };
        let submitted = within(ANSWER_WITHIN, client.submit_task(&document, &reservation.task_key())).await;
        let task = match submitted {
            Ok((task, _)) => TaskStanding::Submitted(task.id),
            Err(PeerError::Client(Error::Problem(problem))) if (400..500).contains(&problem.status) => {
                // Nobody has anything of a time in which nothing can run.
                let reason = format!("its task is refused: {}", problem.detail);
                let (id, by) = (reservation.id.clone(), "scheduler".to_owned());
                let cancel = Cancel { id, by, in_full: Some(reason.clone()) };
                self.writer.submit(cancel).await.map_err(PeerError::of_write)?;
                TaskStanding::Refused(reason)
            }
            Err(error) => return Err(error),
        };
        self.writer.submit(TaskKnown { number: reservation.number, task }).await.map_err(PeerError::of_write)
    }
}

/// The document of the task that runs on a reservation.
fn task(reservation: &Reservation) -> Option<Map<String, Value>> {
    let mut document = reservation.document.task.clone()?;
    document.insert("promise".to_owned(), json!(reservation.promise_id()));
    if reservation.document.width > 1 {
        document.insert("count".to_owned(), json!(reservation.document.width));
    }
    document.entry("user").or_insert_with(|| json!(reservation.account));
    Some(document)
}
