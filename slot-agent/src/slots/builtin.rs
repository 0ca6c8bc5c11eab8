//! One run of a collector inside the agent. It needs no process, and so no cell, and nobody can end it: it is asked
//! to keep to its time, and one that does not holds its slot, and a thread, until it returns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use estimand_api::names::NodeName;
use estimand_api::value::MAX_VALUE_BYTES;
use estimand_collectors::{self as collectors, Failure, Reading};
use estimand_dialects::{Answer, Reading as Read};
use estimand_exec::Privileges;
use serde_json::Value;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::attempt::Attempt;
use super::verdict::{self, Verdict};
use super::version::{CollectorInstance, Shared};
use super::{Context, plan};

/// Runs it once.
pub async fn attempt(context: &Context, shared: &Shared) -> Attempt {
    let name = shared.argv.first().cloned().unwrap_or_default();
    let started_at = context.clock.now_micros();
    let verdict = match tokio::select! {
        verdict = collect(context, shared, &name) => Some(verdict),
        () = shared.ends().requested() => None,
    } {
        Some(verdict) => verdict,
        None => Verdict::Stopped,
    };
    let ended_at = context.clock.now_micros().max(started_at);
    Attempt { argv: vec!["builtin".to_owned(), name], started_at, ended_at, captured: None, verdict }
}

async fn collect(context: &Context, shared: &Shared, name: &str) -> Verdict {
    let registration = &shared.registered.registration;
    let span = Duration::from_micros(plan::timeout_us(registration).unwrap_or(30_000_000));
    let made = match Arc::clone(&shared.collector).try_lock_owned() {
        Ok(made) => made,
        // The slot is as good as busy: the thread of an earlier run has not come back.
        Err(_) => return Verdict::Failed("an earlier collection still hangs".to_owned()),
    };
    let (name, params) = (name.to_owned(), registration.params.clone());
    let folder = context.home.slot_folder(registration.data_name.as_str()).ok();
    let node = Some(context.node.to_string());
    let bounds = context.bounds.clone();
    let around = collectors::Surroundings { node, folder, bounds, ..collectors::Surroundings::default() };
    let until = Instant::now() + span;
    let work = blocking(context.file_rights.clone(), move || ask(made, &name, &params, &around, until));
    match timeout(span + GRACE, work).await {
        Ok(Ok(Ok(reading))) => verdict::judge(registration, read(reading)),
        Ok(Ok(Err(CollectError::Refused(reason)))) => Verdict::Refused(reason),
        Ok(Ok(Err(CollectError::Failure(Failure::NotHere(what))))) => Verdict::NotHere(what),
        Ok(Ok(Err(CollectError::Failure(Failure::Refused(reason))))) => Verdict::Refused(reason),
        Ok(Ok(Err(CollectError::Failure(Failure::Failed(reason))))) => Verdict::Failed(reason),
        Ok(Err(error)) => Verdict::Failed(format!("the collector broke off: {error}")),
        Err(_) => Verdict::TimedOut(format!("it did not end within {span:?}")),
    }
}

/// A collector keeps to its time by itself as well as it can; this much later it is given up.
const GRACE: Duration = Duration::from_millis(500);

/// Works where blocking is allowed. With the rights of another user it has a thread of its own, which gives up for ever
/// those that this process has.
async fn blocking<T: Send + 'static>(
    rights: Option<Privileges>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let Some(rights) = rights else {
        return tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string());
    };
    let (tell, told) = oneshot::channel();
    let body = move || drop(tell.send(rights.take_file_rights().map(|()| work())));
    let begun = std::thread::Builder::new().name("collector".to_owned()).spawn(body);
    begun.map_err(|error| format!("it has no thread: {error}"))?;
    match told.await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(format!("it cannot work with the rights of the user of `--run-as`: {error}")),
        Err(_) => Err("it panicked".to_owned()),
    }
}

enum CollectError {
    Refused(String),
    Failure(Failure),
}

/// Blocking.
fn ask(
    mut made: OwnedMutexGuard<CollectorInstance>,
    name: &str,
    params: &BTreeMap<String, Value>,
    around: &collectors::Surroundings,
    until: Instant,
) -> Result<Reading, CollectError> {
    // Out of its place while it works: one that panics is made anew.
    let mut collector = match made.take() {
        Some(collector) => collector,
        None => {
            let kind = collectors::find(name)
                .ok_or_else(|| CollectError::Refused(format!("this agent has no collector `{name}`")))?;
            collectors::make(kind, params, around).map_err(CollectError::Refused)?
        }
    };
    let told = collector.collect(until);
    *made = Some(collector);
    told.map_err(CollectError::Failure)
}

fn read(reading: Reading) -> Result<Read, String> {
    let bounded = |text: String, of: &str| match text.len() {
        0..=MAX_VALUE_BYTES => Ok(text.into_boxed_str()),
        bytes => Err(format!("the value{of} has {bytes} bytes; at most {MAX_VALUE_BYTES} are kept")),
    };
    let answer = match reading {
        Reading::Here(value) => Answer::One(bounded(value.to_string(), "")?),
        Reading::PerNode(values) if values.is_empty() => Answer::Nothing,
        Reading::PerNode(values) => {
            let mut answers = Vec::with_capacity(values.len());
            for (node, value) in values {
                let text = bounded(value.to_string(), &format!(" of {node}"))?;
                answers.push((NodeName::parse(&node).map_err(|e| e.to_string())?, text));
            }
            Answer::PerNode(answers)
        }
    };
    Ok(answer.into())
}
