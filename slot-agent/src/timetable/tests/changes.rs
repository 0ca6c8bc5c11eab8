//! Changes of a plan, removals and runs out of turn, in each of a slot's stages.

use super::*;

#[test]
fn the_same_plan_again_changes_nothing() {
    let mut bench = Bench::wide();
    for key in 1..=4 {
        bench.lasts.insert(key, Some(400 * MS));
    }
    for _ in 0..100 {
        for (key, plan) in [every(S), aligned(S), gap(S), cron("* * * * * *")].into_iter().enumerate() {
            bench.put(key as u64 + 1, plan);
        }
        bench.pass(70 * MS);
    }
    for key in [1, 2, 4] {
        assert_eq!(bench.starts(key), (0..=7).map(|n| n * S).collect::<Vec<_>>());
    }
    assert_eq!(bench.starts(3), [0, 1_400 * MS, 2_800 * MS, 4_200 * MS, 5_600 * MS, 7_000 * MS]);
}

#[test]
fn a_change_while_idle_counts_at_once() {
    let check = |from: Plan, to: Plan, expected: &[u64]| {
        let mut bench = Bench::wide();
        bench.put_lasting(1, from, 100 * MS);
        bench.pass(12 * S);
        bench.put(1, to);
        bench.pass(20 * S);
        let starts: Vec<u64> = bench.starts(1).iter().map(|at| at / MS).collect();
        assert_eq!(starts, expected);
    };
    check(every(10 * S), every(5 * S), &[0, 10_000, 15_000, 20_000, 25_000, 30_000]);
    check(every(10 * S), every(3 * S), &[0, 10_000, 12_000, 15_000, 18_000, 21_000, 24_000, 27_000, 30_000]);
    check(every(10 * S), every(40 * S), &[0, 10_000]);
    check(every(10 * S), every(30 * S), &[0, 10_000, 30_000]);
    // It ran two seconds ago: a grid that has a point in one second waits for the point after it.
    check(every(10 * S), staggered(10 * S, 3 * S), &[0, 10_000, 23_000]);
    check(every(10 * S), aligned(16 * S), &[0, 10_000, 32_000]);
    check(every(10 * S), gap(5 * S), &[0, 10_000, 15_100, 20_200, 25_300, 30_400]);
    // The end was longer ago than the gap.
    check(
        every(10 * S),
        gap(1_800 * MS),
        &[0, 10_000, 12_000, 13_900, 15_800, 17_700, 19_600, 21_500, 23_400, 25_300, 27_200, 29_100, 31_000],
    );
}

#[test]
fn from_a_gap_and_from_a_calendar_and_back() {
    let mut bench = Bench::wide();
    bench.put_lasting(1, gap(20 * S), 100 * MS);
    bench.pass(12 * S);
    bench.put(1, cron("*/5 * * * * *"));
    bench.pass(4 * S);
    bench.put(1, cron("*/7 * * * * *"));
    bench.pass(6 * S);
    bench.put(1, every(10 * S));
    bench.pass(20 * S);
    assert_eq!(bench.starts(1), [0, 15 * S, 21 * S, 30 * S, 40 * S]);
    assert_eq!(bench.counts(1), (5, 0));
}

#[test]
fn a_change_while_running_neither_starts_nor_loses_a_run() {
    let mut bench = Bench::wide();
    bench.put_lasting(1, every(10 * S), 4 * S);
    bench.pass(11 * S);
    bench.put(1, every(3 * S));
    // The grid has points at 12, which is in the run, and at 15.
    assert_eq!(bench.view(1).state, State::Running { since_us: 10 * S });
    bench.pass(8 * S);
    assert_eq!(bench.starts(1), [0, 10 * S, 15 * S]);
    assert_eq!(bench.counts(1), (3, 2));
    bench.put_lasting(1, gap(3 * S), 2 * S);
    bench.pass(10 * S);
    assert_eq!(bench.starts(1)[3..], [22 * S, 27 * S]);
}

#[test]
fn a_change_while_waiting_keeps_the_place() {
    let mut bench = Bench::new(1, 0, Now { mono_us: 0, wall_us: 0 });
    bench.put_hanging(1, every(S));
    bench.put(2, every(S));
    bench.put(3, every(S));
    bench.pass(2_500 * MS);
    assert_eq!(bench.view(2).state, State::Waiting { since_us: 0 });
    assert_eq!(bench.counts(2), (0, 2));
    bench.put(2, every(10 * S));
    assert_eq!(bench.view(2).state, State::Waiting { since_us: 0 });
    bench.lasts.clear();
    bench.end(1);
    bench.pass(0);
    assert_eq!(bench.runs.iter().map(|run| run.key).collect::<Vec<_>>(), [1, 2, 3]);
    bench.pass(10 * S);
    assert_eq!(bench.starts(2), [2_500 * MS, 10 * S]);
    assert_eq!(bench.counts(2), (2, 2));
}

#[test]
fn removed_while_idle_it_is_gone() {
    let mut bench = Bench::wide();
    bench.put(1, every(S));
    bench.pass(500 * MS);
    bench.remove(1);
    bench.pass(5 * S);
    assert_eq!(bench.starts(1), [0]);
    assert_eq!(bench.table.view(Key(1), bench.now), None);
    assert_eq!(bench.table.next_wake(bench.now), None);
    bench.put(1, every(S));
    assert_eq!(bench.starts(1), [0, 5_500 * MS]);
    assert_eq!(bench.counts(1), (1, 0));
}

#[test]
fn removed_while_waiting_it_never_runs() {
    let mut bench = Bench::new(1, 0, Now { mono_us: 0, wall_us: 0 });
    bench.put_hanging(1, every(S));
    bench.put(2, every(S));
    bench.remove(2);
    assert_eq!(bench.table.view(Key(2), bench.now), None);
    bench.end(1);
    assert_eq!(bench.runs.len(), 1);
    bench.put(2, every(S));
    assert_eq!(bench.starts(2), [0]);
}

#[test]
fn removed_while_running_it_keeps_its_turn_until_it_has_ended() {
    let mut bench = Bench::new(1, 0, Now { mono_us: 0, wall_us: 0 });
    bench.put_hanging(1, every(S));
    bench.put(2, every(S));
    bench.pass(3_500 * MS);
    bench.remove(1);
    bench.pass(S);
    assert_eq!(bench.view(1).state, State::Running { since_us: 0 });
    assert!(bench.starts(2).is_empty());
    bench.end(1);
    assert_eq!(bench.table.view(Key(1), bench.now), None);
    assert_eq!(bench.starts(2), [4_500 * MS]);
    // A second end is not a second turn.
    bench.table.ended(Key(1), bench.now);
    bench.put_hanging(3, every(S));
    bench.pass(5 * S);
    assert!(bench.running() <= 1);
}

#[test]
fn put_again_while_the_old_run_goes_on_it_begins_when_that_has_ended() {
    let mut bench = Bench::wide();
    bench.put_hanging(1, every(S));
    bench.pass(5_500 * MS);
    assert_eq!(bench.counts(1), (1, 5));
    bench.remove(1);
    bench.put_lasting(1, every(2 * S), 0);
    bench.pass(S);
    assert_eq!(bench.starts(1), [0]);
    // The run that goes on is not its own.
    assert_eq!(bench.view(1), View { state: State::Running { since_us: 0 }, overruns: 0, runs: 0 });
    bench.end(1);
    bench.pass(4 * S);
    assert_eq!(bench.starts(1), [0, 6_500 * MS, 8 * S, 10 * S]);
    assert_eq!(bench.counts(1), (3, 0));
    // And once more removed before that.
    bench.put_hanging(2, every(S));
    bench.remove(2);
    bench.put(2, every(S));
    bench.remove(2);
    bench.end(2);
    assert_eq!(bench.table.view(Key(2), bench.now), None);
}

#[test]
fn run_soon_runs_once_and_the_cadence_goes_on() {
    let check = |plan: Plan, expected: &[u64]| {
        let mut bench = Bench::wide();
        bench.put_lasting(1, plan, 100 * MS);
        bench.pass(12 * S);
        bench.table.run_soon(Key(1), bench.now);
        bench.look();
        bench.pass(20 * S);
        let starts: Vec<u64> = bench.starts(1).iter().map(|at| at / MS).collect();
        assert_eq!(starts, expected);
        assert_eq!(bench.view(1).overruns, 0);
    };
    check(every(10 * S), &[0, 10_000, 12_000, 20_000, 30_000]);
    // 15 s is less than half an interval after.
    check(staggered(10 * S, 5 * S), &[0, 5_000, 12_000, 25_000]);
    check(aligned(10 * S), &[0, 10_000, 12_000, 20_000, 30_000]);
    check(gap(14 * S), &[0, 12_000, 26_100]);
    check(cron("*/15 * * * * *"), &[0, 12_000, 15_000, 30_000]);
}

#[test]
fn run_soon_while_running_runs_once_more_after() {
    let mut bench = Bench::new(1, 0, Now { mono_us: 0, wall_us: 0 });
    bench.put_lasting(1, every(10 * S), 2 * S);
    bench.put(2, every(10 * S));
    bench.pass(S);
    for _ in 0..3 {
        bench.table.run_soon(Key(1), bench.now);
        bench.table.run_soon(Key(2), bench.now);
    }
    bench.table.run_soon(Key(9), bench.now);
    bench.pass(7 * S);
    assert_eq!(bench.starts(1), [0, 2 * S]);
    assert_eq!(bench.starts(2), [2 * S]);
    assert_eq!(bench.runs.iter().map(|run| run.key).collect::<Vec<_>>(), [1, 2, 1]);
}
