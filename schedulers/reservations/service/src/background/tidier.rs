//! Does in the task service what reservations need there: submits their tasks, looks how they ended, and releases the promises
//! that nobody needs any more. Each may be done again: the task service knows it by its key, or has nothing left to release.

use std::sync::Arc;

use estimand_api::promise::{MAX_BATCH, PromiseTasks};
use estimand_carrier::ask;
use estimand_client::{Client, Error, PeerError, within};
use estimand_ordering::Question;
use estimand_runtime::{Next, Work};
use estimand_service::Writer;
use estimand_web::Scope;

use super::{ANSWER_WITHIN, look_up};
use crate::requests::{Cancel, Released, TaskKnown, TaskWithdrawn, TasksKnown};
use crate::reservation::{Reservation, TaskStanding};
use crate::shared::Shared;
use crate::writer::ReservationsState;

/// How long after its end, in seconds, it is waited for a task that has no lease, on a node that is not heard of.
const END_WITHIN: u64 = 3_600;
/// How long after its end, in seconds, the ledger is asked for a promise of whose end nothing was heard, and for how many at once.
const HEARD_WITHIN: u64 = 5;
const MAX_LOOKED_UP: usize = 64;

pub struct Tidier {
    pub shared: Arc<Shared>,
    pub writer: Writer<ReservationsState>,
}

impl Work for Tidier {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let client = self.shared.ledger.wait().await;
        let untold: Vec<Arc<Reservation>> = self.shared.table.look(|table| table.untold().cloned().collect());
        let (given_back, untold): (Vec<_>, Vec<_>) =
            untold.into_iter().partition(|reservation| reservation.progress.is_to_release);
        for some in given_back.chunks(MAX_BATCH) {
            self.release(client, some).await?;
        }
        for reservation in untold.iter().filter(|reservation| reservation.is_live()) {
            match &reservation.progress.task {
                TaskStanding::Due => self.submit(client, reservation).await?,
                TaskStanding::Stale(id) => self.withdraw(client, reservation, id).await?,
                _ => self.look_at_tasks(client, reservation).await?,
            }
        }
        self.look_up_overdue(client).await?;
        Ok(Next::Period)
    }
}

impl Tidier {
    /// Looks up promises that should be over: the ledger keeps so many, and may have forgotten one before its end was heard of.
    async fn look_up_overdue(&self, client: &Client) -> Result<(), PeerError> {
        let ended = self.shared.now().saturating_sub(HEARD_WITHIN);
        let overdue: Vec<Arc<Reservation>> =
            self.shared.table.look(|table| table.overdue(ended).take(MAX_LOOKED_UP).cloned().collect());
        for reservation in overdue {
            look_up(client, &self.writer, &reservation).await?;
        }
        Ok(())
    }

    /// In one step: each step of the ledger has all orders that wait priced anew.
    async fn release(&self, client: &Client, some: &[Arc<Reservation>]) -> Result<(), PeerError> {
        let promises = some.iter().map(|reservation| reservation.promise_id()).collect();
        let done = within(ANSWER_WITHIN, ask(client, &Question::GiveBack { promises })).await?;
        self.shared.heard_of(done.revision);
        let numbers = some.iter().map(|reservation| reservation.number).collect();
        Ok(self.writer.submit(Released(numbers)).await?)
    }

    /// Takes back the task of before a change, so that its id is free for the one after it.
    async fn withdraw(&self, client: &Client, reservation: &Reservation, id: &str) -> Result<(), PeerError> {
        let cancelled = within(ANSWER_WITHIN, client.cancel_task(id)).await.map(drop);
        let deleted = within(ANSWER_WITHIN, client.delete_task(id)).await;
        for done in [cancelled, deleted] {
            match done {
                Ok(()) => {}
                Err(PeerError::Client(error)) if error.status() == Some(404) => {}
                // It has begun, and is not over yet: the next round looks again.
                Err(PeerError::Client(error)) if error.status() == Some(409) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(self.writer.submit(TaskWithdrawn(reservation.number)).await?)
    }

    /// Looks whether all tasks on a promise are over. What was heard may be about a task of before a change, so it is looked now.
    async fn look_at_tasks(&self, client: &Client, reservation: &Reservation) -> Result<(), PeerError> {
        let Reservation { number, progress, .. } = reservation;
        let is_long_past = progress.is_past && progress.offer.end + END_WITHIN <= self.shared.now();
        if !reservation.is_done() && !is_long_past {
            return Ok(());
        }
        let tasks = match within(ANSWER_WITHIN, client.promise_of(&reservation.promise_id())).await {
            Ok(promise) => promise.tasks,
            Err(PeerError::Client(error)) if error.status() == Some(404) => None,
            Err(error) => return Err(error),
        };
        if !is_settled(tasks, is_long_past) {
            return Ok(());
        }
        let known = TasksKnown { number: *number, tasks };
        Ok(self.writer.submit(known).await?)
    }

    async fn submit(&self, client: &Client, reservation: &Reservation) -> Result<(), PeerError> {
        let Some(task) = &reservation.document.task else { return Ok(()) };
        let document = task.on_promise(&reservation.promise_id(), reservation.width(), &reservation.account);
        let submitted = within(ANSWER_WITHIN, client.submit_task(&document, &reservation.task_key())).await;
        let task = match submitted {
            Ok((task, _)) => TaskStanding::Submitted(task.id),
            Err(PeerError::Client(Error::Problem(problem))) if (400..500).contains(&problem.status) => {
                // Nobody has anything of a time in which nothing can run.
                let reason = format!("its task is refused: {}", problem.detail);
                let (id, by) = (reservation.id.clone(), "scheduler".to_owned());
                let in_full = Some(reason.clone());
                let cancel = Cancel { id, by, scope: Scope::default(), in_full, tasks: None };
                self.writer.submit(cancel).await?;
                TaskStanding::Refused(reason)
            }
            Err(error) => return Err(error),
        };
        let known = TaskKnown { number: reservation.number, key: reservation.task_key(), task };
        Ok(self.writer.submit(known).await?)
    }
}

/// It can be said what the tasks on a promise had. They are over; or their end is waited for no longer, unless a lease ends them, which
/// may be long after their time: then it shows what they had.
fn is_settled(tasks: Option<PromiseTasks>, is_long_past: bool) -> bool {
    let Some(PromiseTasks { open, silent, over, .. }) = tasks else { return true };
    open == 0 && over > 0 || is_long_past && silent == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_has_a_lease_is_waited_for() {
        let tasks = |open, silent, over| Some(PromiseTasks { open, silent, over, ..PromiseTasks::default() });
        for (tasks, at_once, after_an_hour) in [
            (None, true, true),
            (tasks(0, 0, 1), true, true),
            (tasks(1, 0, 1), false, true),
            // Its node is not heard of, and it may have had all of its time.
            (tasks(1, 1, 0), false, false),
            (tasks(2, 1, 3), false, false),
        ] {
            assert_eq!(
                (is_settled(tasks, false), is_settled(tasks, true)),
                (at_once, after_an_hour),
                "{tasks:?}"
            );
        }
    }
}
