//! Waiting for a condition: the one place of the tests where anything sleeps.
//!
//! Each wait has a deadline and says what it waits for. It panics when the deadline has passed,
//! because a test that goes on without its condition would fail somewhere less telling.
//! The probe always runs once more after the last sleep, so a slow machine is not failed by the sleep.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// The one patience of the tests: far longer than anything takes that should take a moment, on a machine that also
/// compiles. A test that asserts how long something takes has a constant of its own for that.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The first pause; each one after it is longer, up to `LONGEST_PAUSE`.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// Calls `probe` until it returns something, and returns that. Panics with `what` after `deadline`.
#[track_caller]
pub fn until<T>(deadline: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    match poll(deadline, || probe().ok_or(())) {
        Ok(found) => found,
        Err(()) => panic!("waited {deadline:?} in vain for {what}"),
    }
}

/// Like [`until`], for a probe that can say why it is not content: the last reason is in the panic.
#[track_caller]
pub fn until_ok<T, E: Display>(deadline: Duration, what: &str, probe: impl FnMut() -> Result<T, E>) -> T {
    match poll(deadline, probe) {
        Ok(found) => found,
        Err(last) => panic!("waited {deadline:?} in vain for {what}; at last: {last}"),
    }
}

/// Lets time pass, where that is what a test is about.
pub fn pass(span: Duration) {
    let began = Instant::now();
    until(span + PATIENCE, "time to pass", || (began.elapsed() >= span).then_some(()));
}

/// Calls `probe` until it succeeds, and at `deadline` returns its last failure.
pub fn poll<T, E>(deadline: Duration, mut probe: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let end = Instant::now() + deadline;
    let mut pause = SHORTEST_PAUSE;
    loop {
        let last_try = Instant::now() >= end;
        match probe() {
            Ok(found) => return Ok(found),
            Err(last) if last_try => return Err(last),
            Err(_) => {}
        }
        thread::sleep(pause.min(end.saturating_duration_since(Instant::now())));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_until_the_probe_is_content() {
        let mut calls = 0;
        let found = until(Duration::from_secs(30), "the third call", || {
            calls += 1;
            (calls == 3).then_some(calls)
        });
        assert_eq!(found, 3);
    }

    #[test]
    #[should_panic(expected = "in vain for a miracle; at last: none today")]
    fn says_what_was_waited_for_and_how_it_stood() {
        until_ok::<(), _>(Duration::from_millis(5), "a miracle", || Err("none today"));
    }

    #[test]
    fn looks_once_even_with_no_time_at_all() {
        assert_eq!(until(Duration::ZERO, "what is there", || Some(7)), 7);
    }
}
