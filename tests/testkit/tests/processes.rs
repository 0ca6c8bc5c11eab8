//! The process table is read as tests of what is left behind rely on.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use estimand_testkit::wait::{self, PATIENCE};
use estimand_testkit::{mock, processes};

fn start(mark: &str, words: &[&str]) -> Child {
    let mut command = Command::new(mock::path());
    command.arg(format!("mark:{mark}")).args(words).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // All words before `hang` are done when it has printed.
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    child
}

#[test]
fn finds_processes_by_a_mark_and_by_their_parents() {
    let mark = processes::unique_mark("processes-test");
    let mut child = start(&mark, &["orphan", "orphan", "print:on", "hang"]);
    let found = wait::until(PATIENCE, "all three", || {
        Some(processes::with_argument(&mark)).filter(|all| all.len() == 3)
    });
    let main = found.iter().find(|process| process.pid == child.id()).unwrap();
    assert_eq!(main.ppid, std::process::id());
    assert_eq!(
        main.cmdline[1..],
        [format!("mark:{mark}"), "orphan".into(), "orphan".into(), "print:on".into(), "hang".into()]
    );
    let mut below = processes::descendants(child.id());
    below.sort_by_key(|process| process.pid);
    let mut expected: Vec<_> = found.iter().filter(|process| process.ppid == child.id()).cloned().collect();
    expected.sort_by_key(|process| process.pid);
    assert_eq!(below, expected);
    assert!(below.len() == 2 && processes::descendants(std::process::id()).contains(&below[0]));

    processes::kill9_all_with(&mark);
    processes::none_with(&mark, PATIENCE);
    assert!(!processes::is_alive(child.id()), "dead, though nobody has waited for it");
    child.wait().unwrap();
}

#[test]
fn names_what_is_left() {
    let mark = processes::unique_mark("processes-test");
    let mut child = start(&mark, &["print:on", "hang"]);
    let panic = std::panic::catch_unwind(|| processes::none_with(&mark, Duration::ZERO)).unwrap_err();
    let why = panic.downcast::<String>().unwrap();
    assert!(why.contains(&child.id().to_string()) && why.contains("print:on hang"), "{why}");
    processes::kill9(child.id());
    child.wait().unwrap();
    processes::none_with(&mark, Duration::ZERO);
}

#[test]
fn measures_what_a_process_uses() {
    let mark = processes::unique_mark("processes-test");
    let mut idle = start(&mark, &["eat-memory:20MiB", "print:on", "hang"]);
    let mut busy = Command::new(mock::path());
    let mut busy = busy.arg("flood-stdout").stdout(Stdio::null()).spawn().unwrap();
    assert!(processes::rss_bytes(idle.id()) > 20 << 20);
    wait::until(PATIENCE, "the busy one to have used some time", || {
        (processes::cpu_time(busy.id()) > Duration::from_millis(300)).then_some(())
    });
    assert!(processes::cpu_time(idle.id()) < processes::cpu_time(busy.id()));
    for child in [&mut idle, &mut busy] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
