//! Steps of the wall clock and changes of a zone's offset.

use chrono::DateTime;

use super::*;

const START: &str = "2026-01-01T12:00:00.250Z";

fn at(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros()
}

fn bench_at(text: &str) -> Bench {
    Bench::new(100, 100, Now { mono_us: 777_000_000, wall_us: at(text) })
}

/// The starts as times of the day, in seconds after noon.
fn after_noon(bench: &Bench, key: u64) -> Vec<f64> {
    let noon = at("2026-01-01T12:00:00Z");
    bench.walls(key).iter().map(|wall| (wall - noon) as f64 / 1e6).collect()
}

#[test]
fn cadences_on_the_monotonic_clock_do_not_feel_a_step() {
    let mut bench = bench_at(START);
    let mut plain = bench_at(START);
    for step in [3 * MINUTE, -500 * MINUTE, 1_000_000 * MINUTE, 7, -120_000] {
        for bench in [&mut bench, &mut plain] {
            bench.put_lasting(1, staggered(7 * S, 5 * S), 300 * MS);
            bench.put_lasting(2, gap(3 * S), 300 * MS);
            bench.pass(31_700 * MS);
        }
        bench.set_wall_clock_by(step);
    }
    for key in [1, 2] {
        assert_eq!(bench.starts(key), plain.starts(key));
        assert_eq!(bench.counts(key), plain.counts(key));
    }
}

#[test]
fn aligned_slots_follow_the_wall_clock_through_any_step() {
    let check = |step: i64, expected: &[f64]| {
        let mut bench = bench_at(START);
        bench.put(1, aligned(10 * S));
        // The last start before the step is at 20 s.
        bench.pass(24_750 * MS);
        assert_eq!(after_noon(&bench, 1), [0.25, 10.0, 20.0]);
        bench.runs.clear();
        bench.set_wall_clock_by(step);
        bench.pass(20 * S);
        assert_eq!(after_noon(&bench, 1), expected, "step {step}");
        assert_eq!(bench.view(1).overruns, 0);
    };
    // It is 25 s now. Forth within the interval, over one due time, over many.
    check(3_000_000, &[30.0, 40.0]);
    check(4_900_000, &[30.0, 40.0]);
    // The multiple that was passed over, 30 s, is too close to the last start, which is at 26 s now.
    check(6_000_000, &[40.0, 50.0]);
    check(60 * MINUTE, &[3_630.0, 3_640.0]);
    check(60 * MINUTE + 6_000_000, &[3_640.0, 3_650.0]);
    // Back within the interval; over the last start, so that less than half an interval would lie between; by
    // hours.
    check(-4_000_000, &[30.0, 40.0]);
    check(-8_000_000, &[20.0, 30.0]);
    check(-60 * MINUTE, &[-3_570.0, -3_560.0]);
    check(-60 * MINUTE + 4_000_000, &[-3_570.0, -3_560.0]);
    // Drift, which counts from the next due time on, and just a step.
    check(99_000, &[30.099, 40.0]);
    check(101_000, &[30.0, 40.0]);
}

#[test]
fn a_step_while_an_aligned_slot_runs_or_waits_changes_its_next_tick_alone() {
    let mut bench = Bench::new(1, 0, Now { mono_us: 0, wall_us: 250 * MS as i64 });
    bench.put_lasting(1, aligned(10 * S), 12 * S);
    bench.put_lasting(2, aligned(10 * S), 0);
    bench.pass(5 * S);
    bench.set_wall_clock_by(60 * MINUTE + 200_000);
    bench.pass(20 * S);
    // The first runs again at the multiple after its end, the second ran when the first made room.
    assert_eq!(bench.walls(1), [250_000, 3_620 * S as i64]);
    assert_eq!(bench.starts(2), [12 * S]);
    assert_eq!(bench.view(2).state, State::Waiting { since_us: 12 * S + 7_550_000 });
    assert_eq!(bench.counts(1), (2, 1));
}

#[test]
fn a_step_forth_over_calendar_times_gives_one_run() {
    let mut bench = bench_at(START);
    bench.put(1, cron("*/5 * * * *"));
    bench.pass(60 * S);
    bench.set_wall_clock_by(60 * MINUTE);
    bench.pass(300 * S);
    // From 12:01 to 13:01 lie twelve times of the calendar, of which one was run for.
    assert_eq!(after_noon(&bench, 1), [0.25, 3_660.25, 3_900.0]);
    assert_eq!(bench.counts(1), (3, 11));
    // From 1970 to today, as on a machine that had no clock when it started.
    let mut bench = Bench::wide();
    bench.put(1, cron("*/5 * * * *"));
    bench.pass(1);
    bench.set_wall_clock_by(at(START));
    bench.pass(300 * S);
    assert_eq!(after_noon(&bench, 1)[1..], [0.250001, 300.0]);
}

#[test]
fn a_step_back_fires_no_calendar_time_twice() {
    for step in [1, 4, 9, 10] {
        let mut bench = bench_at(START);
        bench.put(1, cron("*/5 * * * *"));
        bench.pass(601 * S);
        assert_eq!(after_noon(&bench, 1), [0.25, 300.0, 600.0]);
        bench.set_wall_clock_by(-step * MINUTE);
        bench.pass(900 * S);
        assert_eq!(after_noon(&bench, 1)[..4], [0.25, 300.0, 600.0, 900.0], "step of {step} minutes");
    }
}

#[test]
fn a_large_step_back_is_believed() {
    let mut bench = bench_at(START);
    bench.put(1, cron("*/5 * * * *"));
    bench.put(2, cron("0 13 * * *"));
    bench.pass(601 * S);
    bench.set_wall_clock_by(-60 * MINUTE);
    bench.pass(300 * S);
    assert_eq!(after_noon(&bench, 1), [0.25, 300.0, 600.0, -2_700.0]);
    let hours = |bench: &Bench| match bench.view(2).state {
        State::Idle { next_in_us: Some(us) } => us / (3_600 * S),
        other => panic!("{other:?}"),
    };
    assert_eq!(hours(&bench), 1);
    // Small steps that add up are one large step.
    let mut bench = bench_at(START);
    bench.put(1, cron("0 * * * *"));
    for _ in 0..2 {
        bench.pass(S);
        bench.set_wall_clock_by(-6 * MINUTE);
    }
    bench.pass(800 * S);
    assert_eq!(after_noon(&bench, 1), [0.25, 0.0]);
}

#[test]
fn another_calendar_after_a_step_back_fires_no_time_twice() {
    let mut bench = bench_at(START);
    bench.put(1, cron("*/5 * * * *"));
    bench.pass(301 * S);
    bench.set_wall_clock_by(-4 * MINUTE);
    bench.put(1, cron("0,5,10 * * * *"));
    bench.pass(900 * S);
    assert_eq!(after_noon(&bench, 1), [0.25, 300.0, 600.0]);
}

#[test]
fn a_calendar_follows_its_zone_through_both_changes_of_the_clock() {
    let check = |from: &str, text: &str, expected: &[&str]| {
        let mut bench = bench_at(from);
        bench.put(1, cron(text));
        bench.pass(49 * 3_600 * S);
        let expected: Vec<i64> = expected.iter().map(|text| at(text)).collect();
        assert_eq!(bench.walls(1)[1..], expected, "{text} from {from}");
        assert_eq!(bench.view(1).overruns, 0);
    };
    // In spring 02:30 does not exist in Berlin, in autumn it does twice.
    let spring = "2026-03-28T00:00:01Z";
    check(
        spring,
        "TZ=Europe/Berlin 30 2 * * *",
        &["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    );
    let autumn = "2026-10-24T00:00:01Z";
    check(autumn, "TZ=Europe/Berlin 30 2 * * *", &["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z"]);
    check(autumn, "30 2 * * *", &["2026-10-24T02:30:00Z", "2026-10-25T02:30:00Z"]);
    for from in [spring, autumn] {
        let mut bench = bench_at(from);
        bench.put(1, cron("TZ=Europe/Berlin */30 * * * *"));
        bench.pass(48 * 3_600 * S);
        assert!(bench.walls(1)[1..].windows(2).all(|pair| pair[1] - pair[0] == 30 * MINUTE));
        assert_eq!(bench.runs.len(), 97);
    }
}

#[test]
fn aligned_slots_of_two_nodes_run_at_the_same_instants() {
    let run = |mono_us: u64, lead: &[i64]| {
        let mut bench = Bench::new(4, 4, Now { mono_us, wall_us: at(START) });
        bench.put(1, aligned(7 * S));
        // The other node's clock was wrong and is set right.
        bench.set_wall_clock_by(lead.iter().sum());
        bench.pass(100 * S);
        bench.set_wall_clock_by(-lead.iter().sum::<i64>());
        bench.runs.clear();
        bench.pass(100 * S);
        bench.walls(1)
    };
    let one = run(0, &[]);
    assert!(one.len() >= 14);
    assert_eq!(one, run(123_456_789, &[]));
    let other = run(999, &[40_000_000, 3]);
    assert_eq!(one[1..], other[other.len() - one.len() + 1..]);
}

#[test]
fn drift_is_followed_without_a_step() {
    let mut bench = bench_at(START);
    bench.put(1, aligned(10 * S));
    for _ in 0..2_000 {
        // 500 parts in a million, as fast as a clock is ever corrected.
        bench.pass(S);
        bench.set_wall_clock_by(500);
    }
    let starts = bench.walls(1);
    assert_eq!(starts.len(), 201);
    assert!(starts[1..].iter().all(|wall| wall % (10 * S as i64) <= 6_000), "{starts:?}");
}
