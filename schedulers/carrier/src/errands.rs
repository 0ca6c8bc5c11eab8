//! Carries the errands of a driver to a task service, and its news back.

use std::time::Duration;

use estimand_api::problem::kind;
use estimand_api::task_record::TaskRecord;
use estimand_api::task_state::TaskState;
use estimand_capacity::Tick;
use estimand_client::{Client, Error, TaskEventQuery};
use estimand_ordering::{Driver, Errand, Event, Scheduler, TaskAnswer, TaskEnd, TaskNews};
use serde_json::{Map, Value, json};

use crate::ledger;

/// The most pieces of news on a page.
const PAGE: u32 = 1_000;

/// A task service, as a driver has it.
pub struct Carrier {
    client: Client,
    /// The beginning of the ids of all tasks that the scheduler submits.
    ids: String,
    /// The revisions up to which events and progress are read; none: nothing is, or it is to be read again.
    events_to: Option<u64>,
    progress_to: Option<u64>,
    /// The revision of the ledger up to which changes of promises are read.
    promises_to: u64,
}

impl Carrier {
    pub fn new(client: Client, ids: &str) -> Carrier {
        Carrier { client, ids: ids.to_owned(), events_to: None, progress_to: None, promises_to: 0 }
    }

    /// Carries all that is to be carried, and then waits so long for news. An error is news that could not be read; it is
    /// there in the next round.
    pub async fn round<S: Scheduler<Task = Map<String, Value>>>(
        &mut self,
        driver: &mut Driver<S>,
        now: impl Fn() -> Tick,
        wait: Duration,
    ) -> Result<(), Error> {
        driver.pass_time(now());
        for errand in driver.errands() {
            let answer = carry(&self.client, &errand).await;
            driver.answer(now(), &errand, answer);
        }
        for (order, question) in driver.questions() {
            let answer = ledger::answer(&self.client, &question, &now).await;
            driver.answer_order(now(), &order, &question, answer);
        }
        if driver.has_orders() {
            let page = self.client.promises_with_gaps(self.promises_to, PAGE).await?;
            self.promises_to = page.next;
            page.promises.iter().for_each(|record| driver.hear_promise(now(), record));
        }
        self.read(driver, now, wait).await
    }

    /// Progress is read behind the events and told before them, so that none of it comes after its task's end.
    async fn read<S: Scheduler>(
        &mut self,
        driver: &mut Driver<S>,
        now: impl Fn() -> Tick,
        wait: Duration,
    ) -> Result<(), Error> {
        let query =
            |after| TaskEventQuery { after, id: Some(format!("{}*", self.ids)), ..TaskEventQuery::default() };
        let events = self.client.task_events(&query(self.events_to), PAGE, wait).await;
        let events = again_if_gone(&mut self.events_to, events)?;
        loop {
            let progress = self.client.task_progress(&query(self.progress_to), PAGE, Duration::ZERO).await;
            let Some(page) = again_if_gone(&mut self.progress_to, progress)? else { continue };
            self.progress_to = Some(page.next);
            for report in page.reports {
                let news = TaskNews::Progress(json!(report.progress));
                driver.hear(now(), Event::Task { task: report.id, news });
            }
            if page.next >= page.revision {
                break;
            }
        }
        if let Some(page) = events {
            self.events_to = Some(page.next);
            for event in page.events {
                if let Some(end) = end_of(&event.to) {
                    driver.hear(now(), Event::Task { task: event.id, news: TaskNews::Ended(end) });
                }
            }
        }
        Ok(())
    }
}

/// A page of news; none if some of it is not kept any more: then all that is kept is read again, in the next round.
fn again_if_gone<T>(read_to: &mut Option<u64>, page: Result<T, Error>) -> Result<Option<T>, Error> {
    match page {
        Err(error) if error.status() == Some(410) && read_to.take().is_some() => Ok(None),
        page => page.map(Some),
    }
}

/// Carries an errand, and brings its answer, lost or not.
pub async fn carry(client: &Client, errand: &Errand<Map<String, Value>>) -> TaskAnswer {
    let done = match errand {
        Errand::Submit { task, document } => {
            let mut document = document.clone();
            document.insert("id".to_owned(), json!(task));
            let key = format!("task {task}");
            // A user's task is within that user's shares.
            let submitted = match document.get("user").and_then(Value::as_str) {
                Some(user) => client.submit_task_on_behalf(user, &document, &key).await,
                None => client.submit_task(&document, &key).await,
            };
            submitted.map(|(record, _)| record)
        }
        Errand::Cancel { task, stop } => client.cancel_task_so(task, *stop).await,
    };
    match done {
        Ok(TaskRecord { state, .. }) => TaskAnswer::Done(end_of(&state)),
        // A share that is full has room again some time.
        Err(Error::Problem(problem)) if problem.status < 500 && problem.kind != kind::SHARE_FULL => {
            TaskAnswer::Refused(problem)
        }
        Err(error) => TaskAnswer::Unknown(error.to_string()),
    }
}

fn end_of(state: &str) -> Option<TaskEnd> {
    let state = TaskState::ALL.into_iter().find(|known| known.as_str() == state)?;
    TaskEnd::of(state)
}
