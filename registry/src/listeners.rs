//! Who hears of changes: the data service, which keeps a history for the names whose registration asks for one.
//!
//! A listener is poked, and the one task here then tells it everything that holds now, not what has changed:
//! a poke that is lost costs nothing. The task tells again when it failed, and now and then in any case, in
//! case the data service has lost what it was told. Only this task tells, so nothing older arrives last.
//! A change waits a little for it, so that a value written right after a registration is kept.

use std::sync::OnceLock;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use estimand_client::Client;
use estimand_runtime::Stop;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::book::{Book, Retention};

/// How long a change waits, and how long one attempt may take.
const TELL_WITHIN: Duration = Duration::from_secs(1);
/// How often the data service is told although nothing has changed.
const REPAIR_EVERY: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(200);

pub struct Listeners {
    data_service: OnceLock<Client>,
    poked: Notify,
    /// The generation of the last book that the data service was told of, or could not be told of.
    tried: watch::Sender<u64>,
}

impl Listeners {
    pub fn new() -> Self {
        Listeners { data_service: OnceLock::new(), poked: Notify::new(), tried: watch::Sender::new(0) }
    }

    /// Whom to tell of histories. The first one given stays.
    pub fn set_data_service(&self, client: Client) {
        if self.data_service.set(client).is_err() {
            tracing::warn!("the registry knows its data service already; the second address is not used");
        }
        self.poke();
    }

    pub fn data_service(&self) -> Option<&Client> {
        self.data_service.get()
    }

    /// Something has changed: whoever listens is told by the task.
    pub fn poke(&self) {
        self.poked.notify_one();
    }

    /// Waits until the data service was told of the book of this generation, or that has failed, or it took too
    /// long; the task goes on with it in any case.
    pub async fn told(&self, generation: u64) {
        if self.data_service.get().is_some() {
            let mut tried = self.tried.subscribe();
            let _ = timeout(TELL_WITHIN, tried.wait_for(|tried| *tried >= generation)).await;
        }
    }

    /// The task.
    pub async fn run(&self, book: &ArcSwapOption<Book>, stop: &Stop) {
        let mut acknowledged: Option<Retention> = None;
        let mut failures: u32 = 0;
        let mut again_at = Instant::now() + REPAIR_EVERY;
        loop {
            if let (Some(client), Some(book)) = (self.data_service.get(), book.load_full()) {
                let retention = book.retention();
                if acknowledged.as_ref() != Some(&retention) {
                    let outcome = tell(client, &retention).await;
                    failures = count(failures, outcome.as_ref().err());
                    acknowledged = outcome.is_ok().then_some(retention);
                    again_at = Instant::now() + pause(failures);
                }
                self.tried.send_replace(book.generation);
            }
            tokio::select! {
                () = stop.requested() => return,
                () = self.poked.notified() => {}
                () = sleep_until(again_at) => {
                    acknowledged = None;
                    again_at = Instant::now() + REPAIR_EVERY;
                }
            }
        }
    }
}

/// Counts failures in a row; the first one is logged, and their end.
fn count(failures: u32, failed: Option<&String>) -> u32 {
    match failed {
        Some(cause) if failures == 0 => {
            tracing::warn!(cause, "the data service was not told which histories to keep; trying on");
            1
        }
        Some(_) => failures.saturating_add(1),
        None if failures > 0 => {
            tracing::info!(failures, "the data service was told at last which histories to keep");
            0
        }
        None => 0,
    }
}

async fn tell(client: &Client, retention: &Retention) -> Result<(), String> {
    match timeout(TELL_WITHIN, client.set_retention(retention)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {TELL_WITHIN:?}")),
    }
}

/// Until the next attempt, if nobody pokes.
fn pause(failures: u32) -> Duration {
    let grown = FIRST_PAUSE.saturating_mul(1 << failures.min(16));
    match failures {
        0 => REPAIR_EVERY,
        _ => grown.min(REPAIR_EVERY).mul_f64(0.75 + fastrand::f64() / 4.0),
    }
}
