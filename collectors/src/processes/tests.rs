#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// The file of a process.
fn stat(pid: u32, name: &str, state: char, ticks: u64, started: u64, pages: i64) -> String {
    format!(
        "{pid} ({name}) {state} 1 1 1 0 -1 4194560 1 2 3 4 {ticks} 0 0 0 20 0 3 0 {started} 169697280 {pages} 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n"
    )
}

#[test]
fn names_can_be_anything() {
    for name in ["sh", "tmux: server", "(sd-pam)", "a) R 1 (b", "x\ny", ")", ""] {
        let process = parse(stat(7, name, 'S', 5, 99, 12).as_bytes()).unwrap();
        let expected =
            Process { name: name.to_owned(), state: b'S', threads: 3, ticks: 5, started: 99, pages: 12 };
        assert_eq!(process, expected, "{name:?}");
    }
    let mut binary = stat(7, "x", 'Z', 1, 2, 3).into_bytes();
    binary[3] = 0xff;
    assert_eq!(parse(&binary).unwrap().name, "\u{fffd}");
}

#[test]
fn a_truncated_line_is_no_process() {
    let whole = stat(7, "sh", 'S', 5, 99, 12);
    let end = whole.find(" 12 18446744073709551615").unwrap();
    for length in 0..=end {
        assert_eq!(parse(&whole.as_bytes()[..length]), None, "{length}");
    }
}

fn sample(processes: &[(u32, u64, u64, i64)]) -> Sample {
    let mut sample = Sample::default();
    for (pid, started, ticks, pages) in processes {
        let process =
            parse(stat(*pid, &format!("p{pid}"), 'S', *ticks, *started, *pages).as_bytes()).unwrap();
        sample.processes.insert(Identity { pid: *pid, started: *started }, process);
    }
    sample
}

#[test]
fn the_busiest_are_compared_with_themselves_alone() {
    let before = sample(&[(1, 1, 100, 10), (2, 1, 0, 30), (3, 1, 0, 5)]);
    // The third ended, and a new process has its number.
    let now = sample(&[(1, 1, 250, 10), (2, 1, 50, 30), (3, 900, 4000, -1)]);
    let pair = Pair { before: &before, now: &now, elapsed: Duration::from_secs(1) };
    let top = busiest(&pair, 2, Units { page_bytes: 4096, ticks_per_second: 100.0 });
    let expected = json!({
        "byCpu": [
            {"pid": 1, "name": "p1", "cpuCores": 1.5, "memoryBytes": 40960},
            {"pid": 2, "name": "p2", "cpuCores": 0.5, "memoryBytes": 122_880},
        ],
        "byMemory": [
            {"pid": 2, "name": "p2", "cpuCores": 0.5, "memoryBytes": 122_880},
            {"pid": 1, "name": "p1", "cpuCores": 1.5, "memoryBytes": 40960},
        ],
    });
    assert_eq!(top, expected);
}

#[test]
fn a_machine_is_counted() {
    let machine = tempfile::tempdir().unwrap();
    let proc = machine.path();
    for (pid, state) in [(1, 'S'), (2, 'I'), (30, 'R'), (31, 'D'), (32, 'Z'), (33, 't'), (34, 'P')] {
        fs::create_dir(proc.join(pid.to_string())).unwrap();
        fs::write(proc.join(pid.to_string()).join("stat"), stat(pid, "x y", state, 1, 1, 1)).unwrap();
    }
    // It ended while the folder was listed.
    fs::create_dir(proc.join("35")).unwrap();
    fs::create_dir_all(proc.join("sys/kernel")).unwrap();
    fs::write(proc.join("sys/kernel/pid_max"), "4194304\n").unwrap();
    fs::write(proc.join("stat"), include_str!("../../fixtures/stat-before")).unwrap();
    let around =
        Surroundings { roots: Roots { proc: proc.into(), ..Roots::default() }, ..Surroundings::default() };
    let mut processes = crate::make(&KIND, &BTreeMap::new(), &around).unwrap();
    let Reading::Here(value) = processes.collect(Instant::now() + Duration::from_secs(5)).unwrap() else {
        panic!()
    };
    let expected = json!({
        "total": 7, "threads": 21, "running": 3, "blocked": 0, "forksPerSecond": 0.0,
        "pidMax": 4_194_304, "threadsMax": null,
        "states": {"running": 1, "sleeping": 1, "waiting": 1, "idle": 1, "stopped": 1, "zombie": 1, "other": 1},
    });
    assert_eq!(value, expected);
}

#[test]
fn how_many_are_named_is_bounded() {
    for (top, good) in [("0", true), ("50", true), ("51", false), ("-1", false), ("1.5", false)] {
        let params = BTreeMap::from([("top".to_owned(), json!(top))]);
        assert_eq!(crate::make(&KIND, &params, &Surroundings::default()).is_ok(), good, "{top}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..100), text in "[0-9]{1,5} \\(.{0,9}\\)? [RSDZTtI]( -?[0-9]{0,21}){0,25}") {
        parse(&bytes);
        parse(text.as_bytes());
        crate::files::word(&text, "processes");
    }
}
