//! Hard to kill: each promise has a story here that tries to break it, with real processes.
//!
//! Disks that are full or fail, no descriptors left, clients that never finish, databases and name servers that hang,
//! more writes than there is room for, no memory left, clocks that jump, and everything killed at any moment. Each story asks the
//! same: what was acknowledged is there, readers are answered, what cannot be done is refused in so many words, memory is
//! bounded, and all goes on by itself when the trouble is over. Nothing sleeps. By default the stories are short;
//! `ESTIMAND_LONG` makes them long.
#![allow(clippy::unwrap_used)]

mod figures;

mod bodies;
mod clients;
mod clock;
mod databases;
mod descriptors;
mod disk;
mod kills;
mod memory;
mod names;
mod network;
mod openapi;
mod overload;
mod pinned;
mod readers;
mod soak;
mod windows;

use std::sync::{Mutex, MutexGuard, PoisonError};

use estimand_testkit::http::{Http, Response};
use estimand_testkit::plane::put;
use estimand_testkit::wait::{self, PATIENCE, pass};

fn is_long() -> bool {
    std::env::var_os("ESTIMAND_LONG").is_some()
}

fn long_or<T>(long: T, short: T) -> T {
    if is_long() { long } else { short }
}

/// Runs stories at the same time that mostly wait: the test runner has a thread for each processor only.
fn side_by_side(stories: &[(&str, fn())]) {
    std::thread::scope(|scope| {
        let started: Vec<_> = stories
            .iter()
            .map(|(name, story)| {
                let thread = std::thread::Builder::new().name((*name).to_owned());
                (name, thread.spawn_scoped(scope, *story).unwrap())
            })
            .collect();
        let ended = started.into_iter().map(|(name, story)| (name, story.join()));
        let failed: Vec<_> = ended.filter_map(|(name, end)| end.is_err().then_some(name)).collect();
        assert!(failed.is_empty(), "failed, as said above: {failed:?}");
    });
}

static PROCESSOR: Mutex<()> = Mutex::new(());

/// Held by stories that take all of the processor that they get, and those whose load would starve beside them.
fn with_the_processor() -> MutexGuard<'static, ()> {
    PROCESSOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refused in a way that tells a client what to do.
#[track_caller]
fn expect_refused(answer: &Response) {
    assert_eq!(answer.status, 503, "{answer}");
    assert!(answer.header("retry-after").is_some(), "{answer}");
}

/// Waits until a write is taken.
#[track_caller]
fn until_taken(http: &Http, name: &str) {
    wait::until_ok(PATIENCE, "a write to be taken", || match put(http, name, 1) {
        answer if answer.status < 300 => Ok(()),
        answer => Err(answer.to_string()),
    });
}
