//! Reads the registry: all of it, when poked and every few seconds, and hands it to the cluster.
//!
//! It is read with the values of secrets, which go from here to the agents that need them and nowhere else.
//!
//! A read that fails changes nothing: what is known stays. What was read under an earlier lead is not used,
//! since agents may have been told of newer things since.

use std::sync::Arc;
use std::time::Duration;

use estimand_api::registration::Registered;
use estimand_client::{Client, Error};
use estimand_runtime::Stop;
use tokio::time::{sleep, timeout};

use crate::Shared;
use crate::reign::{Book, Reign};

/// How long one read may take.
const READ_WITHIN: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Reads as long as the reign lasts.
pub async fn follow(shared: &Shared, reign: &Reign, client: &Client, stop: &Stop) {
    let mut known: Option<Arc<Book>> = None;
    let mut pause = FIRST_PAUSE;
    let mut failing = false;
    loop {
        let begun = reign.reads.begin();
        let read = tokio::select! {
            read = read(client) => read,
            _ = reign.term().ended() => return,
            () = stop.requested() => return,
        };
        let wait = match read {
            Ok(all) => {
                shared.figures.reads.increment();
                if std::mem::take(&mut failing) {
                    tracing::info!("the registry answers again");
                }
                pause = FIRST_PAUSE;
                known = Some(take_over(reign, known.take(), all));
                reign.reads.end(begun);
                shared.settings.read_every
            }
            Err(cause) => {
                shared.figures.failed_reads.increment();
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(cause, "the registry cannot be read; what is known stays, trying on");
                }
                let wait = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                pause = (pause * 2).min(shared.settings.read_every);
                wait
            }
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = reign.reads.asked_since(begun) => {}
            _ = reign.term().ended() => return,
            () = stop.requested() => return,
        }
    }
}

async fn read(client: &Client) -> Result<Vec<Registered>, String> {
    match timeout(READ_WITHIN, client.registrations_with_secrets()).await {
        Ok(read) => read.map_err(|error: Error| error.to_string()),
        Err(_) => Err(format!("no answer within {READ_WITHIN:?}")),
    }
}

/// What is as it was stays the same in memory as well, with what was rendered of it.
fn take_over(reign: &Reign, before: Option<Arc<Book>>, all: Vec<Registered>) -> Arc<Book> {
    let kept = |registered: &Registered| {
        let before = before.as_ref()?.get(&registered.registration.data_name)?;
        (**before == *registered).then(|| Arc::clone(before))
    };
    let book: Book = all
        .into_iter()
        .map(|registered| {
            let shared = kept(&registered).unwrap_or_else(|| Arc::new(registered));
            (shared.registration.data_name.clone(), shared)
        })
        .collect();
    if let Some(before) = before.filter(|before| is_same(before, &book)) {
        return before;
    }
    tracing::debug!(registrations = book.len(), "the registry has changed");
    let book = Arc::new(book);
    reign.with(|held| {
        held.cluster.set_registrations(book.values().cloned().collect());
        held.rendered.retain(|name| book.contains_key(name));
        held.book = Some(Arc::clone(&book));
    });
    reign.ask_look();
    book
}

fn is_same(one: &Book, other: &Book) -> bool {
    one.len() == other.len() && one.values().zip(other.values()).all(|(one, other)| Arc::ptr_eq(one, other))
}
