//! The plane's time of day: the manager's clock, as the answers to heartbeats tell it.
//!
//! An answer that came within `r` says what the manager's clock showed at the middle of that time, to `r/2`. Of the last
//! answers the quickest counts. Between answers time passes on the steady clock, so that a step of this machine's clock
//! moves no instant. A clock that agrees is taken to the letter (decision 124).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estimand_runtime::Clock;

/// How many answers are compared.
const SAMPLES: usize = 16;
/// In microseconds: a difference that is left alone.
const AGREES: i64 = 250_000;
/// A difference that is told.
const TOLD: i64 = 1_000_000;

/// This machine's clock, set to the manager's once that is known.
pub struct PlaneClock {
    machine: Arc<dyn Clock>,
    learned: Mutex<Learned>,
}

#[derive(Default)]
struct Learned {
    samples: VecDeque<Sample>,
    best: Option<Sample>,
    /// The difference is large, and was told.
    is_told: bool,
}

/// An answer of the manager, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// The manager's time of day when the steady clock was 0.
    base: i64,
    round_trip: i64,
}

impl Sample {
    /// True if both can be of the same clock.
    fn agrees(&self, other: &Sample) -> bool {
        (self.base - other.base).abs() <= (self.round_trip + other.round_trip) / 2 + AGREES
    }
}

impl PlaneClock {
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        PlaneClock { machine, learned: Mutex::default() }
    }

    /// Takes the manager's time of day out of an answer to a request that was sent at a moment of the steady clock. With the
    /// first one it returns by how much this machine's clock was behind, if that is more than is left alone.
    pub fn learn(&self, sent: i64, manager: i64) -> Option<i64> {
        let received = self.machine.steady_micros();
        let sample = Sample { base: manager - (sent + received) / 2, round_trip: (received - sent).max(0) };
        let wall = self.machine.now_micros();
        let mut learned = self.learned();
        let is_first = learned.best.is_none();
        // Somebody has set the manager's clock, or another manager leads, or this machine has slept.
        if learned.best.is_some_and(|best| !best.agrees(&sample)) {
            learned.samples.clear();
        }
        learned.samples.push_back(sample);
        if learned.samples.len() > SAMPLES {
            learned.samples.pop_front();
        }
        learned.best = learned.samples.iter().min_by_key(|sample| sample.round_trip).copied();
        let behind = plane(&learned, wall, received) - wall;
        learned.tell(behind);
        (is_first && behind != 0).then_some(behind)
    }

    /// By how much this machine's clock is ahead of the manager's, in microseconds; none: that is not known yet.
    pub fn ahead(&self) -> Option<i64> {
        let wall = self.machine.now_micros();
        let steady = self.machine.steady_micros();
        self.learned().best.map(|best| wall - (best.base + steady))
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Learned {
    fn tell(&mut self, behind: i64) {
        let is_off = behind.abs() >= TOLD;
        if is_off == self.is_told {
            return;
        }
        self.is_told = is_off;
        match is_off {
            true => tracing::warn!(
                ahead_ms = -behind / 1000,
                "the clock of this machine is not that of the manager, by which its values are sent"
            ),
            false => tracing::info!("the clock of this machine is that of the manager again"),
        }
    }
}

/// The plane's time of day where this machine's clock shows `wall`.
fn plane(learned: &Learned, wall: i64, steady: i64) -> i64 {
    let Some(best) = learned.best else { return wall };
    let plane = best.base + steady;
    match (wall - plane).abs() <= AGREES.max(best.round_trip / 2) {
        true => wall,
        false => plane,
    }
}

impl Clock for PlaneClock {
    fn now_micros(&self) -> i64 {
        let wall = self.machine.now_micros();
        let steady = self.machine.steady_micros();
        plane(&self.learned(), wall, steady)
    }

    fn steady_micros(&self) -> i64 {
        self.machine.steady_micros()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    const NOON: i64 = 1_700_000_000_000_000;
    const SECOND: i64 = 1_000_000;

    /// A machine whose two clocks are turned apart from each other.
    #[derive(Default)]
    struct Machine {
        wall: AtomicI64,
        steady: AtomicI64,
    }

    impl Machine {
        fn pass(&self, micros: i64) {
            self.wall.fetch_add(micros, Ordering::Relaxed);
            self.steady.fetch_add(micros, Ordering::Relaxed);
        }

        fn step(&self, micros: i64) {
            self.wall.fetch_add(micros, Ordering::Relaxed);
        }
    }

    impl Clock for Machine {
        fn now_micros(&self) -> i64 {
            self.wall.load(Ordering::Relaxed)
        }

        fn steady_micros(&self) -> i64 {
            self.steady.load(Ordering::Relaxed)
        }
    }

    /// A machine whose clock is off by so much from a manager's, which shows noon now.
    fn off_by(micros: i64) -> (Arc<Machine>, PlaneClock) {
        let machine = Arc::new(Machine::default());
        machine.step(NOON + micros);
        let clock = PlaneClock::new(Arc::clone(&machine) as Arc<dyn Clock>);
        (machine, clock)
    }

    /// A heartbeat that takes so long there and back, to a manager whose clock shows `manager` at its beginning.
    fn beat(machine: &Machine, clock: &PlaneClock, manager: i64, there: i64, back: i64) -> Option<i64> {
        let sent = clock.steady_micros();
        machine.pass(there + back);
        clock.learn(sent, manager + there)
    }

    #[test]
    fn a_clock_that_is_off_is_corrected_to_half_of_the_round_trip() {
        for by in [-30 * SECOND, 20 * SECOND, -3_600 * SECOND] {
            let (machine, clock) = off_by(by);
            assert_eq!((clock.now_micros(), clock.ahead()), (NOON + by, None));
            assert_eq!(beat(&machine, &clock, NOON, 1_000, 1_000), Some(-by));
            assert_eq!((clock.now_micros(), clock.ahead()), (NOON + 2_000, Some(by)));
            // A slower answer, which came back late, says nothing better.
            assert_eq!(beat(&machine, &clock, NOON + 2_000, 1_000, 900_000), None);
            assert_eq!(clock.now_micros(), NOON + 903_000);
        }
    }

    #[test]
    fn a_clock_that_agrees_is_taken_to_the_letter() {
        let (machine, clock) = off_by(7);
        assert_eq!(beat(&machine, &clock, NOON, 100_000, 0), None);
        assert_eq!(clock.now_micros(), NOON + 100_007);
        // Nor does a slow network make it wrong.
        let (machine, clock) = off_by(0);
        assert_eq!(beat(&machine, &clock, NOON, 0, 2_000_000), None);
        assert_eq!(clock.now_micros(), NOON + 2_000_000);
    }

    #[test]
    fn a_step_of_this_clock_moves_no_instant() {
        let (machine, clock) = off_by(0);
        beat(&machine, &clock, NOON, 500, 500);
        machine.step(45 * SECOND);
        assert_eq!((clock.now_micros(), clock.ahead()), (NOON + 1_000, Some(45 * SECOND)));
        machine.step(-45 * SECOND);
        machine.pass(SECOND);
        assert_eq!(clock.now_micros(), NOON + 1_000 + SECOND);
    }

    #[test]
    fn a_step_of_the_managers_clock_is_followed() {
        let (machine, clock) = off_by(0);
        beat(&machine, &clock, NOON, 500, 500);
        machine.pass(SECOND);
        beat(&machine, &clock, NOON + 40 * SECOND, 5_000, 5_000);
        assert_eq!(clock.now_micros(), NOON + 40 * SECOND + 10_000);
    }
}
