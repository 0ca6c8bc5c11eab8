//! A flood of output grows neither memory nor disk, and the last words are there.

use std::path::Path;
use std::time::{Duration, Instant};

use estimand_testkit::disk::Disk;
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::node::{Node, texts};
use crate::stand_in::AttemptNews;

/// The bytes that are kept of a log that is not delivered, and the newest of it on top.
const MOST_ON_DISK: u64 = (64 << 20) + (1 << 20);
const MOST_IN_MEMORY: u64 = 48 << 20;
const FLOOD_FOR: Duration = Duration::from_secs(5);

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

#[test]
fn a_flood_is_bounded_and_its_end_is_there() {
    let node = Node::start("flood");
    node.services.take_news(false);
    let script = "echo first; yes \"$(printf '%0200d' 7)\" & while [ ! -e \"$0/end\" ]; do sleep 0.1; done; kill $!; \
                  wait $! 2>/dev/null; echo last; exit 0";
    node.assign("f", node.shell(script));
    let folder = node.tasks_folder().join("f.1");
    wait::until(PATIENCE, "the log to be full", || (size(&folder) > 48 << 20).then_some(()));
    let keeper = node.keeper("f.1").unwrap().pid;
    let began = Instant::now();
    wait::until(PATIENCE, "the flood to go on", || {
        let on_disk = size(&folder);
        assert!(on_disk <= MOST_ON_DISK, "{on_disk} bytes on disk");
        let in_memory = processes::rss_bytes(keeper);
        assert!(in_memory <= MOST_IN_MEMORY, "{in_memory} bytes in memory");
        (began.elapsed() > FLOOD_FOR).then_some(())
    });
    node.put("end");
    processes::none_with(&node.mark, PATIENCE);
    node.services.take_news(true);
    let heard = node.until_ended("f.1", json!({"exit": 0}));
    let lines = texts(&heard);
    assert_eq!((lines[0].as_str(), lines.last().unwrap().as_str()), ("first", "last"));
    assert!(check_gaps(&heard) > 0, "a flood this short drops nothing");
    node.end();
}

/// Each gap is told, and it is all that is missing; how many lines that is.
#[track_caller]
fn check_gaps(heard: &AttemptNews) -> u64 {
    let (mut expected, mut dropped) = (0, 0);
    for (number, line) in &heard.lines {
        let gap = line["dropped"].as_u64().unwrap_or(0);
        assert_eq!(*number, expected + gap);
        (expected, dropped) = (number + 1, dropped + gap);
    }
    dropped
}

/// The disk has no room for anything when the log comes to be delivered; that makes room.
#[test]
fn a_full_disk_under_a_log_is_freed_by_its_delivery() {
    let disk = Disk::in_memory("16m");
    let node = Node::on_disk("full-disk", &disk, &[]);
    node.services.take_news(false);
    let script = "echo first; yes \"$(printf '%0200d' 7)\" & while [ ! -e \"$0/end\" ]; do sleep 0.1; done; kill $!; \
                  wait $! 2>/dev/null; echo last; exit 0";
    node.assign("f", node.shell(script));
    let folder = node.tasks_folder().join("f.1");
    wait::until(PATIENCE, "some of the log", || (size(&folder) > 9 << 20).then_some(()));
    let full = disk.fill();
    node.put("end");
    processes::none_with(&node.mark, PATIENCE);
    full.grow();
    node.services.take_news(true);
    let heard = node.until_ended("f.1", json!({"exit": 0}));
    let lines = texts(&heard);
    assert_eq!((lines[0].as_str(), lines.last().unwrap().as_str()), ("first", "last"));
    check_gaps(&heard);
    drop(full);
    node.end();
}

/// A node that is short of space for a while does not fail what it is given.
#[test]
fn a_task_waits_for_the_space_without_which_none_begins() {
    let disk = Disk::in_memory("32m");
    let node = Node::on_disk("short-of-space", &disk, &["--reserve", "16"]);
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![7; 20 << 20]).unwrap();
    node.assign("w", node.shell("echo begun"));
    node.until("w.1", "be accepted", |heard| heard.stages.contains(&json!("accepted")));
    wait::until(PATIENCE, "a look at it", || node.agent.stderr_tail().contains("--reserve").then_some(()));
    assert_eq!(node.services.heard("w.1").stages, [json!("accepted")]);
    std::fs::remove_file(filler).unwrap();
    assert_eq!(texts(&node.until_ended("w.1", json!({"exit": 0}))), ["begun"]);
    node.end();
}
