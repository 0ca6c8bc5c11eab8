//! Files and lines that are too long, and what is no log at all.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::time::Instant;

use serde_json::json;

use super::{Log, tail};
use crate::{Collector, Failure};

#[test]
fn of_ten_gigabytes_only_the_end_is_read() {
    let log = Log::new();
    let mut file = File::create(&log.path).unwrap();
    file.set_len(10 << 30).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"\navg_fps=31\n").unwrap();
    let mut tail = log.tail(&[]);
    assert_eq!(tail.fps(), (json!(31), 1));
    assert!(tail.read() < 1 << 20, "{} bytes", tail.read());
    let before = tail.read();
    log.add("avg_fps=32\n");
    assert_eq!(tail.fps(), (json!(32), 2));
    assert!(tail.read() - before < 1024, "only what was added, and a little before it");
}

#[test]
fn a_search_has_a_bound_forwards_and_backwards() {
    let log = Log::with("avg_fps=1\n");
    let file = OpenOptions::new().write(true).open(&log.path).unwrap();
    file.set_len(10 << 30).unwrap();
    let mut searching = log.tail(&[("search", "1048576")]);
    assert!(searching.absent().contains("matches so far"));
    assert!(searching.read() <= (1 << 20) + 4096, "{} bytes", searching.read());

    // A file grew by far more than is read at a time: its end counts.
    let log = Log::with("avg_fps=1\n");
    let mut growing = log.tail(&[("search", "1048576")]);
    growing.ask().unwrap();
    let before = growing.read();
    let mut file = OpenOptions::new().write(true).open(&log.path).unwrap();
    file.set_len(10 << 30).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"\navg_fps=2\n").unwrap();
    assert_eq!(growing.fps(), (json!(2), 2));
    assert!(growing.read() - before <= (1 << 20) + 4096, "{} bytes", growing.read() - before);
}

#[test]
fn long_lines_are_read_and_longer_ones_passed_over() {
    let long = format!("{}avg_fps=1{}\n", "x".repeat(1 << 20), "y".repeat(1000));
    let too_long = format!("avg_fps=9{}avg_fps=9\n", "x".repeat(3 << 20));
    let log = Log::with(&format!("{long}{too_long}"));
    let mut tail = log.tail(&[]);
    assert_eq!(tail.fps(), (json!(1), 1), "backwards");
    log.add(&too_long);
    log.add(long.replace("fps=1", "fps=2"));
    assert_eq!(tail.fps(), (json!(2), 2), "forwards");
    // In pieces, none of which ends a line.
    for piece in too_long.as_bytes().chunks(1 << 20) {
        log.add(piece);
        assert_eq!(tail.fps(), (json!(2), 2));
    }
    log.add("avg_fps=3\n");
    assert_eq!(tail.fps(), (json!(3), 3));
    // One that is too long, and the end of the file, when it is first seen.
    log.add(too_long.trim_end());
    let mut fresh = log.tail(&[]);
    assert_eq!(fresh.fps(), (json!(3), 1));
    log.add("\navg_fps=4\n");
    assert_eq!(fresh.fps(), (json!(4), 2));
}

#[test]
fn junk_harms_nothing() {
    let log = Log::new();
    let junk: Vec<u8> = (0..=255).collect();
    log.add([junk.repeat(50), b"\navg_fps=7 \xff\x00\x1b[0m\n".to_vec(), junk].concat());
    let value = log.tail(&[]).ask().unwrap();
    assert_eq!(value["line"], "avg_fps=7 \u{fffd}\u{fffd}\u{fffd}[0m");
    assert_eq!(value["matched"]["fps"], 7);
}

#[test]
fn a_path_that_is_no_file_is_rejected_without_waiting() {
    let log = Log::new();
    let pipe = log.beside("pipe");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
    for (path, part) in [
        (pipe.to_str().unwrap(), "pipe"),
        ("/dev/zero", "device"),
        (log.folder.path().to_str().unwrap(), "is a directory"),
    ] {
        assert!(tail(path, &[], None).refused().contains(part), "{path}");
    }
    // A file that becomes one is refused from then on.
    log.add("avg_fps=1\n");
    let mut tail = log.tail(&[]);
    tail.ask().unwrap();
    fs::rename(&pipe, &log.path).unwrap();
    assert!(tail.refused().contains("pipe"));
}

#[test]
fn a_search_that_takes_too_long_fails_and_is_done_again() {
    let log = Log::with("avg_fps=1\n");
    let mut tail = log.tail(&[]);
    let over = tail.0.collect(Instant::now()).unwrap_err();
    assert!(matches!(over, Failure::Failed(why) if why.contains("in time")));
    assert_eq!(tail.fps(), (json!(1), 1));
    log.add("avg_fps=2\n");
    assert!(tail.0.collect(Instant::now()).is_ok(), "what is known stays");
    assert_eq!(tail.fps(), (json!(2), 2));
}
