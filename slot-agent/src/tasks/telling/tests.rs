//! News of attempts, from folders that are written as keepers write them.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use estimand_api::task::{TaskAssignment, TaskEnding, TaskWork};
use estimand_api::task_files::TaskOutputs;
use estimand_api::task_log::{OpenLine, TaskLogLine, TaskStream};

use super::super::folder::{Accepted, AttemptFolder};
use super::super::log::{LogWriter, write_open};
use super::super::record::Beginning;
use super::*;

fn attempt(tasks: &Path) -> Arc<Attempt> {
    attempt_at(tasks, TaskWork::default())
}

fn attempt_at(tasks: &Path, work: TaskWork) -> Arc<Attempt> {
    let assignment =
        TaskAssignment { id: "t".into(), attempt: 3, work: work.into(), ..TaskAssignment::default() };
    let accepted = Accepted { assignment, at: 7, boot: String::new() };
    let folder = AttemptFolder::new(tasks, "t", 3);
    folder.accept(&accepted, None, None).unwrap();
    Arc::new(Attempt::new(folder, accepted, None))
}

fn gather(teller: &Teller) -> Batch {
    let mut batch = Batch { is_all: true, ..Batch::default() };
    teller.add_to(&mut batch, 7).unwrap();
    batch
}

fn tell(tellers: &mut Tellers) -> (Vec<String>, Vec<TaskStage>) {
    let batch = gather(&tellers.by_name["t.3"]);
    tellers.taken(batch.parts).unwrap();
    let lines = batch.news.logs.into_iter().flat_map(|log| log.lines);
    let stages = batch.news.reports.into_iter().map(|report| report.stage);
    (lines.map(|line| line.text).collect(), stages.collect())
}

/// Also by an agent that is started anew after each step.
#[test]
fn an_end_is_told_after_its_log_and_nothing_after_it() {
    for restarts in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let attempt = attempt(place.path());
        let new = || {
            let by_name = HashMap::from([("t.3".to_owned(), Teller::new(Arc::clone(&attempt)))]);
            Tellers { by_name, ..Tellers::default() }
        };
        let mut tellers = new();
        let mut told = Vec::new();
        let mut tell_now = |tellers: &mut Tellers| {
            if restarts {
                *tellers = new();
            }
            let (lines, stages) = tell(tellers);
            told.extend(lines);
            stages
        };
        assert_eq!(tell_now(&mut tellers), [TaskStage::Accepted]);
        let Beginning::Now(mut record) = attempt.folder.begin("k").unwrap() else { panic!() };
        let mut writer = LogWriter::new(attempt.folder.path().to_owned(), 8 << 20);
        let text = "x".repeat(1_000);
        let line =
            TaskLogLine { at: 1, stream: TaskStream::Stdout, text, bytes: None, partial: false, dropped: 0 };
        writer.append(vec![line; 1_000]);
        record.add_running(8).unwrap();
        assert_eq!(tell_now(&mut tellers).last(), Some(&TaskStage::Running));
        let ending = TaskEnding::Exit(0);
        record.add_end(&End { at: 9, ending: ending.clone(), program: None, used: None }).unwrap();
        while !tell_now(&mut tellers).contains(&TaskStage::Ended {
            ending: ending.clone(),
            program: None,
            used: None,
        }) {}
        assert_eq!(told.len(), 1_000);
        assert!(gather(&tellers.by_name["t.3"]).parts.is_empty());
    }
}

#[test]
fn an_end_is_told_when_its_outputs_are_stored() {
    let place = tempfile::tempdir().unwrap();
    let outputs = vec!["x".parse().unwrap()];
    let attempt = attempt_at(place.path(), TaskWork { outputs, ..TaskWork::default() });
    let by_name = HashMap::from([("t.3".to_owned(), Teller::new(Arc::clone(&attempt)))]);
    let mut tellers = Tellers { by_name, ..Tellers::default() };
    let Beginning::Now(mut record) = attempt.folder.begin("k").unwrap() else { panic!() };
    record.add_end(&End { at: 9, ending: TaskEnding::Exit(0), program: None, used: None }).unwrap();
    assert_eq!(tell(&mut tellers).1, [TaskStage::Accepted]);
    assert!(tell(&mut tellers).1.is_empty());
    let mut stored = TaskOutputs { attempt: 3, ..TaskOutputs::default() };
    stored.leave_out("x", "there is no such file");
    attempt.folder.write_outputs(&stored).unwrap();
    let reports = gather(&tellers.by_name["t.3"]).news.reports;
    assert_eq!((reports.len(), reports[0].outputs.as_ref()), (1, Some(&stored)));
    assert_eq!(
        tell(&mut tellers).1,
        [TaskStage::Ended { ending: TaskEnding::Exit(0), program: None, used: None }]
    );
}

/// Nothing is waited for that never comes.
#[test]
fn an_attempt_that_never_began_has_no_outputs() {
    let place = tempfile::tempdir().unwrap();
    let outputs = vec!["x".parse().unwrap()];
    let attempt = attempt_at(place.path(), TaskWork { outputs, ..TaskWork::default() });
    attempt
        .folder
        .write_end(&End { at: 9, ending: TaskEnding::Cancelled, program: None, used: None })
        .unwrap();
    let reports = gather(&Teller::new(attempt)).news.reports;
    assert_eq!(
        reports.last().unwrap().stage,
        TaskStage::Ended { ending: TaskEnding::Cancelled, program: None, used: None }
    );
}

/// Told once while they are as they were, again after a while, and not after they have ended.
#[tokio::test(start_paused = true)]
async fn unfinished_lines_are_told_when_they_change() {
    let place = tempfile::tempdir().unwrap();
    let attempt = attempt(place.path());
    let folder = attempt.folder.path().to_owned();
    let by_name = HashMap::from([("t.3".to_owned(), Teller::new(Arc::clone(&attempt)))]);
    let mut tellers = Tellers { by_name, ..Tellers::default() };
    let Beginning::Now(mut record) = attempt.folder.begin("k").unwrap() else { panic!() };
    let open = |at, text: &str| OpenLine { at, stream: TaskStream::Stderr, text: text.to_owned() };
    let mut told = || {
        let batch = gather(&tellers.by_name["t.3"]);
        tellers.taken(batch.parts).unwrap();
        batch.news.open.into_iter().map(|open| (open.attempt, open.lines)).collect::<Vec<_>>()
    };
    assert_eq!(told(), []);
    let bar = vec![open(5, "10%")];
    write_open(&folder, &bar).unwrap();
    assert_eq!(told(), [(3, bar.clone())]);
    assert_eq!(told(), []);
    tokio::time::advance(OPEN_AGAIN).await;
    assert_eq!(told(), [(3, bar)], "the service may have been started anew");
    // It ends, which its line says before its keeper looks again.
    let line = |at, text: &str| TaskLogLine {
        at,
        stream: TaskStream::Stderr,
        text: text.to_owned(),
        bytes: None,
        partial: false,
        dropped: 0,
    };
    let mut writer = LogWriter::new(folder.clone(), 8 << 20);
    writer.append(vec![line(6, "10%\r100%")]);
    assert_eq!(told(), [(3, vec![])]);
    write_open(&folder, &[open(7, "Really? ")]).unwrap();
    assert_eq!(told(), [(3, vec![open(7, "Really? ")])]);
    record.add_end(&End { at: 9, ending: TaskEnding::Exit(0), program: None, used: None }).unwrap();
    assert_eq!(told(), [], "an end says so itself");
}
