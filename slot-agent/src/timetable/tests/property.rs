//! The timetable against the model, through random lives of a few slots.

use proptest::prelude::*;

use super::model::{Model, Pace, QUANTUM, SlotActivity};
use super::*;

const KEYS: u64 = 6;

#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u64, Pace, bool),
    RunSoon(u64),
    Remove(u64),
    End(u64),
    /// Time passes and the timetable is asked at every quantum.
    Pass(u64),
    /// Time passes and nobody looks.
    Stop(u64),
    /// The wall clock is set by that many quanta.
    Step(i64),
}

fn pace() -> impl Strategy<Value = Pace> {
    let span = prop_oneof![1..8_u64, 8..60_u64].prop_map(|quanta| quanta * QUANTUM);
    let span = move || span.clone();
    prop_oneof![
        (span(), 0..90_u64)
            .prop_map(|(interval, shift)| Pace::Staggered { interval, offset: shift * QUANTUM }),
        span().prop_map(|interval| Pace::Aligned { interval }),
        span().prop_map(|gap| Pace::Gap { gap }),
        prop_oneof![Just(1_u64), Just(2), Just(5)].prop_map(|period| Pace::Calendar { period: period * S }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let key = || 0..KEYS;
    prop_oneof![
        4 => (key(), pace(), prop::bool::weighted(0.85)).prop_map(|(key, pace, turn)| Act::Put(key, pace, turn)),
        1 => key().prop_map(Act::RunSoon),
        1 => key().prop_map(Act::Remove),
        8 => key().prop_map(Act::End),
        8 => (1..30_u64).prop_map(Act::Pass),
        1 => (1..60_u64).prop_map(Act::Stop),
        1 => prop_oneof![-40..40_i64, -400..400_i64, -30_000..100_i64].prop_map(Act::Step),
    ]
}

fn plan(pace: Pace, takes_turn: bool) -> Plan {
    let plan = match pace {
        Pace::Staggered { interval, offset } => staggered(interval, offset),
        Pace::Aligned { interval } => aligned(interval),
        Pace::Gap { gap: us } => gap(us),
        Pace::Calendar { period } => cron(&format!("*/{} * * * * *", period / S)),
    };
    Plan { takes_turn, ..plan }
}

struct Pair {
    table: Timetable,
    model: Model,
    turns: [usize; 2],
    going_on: BTreeSet<u64>,
    turnless: BTreeSet<u64>,
}

impl Pair {
    fn now(&self) -> Now {
        Now { mono_us: self.model.mono, wall_us: self.model.wall }
    }

    /// Starts what is to be started, in both; returns how many there were.
    fn start(&mut self) -> usize {
        let expected = self.model.start();
        let started: Vec<(u64, u64)> =
            self.table.start(self.now()).iter().map(|start| (start.key.0, start.due_mono_us)).collect();
        assert_eq!(started, expected, "at {:?}", self.now());
        for (key, _) in &started {
            assert!(!self.going_on.contains(key), "{key} runs twice");
            if !self.turnless.contains(key) {
                self.going_on.insert(*key);
            }
        }
        assert!(self.going_on.len() <= self.turns.iter().sum::<usize>(), "turns exceeded");
        assert!(!self.model.someone_waits_in_vain());
        self.compare();
        started.len()
    }

    fn compare(&self) {
        for key in 0..KEYS {
            let view = self.table.view(Key(key), self.now());
            let slot = self.model.slots.get(&key);
            assert_eq!(view.is_some(), slot.is_some(), "{key}");
            let (Some(view), Some(slot)) = (view, slot) else { continue };
            match (view.state, slot.doing) {
                (State::Idle { .. }, SlotActivity::Idle) => {}
                (State::Waiting { since_us }, SlotActivity::Waiting) => assert_eq!(since_us, slot.anchor),
                (State::Running { since_us }, SlotActivity::Running) => assert_eq!(since_us, slot.anchor),
                other => panic!("{key}: {other:?} at {:?}", self.now()),
            }
            if !slot.is_removed() {
                assert_eq!(
                    (view.runs, view.overruns),
                    (slot.runs, slot.overruns),
                    "{key} at {:?}",
                    self.now()
                );
            }
        }
    }

    /// Lets time pass; whatever starts must have been announced.
    fn pass(&mut self, quanta: u64) {
        let mut wake = self.table.next_wake(self.now());
        for _ in 0..quanta {
            self.model.pass_quantum();
            let is_announced = wake.is_some_and(|at| at <= self.model.mono);
            // A look at a time that nobody asked for finds nothing, and does no harm.
            let count = self.start();
            assert!(count == 0 || is_announced, "{count} starts at {:?} before {wake:?}", self.now());
            wake = self.table.next_wake(self.now());
            assert_eq!(self.table.next_wake(self.now()), wake);
            assert!(wake.is_none_or(|at| at > self.model.mono), "it would be asked for ever");
        }
    }

    fn act(&mut self, act: Act) {
        let now = self.now();
        match act {
            Act::Put(key, pace, takes_turn) => {
                match takes_turn {
                    true => self.turnless.remove(&key),
                    false => self.turnless.insert(key),
                };
                self.table.put(Key(key), plan(pace, takes_turn), now);
                self.model.put(key, pace, takes_turn);
            }
            Act::RunSoon(key) => {
                self.table.run_soon(Key(key), now);
                self.model.run_soon(key);
            }
            Act::Remove(key) => {
                self.table.remove(Key(key));
                self.model.remove(key);
            }
            Act::End(key) => {
                self.table.ended(Key(key), now);
                self.model.ended(key);
                self.going_on.remove(&key);
            }
            Act::Pass(quanta) => self.pass(quanta),
            Act::Stop(quanta) => (0..quanta).for_each(|_| self.model.pass_quantum()),
            Act::Step(quanta) if quanta.abs() > 2 => self.model.step(quanta * QUANTUM as i64),
            Act::Step(_) => {}
        }
        self.start();
    }
}

/// When nothing holds turns any more, each slot runs again.
fn settle(pair: &mut Pair) {
    let before: Vec<u64> =
        (0..KEYS).map(|key| pair.model.slots.get(&key).map_or(0, |slot| slot.runs)).collect();
    for _ in 0..400 {
        for key in std::mem::take(&mut pair.going_on) {
            pair.act(Act::End(key));
        }
        pair.pass(1);
    }
    for (key, slot) in &pair.model.slots {
        // A calendar may wait for the wall clock to catch up.
        assert!(slot.runs > before[*key as usize] || slot.has_calendar(), "{key} does not run any more");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn it_does_what_the_model_does(
        turns in 1..4_usize,
        long_turns in 0..3_usize,
        mono in 0..100_u64,
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let (mono, wall) = (mono * QUANTUM, 1_800_000_000_000_000);
        let mut pair = Pair {
            table: Timetable::new(turns, long_turns),
            model: Model::new(turns, long_turns, mono, wall),
            turns: [turns, long_turns],
            going_on: BTreeSet::new(),
            turnless: BTreeSet::new(),
        };
        pair.start();
        for act in acts {
            pair.act(act);
        }
        settle(&mut pair);
    }
}
