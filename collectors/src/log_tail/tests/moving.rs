//! Files that are renamed, cut off, replaced, deleted and switched, and collectors that start again.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{Log, add, tail};

#[test]
fn a_file_that_comes_and_goes() {
    let log = Log::new();
    let mut tail = log.tail(&[]);
    assert!(tail.absent().starts_with("there is no "));
    log.add("nothing\n");
    assert!(tail.absent().contains("matches so far"));
    log.add("avg_fps=1\navg_fps=2\n");
    assert_eq!(tail.fps(), (json!(2), 2));
    log.add("avg_fps=3\n");
    fs::remove_file(&log.path).unwrap();
    let value = tail.ask().unwrap();
    assert_eq!((&value["matched"]["fps"], &value["gone"]), (&json!(3), &json!(true)), "read to its end");
    assert!(tail.0.follower.place().is_none(), "a deleted file is let go");
    assert_eq!(tail.fps(), (json!(3), 3));
    log.add("avg_fps=4\n");
    let value = tail.ask().unwrap();
    assert_eq!((&value["count"], value.get("gone")), (&json!(4), None));
}

#[test]
fn all_of_a_file_that_was_waited_for_is_news() {
    let log = Log::new();
    let mut tail = log.tail(&[]);
    tail.absent();
    log.add("avg_fps=1\navg_fps=2\n");
    assert_eq!(tail.fps(), (json!(2), 2));
}

#[test]
fn another_file_under_the_number_of_the_old_one_is_not_read() {
    let log = Log::with("avg_fps=1\n");
    log.lasting(&[]).ask().unwrap();
    let other = log.beside("other.txt");
    fs::write(&other, "avg_fps=9\navg_fps=9\n").unwrap();
    let state = log.beside("state/log_tail.json");
    let number = |path| fs::metadata(path).unwrap().ino();
    let kept = fs::read_to_string(&state).unwrap();
    fs::write(&state, kept.replace(&number(&log.path).to_string(), &number(&other).to_string())).unwrap();
    fs::remove_file(&log.path).unwrap();
    assert_eq!(log.lasting(&[]).fps(), (json!(1), 1));
}

#[test]
fn a_renamed_file_is_read_to_its_end_before_the_new_one() {
    let log = Log::with("avg_fps=1\n");
    let mut tail = log.tail(&[("lines", "9")]);
    tail.ask().unwrap();
    log.add("avg_fps=2\n");
    log.rename("worker.log.1");
    File::create(&log.path).unwrap();
    assert_eq!(tail.fps(), (json!(2), 2));
    // The writer still has the old one open, and only then opens the new one.
    add(&log.beside("worker.log.1"), "avg_fps=3\navg_fps=4");
    log.add("avg_fps=5\n");
    let value = tail.ask().unwrap();
    let lines: Vec<&str> =
        value["matches"].as_array().unwrap().iter().map(|one| one["line"].as_str().unwrap()).collect();
    assert_eq!(lines, ["avg_fps=1", "avg_fps=2", "avg_fps=3", "avg_fps=4", "avg_fps=5"]);
    assert_eq!(tail.fps(), (json!(5), 5));
}

#[test]
fn a_truncated_file_is_read_from_its_beginning() {
    let log = Log::with("avg_fps=1\navg_fps=2\n");
    let mut tail = log.tail(&[]);
    tail.ask().unwrap();
    fs::write(&log.path, "avg_fps=3\n").unwrap();
    assert_eq!(tail.fps(), (json!(3), 2));
    // Also when there is more in it by now than there was.
    fs::write(&log.path, "avg_fps=4\navg_fps=5\navg_fps=6\n").unwrap();
    assert_eq!(tail.fps(), (json!(6), 5));
    fs::write(&log.path, "").unwrap();
    assert_eq!(tail.fps(), (json!(6), 5));
    log.add("avg_fps=7\n");
    assert_eq!(tail.fps(), (json!(7), 6));
}

#[test]
fn a_link_that_is_switched_repeats_nothing() {
    let log = Log::new();
    let point_to = |name: &str| {
        let new = log.beside("new");
        std::os::unix::fs::symlink(log.beside(name), &new).unwrap();
        fs::rename(&new, &log.path).unwrap();
    };
    add(&log.beside("a"), "avg_fps=1\n");
    add(&log.beside("b"), "avg_fps=2\navg_fps=3\n");
    point_to("a");
    let mut tail = log.tail(&[]);
    assert_eq!(tail.fps(), (json!(1), 1));
    point_to("b");
    assert_eq!(tail.fps(), (json!(3), 3));
    point_to("a");
    assert_eq!(tail.fps(), (json!(3), 3));
    add(&log.beside("a"), "avg_fps=4\n");
    assert_eq!(tail.fps(), (json!(4), 4));
    point_to("nowhere");
    assert_eq!(tail.ask().unwrap()["gone"], true);
    point_to("b");
    assert_eq!(tail.fps(), (json!(4), 4));
}

#[test]
fn the_newest_of_several_is_followed() {
    let log = Log::new();
    let written = |name: &str, second: u64, text: &str| {
        add(&log.beside(name), text);
        let file = OpenOptions::new().append(true).open(log.beside(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second)).unwrap();
    };
    written("run-1.log", 1, "avg_fps=1\n");
    written("run-2.log", 2, "avg_fps=2\n");
    written("other.log", 9, "avg_fps=9\n");
    fs::create_dir(log.beside("run-3.log")).unwrap();
    let mut tail = tail(log.beside("run-?.log").to_str().unwrap(), &[], None);
    assert_eq!(tail.fps(), (json!(2), 1));
    written("run-1.log", 3, "avg_fps=3\n");
    assert_eq!(tail.fps(), (json!(3), 3), "all of a file that was not read before");
    written("run-2.log", 4, "avg_fps=4\n");
    assert_eq!(tail.fps(), (json!(4), 4));
    written("run-1.log", 5, "avg_fps=5\n");
    assert_eq!(tail.fps(), (json!(5), 5));
}

#[test]
fn a_restart_neither_loses_nor_repeats() {
    let log = Log::with("avg_fps=1\n");
    let lines = [("lines", "9")];
    assert_eq!(log.lasting(&lines).fps(), (json!(1), 1));
    assert_eq!(log.lasting(&lines).fps(), (json!(1), 1));
    log.add("avg_fps=2\navg_");
    let value = log.lasting(&lines).ask().unwrap();
    assert_eq!((&value["count"], value["matches"].as_array().unwrap().len()), (&json!(2), 2));
    // Rotated while nobody looked: the rest of the old one is still read.
    log.add("fps=3\n");
    log.rename("worker.log.1");
    log.add("avg_fps=4\n");
    assert_eq!(log.lasting(&lines).fps(), (json!(4), 4));
    // Rotated, and the old one is gone: what is there is read.
    log.add("avg_fps=5\n");
    fs::remove_file(&log.path).unwrap();
    let value = log.lasting(&lines).ask().unwrap();
    assert_eq!((&value["count"], &value["gone"]), (&json!(4), &json!(true)));
    log.add("avg_fps=6\n");
    assert_eq!(log.lasting(&lines).fps(), (json!(6), 5));
    // Another file under the same number, as file systems give them out again.
    fs::write(&log.path, "avg_fps=7\navg_fps=8\n").unwrap();
    assert_eq!(log.lasting(&lines).fps(), (json!(8), 7));
}

#[test]
fn state_of_another_file_or_damaged_state_is_ignored() {
    let log = Log::with("avg_fps=1\navg_fps=2\n");
    let state = log.beside("state/log_tail.json");
    log.lasting(&[]).ask().unwrap();
    log.add("avg_fps=3\n");
    assert_eq!(log.lasting(&[("pattern", "(?<fps>[0-9]+)$")]).fps(), (json!(3), 1));
    for damage in ["", "{", "null", "{\"path\":3}", "\u{0}"] {
        fs::write(&state, damage).unwrap();
        assert_eq!(log.lasting(&[]).fps(), (json!(3), 1), "{damage}");
    }
    // Without a place to keep it, everything else works.
    fs::remove_dir_all(log.beside("state")).unwrap();
    assert_eq!(log.lasting(&[]).fps(), (json!(3), 1));
}
