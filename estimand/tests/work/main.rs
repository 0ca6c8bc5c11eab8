//! Work that is not lost: everything that tasks pass through is killed, cut off or flooded, and each task is done as often
//! as its document says, at most once at a time, with its whole log, on nodes that never have more than they promise.
//!
//! All services are processes of their own. By default the stories are short; `ESTIMAND_LONG` makes them long.
#![allow(clippy::unwrap_used)]

mod cut_off;
mod hostile;
mod kills;
mod plane;
mod runs;
mod steps;

use std::sync::{Mutex, MutexGuard, PoisonError};

static PROCESSOR: Mutex<()> = Mutex::new(());

/// Held by stories that take all of the processor that they get, and those that would starve beside them.
fn with_the_processor() -> MutexGuard<'static, ()> {
    PROCESSOR.lock().unwrap_or_else(PoisonError::into_inner)
}

fn long_or<T>(long: T, short: T) -> T {
    if std::env::var_os("ESTIMAND_LONG").is_some() { long } else { short }
}
