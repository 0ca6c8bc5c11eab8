use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::Readiness;

/// A number that can be raised; the storage does as it is told.
#[derive(Default)]
struct Tally {
    shown: u64,
    stored: u64,
    script: VecDeque<Step>,
    is_over: bool,
}

#[derive(Clone, Copy)]
enum Step {
    /// The storage takes the change.
    Take,
    /// It breaks off, before or after the change took effect.
    BreakOff {
        taken: bool,
    },
    Refuse,
    TakeOver,
}

struct Raise(u64);

impl Request<Tally> for Raise {
    type Reply = u64;

    fn decide(self, tally: &Tally) -> Result<Decision<Tally, u64>, &'static str> {
        match self.0 {
            0 => Ok(Decision::Nothing(tally.shown)),
            13 => Err("thirteen"),
            by => Ok(Decision::change(tally.shown + by, |tally: &Tally, _: &u64| tally.shown)),
        }
    }
}

impl State for Tally {
    type Change = u64;
    type Rejection = &'static str;
    const NAME: &'static str = "the tallies";
    const TAKEN_OVER: &'static str = "claimed by another process";

    async fn load(&mut self) -> Result<(), StorageError> {
        if self.is_over {
            return Err(StorageError::TakenOver("claimed".to_owned()));
        }
        self.shown = self.stored;
        Ok(())
    }

    async fn store(&mut self, change: &u64) -> Result<(), StorageError> {
        match self.script.pop_front().unwrap_or(Step::Take) {
            Step::Take => self.stored = *change,
            Step::BreakOff { taken } => {
                self.stored = if taken { *change } else { self.stored };
                return Err(StorageError::Unknown("broke off".to_owned()));
            }
            Step::Refuse => return Err(StorageError::NotStored("full".to_owned())),
            Step::TakeOver => {
                self.is_over = true;
                return Err(StorageError::TakenOver("claimed".to_owned()));
            }
        }
        Ok(())
    }

    fn publish(&mut self, change: &u64) {
        self.shown = *change;
    }

    fn took_effect(&self, change: &u64) -> bool {
        self.shown == *change
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_stored_then_published_and_every_outcome_is_told_apart() {
    let over = Arc::new(AtomicBool::new(false));
    let (tasks, heard) = (Tasks::new(), Arc::clone(&over));
    let script = [
        Step::Take,
        Step::BreakOff { taken: true },
        Step::BreakOff { taken: false },
        Step::Refuse,
        Step::TakeOver,
    ];
    let tally = Tally { stored: 5, script: script.into(), ..Tally::default() };
    let on_taken_over = Box::new(move || heard.store(true, Ordering::SeqCst));
    let ready = Readiness::new().part("tally");
    let writer = Writer::start(&tasks, "tally", tally, ready, on_taken_over);
    for (by, expected) in [
        (0, Ok(5)),
        (13, Err(SubmitError::Rejected("thirteen"))),
        (1, Ok(6)),
        (1, Ok(7)),
        (1, Err(SubmitError::Broken)),
        (1, Err(SubmitError::NotStored)),
        (0, Ok(7)),
        (1, Err(SubmitError::TakenOver)),
        (0, Err(SubmitError::TakenOver)),
    ] {
        assert_eq!(writer.submit(Raise(by)).await, expected, "by {by}");
    }
    assert!(over.load(Ordering::SeqCst));
    tasks.stop_all(Duration::from_secs(1)).await.unwrap();
    assert_eq!(writer.submit(Raise(0)).await, Err(SubmitError::Stopping));
}
