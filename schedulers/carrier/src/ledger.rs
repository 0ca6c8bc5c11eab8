//! Carries questions to the ledger of the task service, and its answers back.

use estimand_capacity::Tick;
use estimand_client::{Client, Error};
use estimand_ordering::{Answer, Done, Question};

/// Asks until there is an answer, or the client gives up.
pub async fn ask(client: &Client, question: &Question) -> Result<Done, Error> {
    Ok(match question {
        Question::Promise { key, batch } => {
            let made = client.promise(batch, key).await?;
            Done { revision: made.revision, promises: made.promises }
        }
        Question::Change { promise, to } => {
            let record = client.resize_promise(promise, to).await?;
            Done { revision: record.revision, promises: vec![record] }
        }
        Question::GiveBack { promises } => {
            let released = client.release_promises(promises.clone()).await?;
            Done { revision: released.revision, promises: Vec::new() }
        }
    })
}

/// The answer to a question, lost or not.
pub async fn answer(client: &Client, question: &Question, now: impl Fn() -> Tick) -> Answer {
    match ask(client, question).await {
        Ok(done) => Answer::Done(done),
        Err(Error::Problem(problem)) => Answer::of_problem(*problem, question, now()),
        Err(error) => Answer::Unknown(error.to_string()),
    }
}
