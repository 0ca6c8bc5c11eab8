//! Numbers grow, whatever the clock and the disk do.

use std::fs;
use std::sync::Arc;

use estimand_runtime::ManualClock;

use super::files;
use crate::deliver::Sequencer;

const NOON: i64 = 1_700_000_000_000_000;
const HOUR: i64 = 3_600_000_000;

#[test]
fn numbers_grow_over_a_restart_with_the_clock_set_back() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(NOON));
    let sequencer = Sequencer::open(dir.path(), clock.clone()).unwrap();
    let first = sequencer.next();
    assert_eq!(first, NOON as u64);
    let mut last = first;
    let mut step = |sequencer: &Sequencer, turn: i64| {
        clock.advance(turn);
        let next = sequencer.next();
        assert!(next > last, "{next} after {last}");
        last = next;
    };
    for turn in [0, 0, 5, HOUR, -2 * HOUR, 30_000_000, 30_000_000, 59_000_000] {
        step(&sequencer, turn);
    }
    drop(sequencer);
    for _ in 0..3 {
        let sequencer = Sequencer::open(dir.path(), clock.clone()).unwrap();
        step(&sequencer, -HOUR);
        step(&sequencer, 1);
    }
    assert_eq!(files(dir.path()), ["sequence"]);
}

#[test]
fn the_mark_is_written_now_and_then() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(NOON));
    let sequencer = Sequencer::open(dir.path(), clock.clone()).unwrap();
    let mut marks = Vec::new();
    for _ in 0..1_200 {
        clock.advance(100_000);
        sequencer.next();
        marks.push(fs::read_to_string(dir.path().join("sequence")).unwrap());
    }
    marks.dedup();
    // Two minutes of ten numbers a second: once in about two seconds, not once a number.
    assert!((20..=70).contains(&marks.len()), "{}", marks.len());
}

#[test]
fn threads_never_get_the_same_number() {
    let dir = tempfile::tempdir().unwrap();
    let sequencer = Sequencer::open(dir.path(), Arc::new(ManualClock::at(NOON))).unwrap();
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let draw = || (0..1_000).map(|_| sequencer.next()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4_000);
}

#[test]
fn a_spoilt_mark_and_a_lost_folder_stop_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("agent");
    let clock = Arc::new(ManualClock::at(NOON));
    drop(Sequencer::open(&home, clock.clone()).unwrap());
    let right = fs::read_to_string(home.join("sequence")).unwrap();
    let forged = right.replacen("17", "99", 1);
    for spoilt in ["", "x", "99 00000000", &right[..right.len() - 4], &forged, "18446744073709551615 0"] {
        fs::write(home.join("sequence"), spoilt).unwrap();
        assert_eq!(Sequencer::open(&home, clock.clone()).unwrap().next(), NOON as u64, "{spoilt}");
    }
    let sequencer = Sequencer::open(&home, clock.clone()).unwrap();
    fs::remove_dir_all(&home).unwrap();
    let before = sequencer.next();
    clock.advance(HOUR);
    assert!(sequencer.next() > before);
    fs::create_dir(&home).unwrap();
    clock.advance(HOUR);
    let last = sequencer.next();
    clock.advance(-2 * HOUR);
    assert!(Sequencer::open(&home, clock).unwrap().next() > last);
}
