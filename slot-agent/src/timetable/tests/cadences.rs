//! The first run, the cadence after it, and what is skipped.

use super::*;

#[test]
fn the_first_run_comes_at_once_and_the_next_on_the_grid() {
    let check = |plan: Plan, expected: &[u64]| {
        let mut bench = Bench::new(4, 4, Now { mono_us: 1_300 * MS, wall_us: 1_300_000 });
        bench.put(1, plan);
        bench.pass(4 * S);
        let starts: Vec<u64> = bench.starts(1).iter().map(|at| at / MS).collect();
        assert_eq!(starts, expected);
    };
    check(every(S), &[1_300, 2_000, 3_000, 4_000, 5_000]);
    // 1.7 s would be less than half an interval later.
    check(staggered(S, 5 * S + 700_000), &[1_300, 2_700, 3_700, 4_700]);
    check(staggered(S, 800_000), &[1_300, 1_800, 2_800, 3_800, 4_800]);
    check(aligned(S), &[1_300, 2_000, 3_000, 4_000, 5_000]);
    check(gap(2 * S), &[1_300, 3_300, 5_300]);
    check(cron("*/2 * * * * *"), &[1_300, 2_000, 4_000]);
    check(Plan { takes_turn: false, ..every(S) }, &[1_300, 2_000, 3_000, 4_000, 5_000]);
}

#[test]
fn starts_do_not_drift_however_late_each_one_is() {
    let mut bench = Bench::wide();
    bench.put_lasting(1, every(S), 900 * MS);
    bench.put_lasting(2, gap(S), 100 * MS);
    for _ in 0..50 {
        // Each look comes 3 ms after it was asked for.
        bench.pass(997 * MS);
        bench.stop_for(3 * MS);
        bench.look();
    }
    let grid: Vec<u64> = bench.starts(1).iter().map(|at| at / S).collect();
    assert_eq!(grid, (0..=50).collect::<Vec<_>>());
    assert!(bench.starts(1).iter().all(|at| at % S <= 3 * MS));
    // From end to start there is nothing to drift from.
    assert!(bench.starts(2).windows(2).all(|pair| pair[1] - pair[0] >= 1_100 * MS));
    assert_eq!(bench.counts(1), (51, 0));
}

#[test]
fn ticks_during_a_run_are_skipped_and_counted() {
    let mut bench = Bench::wide();
    bench.put_lasting(1, every(S), 2_500 * MS);
    bench.put_lasting(2, aligned(S), 2_500 * MS);
    bench.put_lasting(3, cron("* * * * * *"), 2_500 * MS);
    bench.pass(2_200 * MS);
    // It is told while it happens, not only afterwards.
    for key in 1..=3 {
        assert_eq!((key, bench.counts(key)), (key, (1, 2)));
    }
    bench.pass(7_000 * MS);
    for key in 1..=3 {
        assert_eq!(bench.starts(key), [0, 3 * S, 6 * S, 9 * S]);
        assert_eq!((key, bench.counts(key)), (key, (4, 6)));
    }
}

#[test]
fn a_run_that_ends_at_its_tick_runs_again_at_it() {
    let mut bench = Bench::wide();
    bench.put_lasting(1, every(S), S);
    bench.pass(3 * S);
    assert_eq!(bench.starts(1), [0, S, 2 * S, 3 * S]);
    assert_eq!(bench.counts(1), (4, 0));
}

#[test]
fn after_a_stop_of_the_process_there_is_one_run_and_no_burst() {
    let mut bench = Bench::wide();
    bench.put(1, every(S));
    bench.put(2, aligned(S));
    bench.put(3, cron("* * * * * *"));
    bench.put(4, gap(S));
    bench.put(5, Plan { takes_turn: false, ..every(S) });
    bench.pass(S + 1);
    bench.stop_for(10_250 * MS);
    bench.pass(S);
    for key in [1, 2, 3, 5] {
        // The due times at 2 to 11 s: one run, nine skipped. An aligned one keeps its distance also from a late
        // start.
        assert_eq!((key, bench.starts(key)), (key, vec![0, S, 11_250_001, 12 * S]));
        assert_eq!((key, bench.counts(key)), (key, (4, 9)));
    }
    assert_eq!(bench.starts(4), [0, S, 11_250_001, 12_250_001]);
    assert_eq!(bench.counts(4), (4, 0));
}

#[test]
fn an_aligned_start_that_was_late_is_not_followed_within_half_an_interval() {
    let mut bench = Bench::wide();
    bench.put(1, aligned(S));
    bench.put(2, every(S));
    bench.pass(100);
    bench.stop_for(1_700 * MS);
    bench.pass(2 * S);
    assert_eq!(bench.starts(1), [0, 1_700_100, 3 * S]);
    assert_eq!(bench.starts(2), [0, 1_700_100, 2 * S, 3 * S]);
}

#[test]
fn a_calendar_begins_with_its_first_time_unless_told_otherwise() {
    let later = |text: &str| Plan { at_once: false, ..cron(text) };
    let mut bench = Bench::wide();
    bench.pass(1_300 * MS);
    bench.put(1, later("*/2 * * * * *"));
    bench.put(2, later("*/2 * * * * *"));
    bench.put(3, Plan { at_once: false, ..every(S) });
    bench.put(4, later("0 0 1 1 *"));
    bench.pass(3 * S);
    assert_eq!(bench.starts(1), [2 * S, 4 * S]);
    assert_eq!(bench.starts(3)[0], 1_300 * MS);
    assert_eq!((bench.starts(4), bench.counts(4)), (vec![], (0, 0)));
    // Put anew, it waits again, and what passed meanwhile is gone.
    bench.remove(2);
    bench.pass(2 * S);
    bench.put(2, later("*/2 * * * * *"));
    bench.pass(2 * S);
    assert_eq!(bench.starts(2), [2 * S, 4 * S, 8 * S]);
    assert_eq!(bench.counts(2), (1, 0));
    // A run out of turn is one more.
    bench.table.run_soon(Key(4), bench.now);
    bench.pass(0);
    assert_eq!(bench.starts(4).len(), 1);
}

#[test]
fn skipped_calendar_times_are_counted_to_a_bound() {
    let mut bench = Bench::wide();
    bench.put(1, cron("* * * * * *"));
    bench.stop_for(100_000 * S);
    bench.pass(S);
    assert_eq!(bench.starts(1), [0, 100_000 * S, 100_001 * S]);
    assert_eq!(bench.counts(1), (3, 100));
}

#[test]
fn a_thousand_slots_spread_over_the_interval() {
    let mut bench = Bench::new(1_000, 0, Now { mono_us: 12_345_678, wall_us: 0 });
    for key in 0..1_000 {
        bench.put(key, staggered(10 * S, key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)));
    }
    assert_eq!(bench.runs.len(), 1_000);
    bench.runs.clear();
    bench.pass(30 * S);
    let mut per_tenth = [0_u64; 100];
    for run in bench.runs.iter().filter(|run| run.mono_us >= 30 * S && run.mono_us < 40 * S) {
        per_tenth[(run.mono_us % (10 * S) / (100 * MS)) as usize] += 1;
    }
    assert_eq!(per_tenth.iter().sum::<u64>(), 1_000);
    assert!(per_tenth.iter().all(|count| (2..=25).contains(count)), "{per_tenth:?}");
    // The second run of each comes from half an interval to one and a half after the first.
    let first_ticks: BTreeMap<u64, u64> =
        bench.runs.iter().rev().map(|run| (run.key, run.mono_us - 12_345_678)).collect();
    assert!(first_ticks.values().all(|after| (5 * S..=15 * S).contains(after)));
}

#[test]
fn cadences_do_not_disturb_each_other() {
    let mut bench = Bench::wide();
    bench.put(1, every(100 * MS));
    bench.put(2, staggered(7 * S, 3));
    bench.put(3, aligned(500 * MS));
    bench.put_lasting(4, gap(300 * MS), 200 * MS);
    bench.put(5, cron("*/5 * * * * *"));
    bench.put_hanging(6, every(S));
    bench.put(7, Plan { takes_turn: false, ..every(250 * MS) });
    bench.pass(70 * S);
    let runs: Vec<u64> = (1..=7).map(|key| bench.view(key).runs).collect();
    assert_eq!(runs, [701, 10, 141, 141, 15, 1, 281]);
    assert_eq!(bench.view(6).overruns, 69);
    assert!((1..6).all(|key| bench.view(key).overruns == 0));
}

#[test]
fn it_asks_to_be_called_only_when_there_is_something() {
    let mut bench = Bench::wide();
    assert_eq!(bench.table.next_wake(bench.now), None);
    bench.put(1, every(10 * S));
    bench.pass(0);
    assert_eq!(bench.table.next_wake(bench.now), Some(10 * S));
    bench.put_hanging(2, every(1));
    bench.wakes = 0;
    bench.pass(100 * S - 1);
    assert!(bench.wakes < 25, "{} wakes", bench.wakes);
    bench.put(3, every(10_000 * S));
    bench.remove(1);
    assert_eq!(bench.table.next_wake(bench.now), Some(bench.now.mono_us + 60 * S));
    // A step of the wall clock must be noticed.
    bench.put(3, aligned(10_000 * S));
    assert_eq!(bench.table.next_wake(bench.now), Some(bench.now.mono_us + S));
    bench.put(3, gap(10_000 * S));
    assert_eq!(bench.table.next_wake(bench.now), Some(bench.now.mono_us + 60 * S));
}

#[test]
fn absurd_times_neither_panic_nor_hang() {
    for at in [0, 1, u64::MAX / 2, u64::MAX] {
        for wall_us in [i64::MIN, -1, 0, i64::MAX] {
            for interval in [0, 1, u64::MAX] {
                let mut table = Timetable::new(0, 0);
                let plans =
                    [every(interval), staggered(interval, u64::MAX), aligned(interval), gap(interval)];
                for (key, plan) in plans.into_iter().chain([cron("0 0 29 2 *")]).enumerate() {
                    let now = Now { mono_us: at, wall_us };
                    table.put(Key(key as u64), plan, now);
                    table.start(now);
                    table.next_wake(Now { mono_us: at, wall_us: 0 });
                    table.run_soon(Key(key as u64), now);
                    table.ended(Key(key as u64), now);
                    table.start(Now { mono_us: u64::MAX, wall_us: i64::MAX });
                }
            }
        }
    }
}
