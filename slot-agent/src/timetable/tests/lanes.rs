//! Turns: fairness, and that what is slow or hangs takes nothing from what is quick.

use super::*;

fn start() -> Now {
    Now { mono_us: 0, wall_us: 0 }
}

#[test]
fn with_one_turn_everyone_gets_one_in_the_order_of_falling_due() {
    let mut bench = Bench::new(1, 0, start());
    for key in 1..=5 {
        bench.put_lasting(key, gap(0), 10 * MS);
    }
    bench.pass(S);
    let order: Vec<u64> = bench.runs.iter().map(|run| run.key).collect();
    // A slot that has just run is behind all that wait, every time.
    assert!(order.chunks(5).all(|round| round == &[1, 2, 3, 4, 5][..round.len()]), "{order:?}");
    assert_eq!(order.len(), 101);
}

#[test]
fn with_one_turn_a_slow_one_does_not_starve_quick_ones() {
    let mut bench = Bench::new(1, 0, start());
    bench.put_lasting(1, every(S), 900 * MS);
    for key in 2..=5 {
        bench.put_lasting(key, staggered(S, key * 200 * MS), 10 * MS);
    }
    bench.pass(100 * S);
    for key in 2..=5 {
        let starts = bench.starts(key);
        assert!(starts.len() >= 98, "{key} ran {} times", starts.len());
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] <= 2 * S));
    }
    assert!(bench.starts(1).len() >= 45);
    // All that was waited is told.
    assert!(bench.runs.iter().any(|run| run.waited_us > 500 * MS));
    for key in 1..=5 {
        let (runs, overruns) = bench.counts(key);
        assert!((99..=101).contains(&(runs + overruns)), "{key}: {runs} + {overruns}");
    }
}

#[test]
fn twenty_that_hang_take_nothing_from_fifty_quick_ones() {
    const TIMEOUT: u64 = 30 * S;
    for (long_turns, settled) in [(20, 0), (8, 120 * S)] {
        let mut bench = Bench::new(8, long_turns, start());
        for key in 0..70 {
            // The hanging ones come first, which is worst.
            let lasts = if key < 20 { TIMEOUT } else { 20 * MS };
            bench.put_lasting(key, staggered(S, key * 37 * MS), lasts);
        }
        bench.pass(settled);
        let before: Vec<u64> = (0..70).map(|key| bench.view(key).runs).collect();
        bench.runs.clear();
        bench.pass(120 * S);
        for key in 20..70 {
            let runs = bench.view(key).runs - before[key as usize];
            // With a long turn for each one that hangs, the quick ones wait for two seconds in the beginning.
            assert!(runs >= if settled > 0 { 120 } else { 118 }, "{key} ran {runs} times in 120 s");
        }
        let late = bench.runs.iter().filter(|run| run.key >= 20 && run.mono_us > settled + 4 * S);
        assert_eq!(late.filter(|run| run.waited_us > 100 * MS).count(), 0);
        // And the hanging ones have their share: long turns are never idle while one waits.
        let hung: u64 = (0..20).map(|key| bench.view(key).runs - before[key as usize]).sum();
        assert!(hung >= (long_turns.min(20) as u64) * 3, "{hung}");
    }
}

#[test]
fn a_long_run_gives_its_turn_to_who_waits() {
    let mut bench = Bench::new(1, 1, start());
    bench.put_hanging(1, every(100 * S));
    bench.put_hanging(2, every(100 * S));
    bench.put(3, every(100 * S));
    bench.pass(10 * S);
    // The first went over to the long turn after a second; the second has none to go to and keeps its own.
    assert_eq!(bench.runs.iter().map(|run| (run.key, run.mono_us)).collect::<Vec<_>>(), [(1, 0), (2, S)]);
    assert_eq!(bench.view(3).state, State::Waiting { since_us: 0 });
    bench.end(1);
    assert_eq!(bench.starts(3), [10 * S]);
    bench.pass(0);
    bench.end(2);
    bench.lasts.clear();
    // Both were long, so now they wait for the long turn, one after the other, and in the order of falling due.
    bench.runs.clear();
    bench.put_hanging(4, every(100 * S));
    bench.pass(60 * S);
    bench.table.run_soon(Key(2), bench.now);
    bench.table.run_soon(Key(1), bench.now);
    bench.look();
    assert_eq!(bench.view(1).state, State::Waiting { since_us: 70 * S });
    assert_eq!(bench.view(2).state, State::Waiting { since_us: 70 * S });
    bench.end(4);
    bench.pass(0);
    assert_eq!(bench.runs[1..].iter().map(|run| run.key).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn one_that_was_long_and_is_quick_again_gets_a_quick_turn() {
    let mut bench = Bench::new(1, 1, start());
    bench.put_lasting(1, gap(S), 2 * S);
    bench.pass(2_500 * MS);
    bench.lasts.insert(1, Some(10 * MS));
    bench.pass(S);
    bench.put_hanging(2, every(100 * S));
    bench.pass(10 * S);
    // The first may use the turn that the second has left for the long one.
    assert!(bench.starts(1).len() > 8, "{:?}", bench.starts(1));
}

#[test]
fn a_plan_that_takes_no_turn_does_not_wait_for_one() {
    let mut bench = Bench::new(1, 0, start());
    bench.put_hanging(1, every(S));
    bench.put(2, Plan { takes_turn: false, ..every(S) });
    bench.put(3, every(S));
    bench.pass(3 * S);
    assert_eq!(bench.starts(2), [0, S, 2 * S, 3 * S]);
    assert!(matches!(bench.view(2).state, State::Idle { .. }));
    // Nor does what waits for one, once it needs none.
    bench.put(3, Plan { takes_turn: false, ..every(S) });
    assert_eq!(bench.starts(3), [3 * S]);
    bench.put(2, every(S));
    bench.pass(S);
    assert_eq!(bench.view(2).state, State::Waiting { since_us: 4 * S });
}

/// If a look at the clock went through all slots, this would take minutes.
#[test]
fn ten_thousand_slots_get_their_ticks() {
    let mut bench = Bench::new(64, 64, start());
    for key in 0..10_000 {
        bench.put(key, staggered(10 * S, key * S / 1_000));
    }
    bench.pass(20 * S);
    assert!(bench.runs.len() >= 25_000);
    for _ in 0..900 {
        bench.stop_for(1);
        assert_eq!(bench.table.start(bench.now), []);
    }
}
