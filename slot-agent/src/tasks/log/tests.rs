//! Lines that are written are read, in order and from where it was left, with each gap told.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use estimand_api::task_log::{LogBytes, TaskLog, TaskLogLine, TaskStream};

use super::*;

const PLENTY: usize = 1 << 20;

fn line(text: &str) -> TaskLogLine {
    let text = text.to_owned();
    TaskLogLine { at: 1, stream: TaskStream::Stdout, text, bytes: None, partial: false, dropped: 0 }
}

fn reader(folder: &Path, next: u64) -> LogReader {
    LogReader::new(folder.to_owned(), "t".to_owned(), 1, next)
}

/// The numbers, texts and gaps.
fn shown(logs: &[TaskLog]) -> Vec<(u64, String, u64)> {
    let numbered = |log: &TaskLog| {
        let lines = log.lines.clone().into_iter().zip(log.first..);
        lines.map(|(line, number)| (number, line.text, line.dropped)).collect::<Vec<_>>()
    };
    logs.iter().flat_map(numbered).collect()
}

fn size(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn lines_are_read_once_and_again_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let (mut writer, mut first) = (LogWriter::new(place.path().to_owned(), 1 << 20), reader(place.path(), 0));
    assert!(first.read(PLENTY).unwrap().is_all, "there is no log yet");
    writer.append(vec![line("a"), line("b")]);
    let piece = first.read(PLENTY).unwrap();
    assert_eq!(shown(&piece.logs), [(0, "a".into(), 0), (1, "b".into(), 0)]);
    assert_eq!(shown(&first.read(PLENTY).unwrap().logs).len(), 2, "not delivered, so not gone");
    first.commit(piece.end).unwrap();
    writer.append(vec![line("c")]);
    for reader in [&first, &reader(place.path(), piece.end.next)] {
        let piece = reader.read(PLENTY).unwrap();
        assert_eq!((shown(&piece.logs), piece.is_all), (vec![(2, "c".into(), 0)], true));
    }
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::new(place.path().to_owned(), 1 << 20);
    let odd = TaskLogLine { bytes: Some(LogBytes(b"\xff\0\n".to_vec())), ..line("\u{fffd}\0") };
    writer.append(vec![odd.clone()]);
    let piece = reader(place.path(), 0).read(PLENTY).unwrap();
    assert_eq!(piece.logs[0].lines, [odd]);
}

#[test]
fn half_a_line_is_none_and_a_broken_one_is_a_gap() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::new(place.path().to_owned(), 1 << 20);
    writer.append(vec![line("a")]);
    let file = segment(place.path(), 0);
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{whole}\0\0\0\n{}\n3 {{\"at\"", whole.trim_end().replace("0 {", "2 {")))
        .unwrap();
    let piece = reader(place.path(), 0).read(PLENTY).unwrap();
    assert_eq!(shown(&piece.logs), [(0, "a".into(), 0), (2, "a".into(), 1)]);
    assert_eq!((piece.logs.len(), piece.logs[1].first), (2, 2), "a gap begins another part");
}

#[test]
fn pieces_are_as_large_as_they_may_be_and_files_go_when_they_are_delivered() {
    let place = tempfile::tempdir().unwrap();
    let (mut writer, mut reader) =
        (LogWriter::new(place.path().to_owned(), 64 << 10), reader(place.path(), 0));
    for number in 0..300 {
        writer.append(vec![line(&format!("{number:0100}"))]);
    }
    assert!(segments(place.path()).unwrap().len() > 5);
    let mut numbers = Vec::new();
    loop {
        let piece = reader.read(1_000).unwrap();
        assert!(piece.bytes < 1_300, "{}", piece.bytes);
        numbers
            .extend(shown(&piece.logs).into_iter().map(|(number, text, _)| (number, text.parse().unwrap())));
        reader.commit(piece.end).unwrap();
        if piece.is_all {
            break;
        }
    }
    assert_eq!(numbers, (0..300).map(|number| (number, number)).collect::<Vec<(u64, u64)>>());
    assert_eq!(segments(place.path()).unwrap().len(), 1);
}

/// The first lines and the newest ones are there, and how many are missing between them.
#[test]
fn a_flood_takes_neither_disk_nor_memory() {
    let place = tempfile::tempdir().unwrap();
    let most = 256 << 10;
    let mut writer = LogWriter::new(place.path().to_owned(), most);
    let lines = 20_000_u64;
    for number in 0..lines {
        writer.append(vec![line(&format!("{number:0200}"))]);
        assert!(size(place.path()) <= most);
    }
    assert!(writer.waits());
    writer.finish().unwrap();
    let piece = reader(place.path(), 0).read(usize::MAX).unwrap();
    let shown = shown(&piece.logs);
    assert_eq!(piece.logs.len(), 2, "one gap");
    assert_eq!((shown[0].0, shown.last().unwrap().0), (0, lines - 1));
    assert_eq!(shown.len() as u64 + piece.logs[1].lines[0].dropped, lines);
    assert!(shown.iter().all(|(number, text, _)| text.parse() == Ok(*number)));
}

#[test]
fn delivery_makes_room() {
    let place = tempfile::tempdir().unwrap();
    let (mut writer, mut reader) =
        (LogWriter::new(place.path().to_owned(), 64 << 10), reader(place.path(), 0));
    let long = "x".repeat(1_000);
    for _ in 0..100 {
        writer.append(vec![line(&long)]);
    }
    assert!(writer.waits(), "it is full");
    let piece = reader.read(usize::MAX).unwrap();
    reader.commit(piece.end).unwrap();
    until(|| {
        writer.settle(false);
        !writer.waits()
    });
    let rest = reader.read(usize::MAX).unwrap();
    assert_eq!(rest.end.next, 100);
    assert!(rest.logs.iter().all(|log| log.lines.iter().all(|line| line.text == long)));
}

/// A disk that takes nothing: as long as it does not, the newest lines wait.
#[test]
fn what_the_disk_does_not_take_waits_for_it() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("away");
    let mut writer = LogWriter::new(folder.clone(), 1 << 20);
    writer.append(vec![line("a"), line("b")]);
    assert!(writer.waits() && writer.finish().is_err());
    fs::create_dir(&folder).unwrap();
    writer.finish().unwrap();
    assert_eq!(shown(&reader(&folder, 0).read(PLENTY).unwrap().logs).len(), 2);
}

fn until(mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(std::time::Instant::now() < end, "it never was");
        std::thread::yield_now();
    }
}
