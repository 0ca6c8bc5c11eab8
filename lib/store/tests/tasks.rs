//! Tasks with their events and logs on SQLite, PostgreSQL and MariaDB alike.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::Place;
use estimand_store::{
    Connection, Error, GoneTaskRow, ImageGroup, ImageRow, LOG_PIECE, StoredFeed, StoredImages, TaskArrayRow,
    TaskCursorRow, TaskEventRow, TaskFeedGroup, TaskFeedRow, TaskGroup, TaskImageRow, TaskLogGroup,
    TaskLogRange, TaskLogRow, TaskProgressGroup, TaskProgressRow, TaskRow,
};

on_every_store!(
    tasks_are_kept_with_their_events_and_logs,
    many_tasks_are_read_in_pages,
    a_long_log_is_removed_in_pieces,
    the_feed_of_tasks_is_read_on_and_cut,
    images_are_kept_with_those_of_tasks,
    progress_is_read_in_one_order_and_goes_with_its_task,
);

fn task(number: i64, key: Option<&str>) -> TaskRow {
    TaskRow {
        number,
        id: format!("t{number}"),
        idempotency_key: key.map(str::to_owned),
        document: "{\"command\":\"grüße \u{1F980}\"}".to_owned(),
        progress: "{}".to_owned(),
        why: None,
        log: "{}".to_owned(),
        submitted_at: number * 10,
        submitted_by: "somebody".to_owned(),
        ended_at: None,
    }
}

fn array(number: i64) -> TaskArrayRow {
    let key = Some(format!("k{number}"));
    let document = "{\"command\":\"grüße \u{1F980}\"}".to_owned();
    TaskArrayRow { number, id: format!("a{number}"), idempotency_key: key, document, size: 1 }
}

fn line(task: i64, line_number: i64, stream: &str) -> TaskLogRow {
    let content = format!("line {line_number}");
    let stream = stream.to_owned();
    let (continues, written) = (line_number % 7 == 0, (line_number % 5 == 0).then(|| vec![0, 0xff, b'\n']));
    TaskLogRow { task, line_number, attempt: 1, at: 5, stream, content, continues, dropped: 0, written }
}

fn rows(connection: &mut Connection) -> (Vec<TaskRow>, Vec<TaskArrayRow>) {
    let (mut tasks, mut arrays) = (Vec::new(), Vec::new());
    connection.each_task(|row| tasks.push(row)).unwrap();
    connection.each_task_array(|row| arrays.push(row)).unwrap();
    (tasks, arrays)
}

fn many_tasks_are_read_in_pages(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("tasks", 0).unwrap();
    let group = TaskGroup {
        tasks: (1..=250).map(|number| task(number * 2, None)).collect(),
        arrays: (1..=100).map(|number| array(number * 2 - 1)).collect(),
        ..TaskGroup::default()
    };
    connection.commit_tasks(&claim, &group).unwrap();
    assert_eq!(rows(&mut connection), (group.tasks, group.arrays));
}

fn tasks_are_kept_with_their_events_and_logs(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("tasks", 0).unwrap();
    let event = |task, place| TaskEventRow { task, place, at: 7, transition: "{}".to_owned() };
    let lines: Vec<TaskLogRow> =
        (0..300).map(|at| line(1, at, if at % 3 == 0 { "STDERR" } else { "STDOUT" })).collect();
    let group = TaskGroup {
        tasks: vec![task(1, Some("a")), task(2, None), task(3, None)],
        arrays: vec![array(7), array(9)],
        events: vec![event(1, 0), event(1, 1), event(2, 0)],
        logs: TaskLogGroup {
            lines: lines.iter().cloned().chain([line(2, 0, "STDOUT")]).map(Arc::new).collect(),
            ..TaskLogGroup::default()
        },
        highest: 3,
        ..TaskGroup::default()
    };
    connection.commit_tasks(&claim, &group).unwrap();
    let stored = connection.load_tasks().unwrap();
    let events = vec![(1, 2), (2, 1)];
    let (tasks, arrays) = rows(&mut connection);
    assert_eq!((tasks, arrays, stored.events), (group.tasks, group.arrays, events));
    assert_eq!(connection.task_events(1).unwrap(), [event(1, 0), event(1, 1)]);
    let part = |from, before| TaskLogRange { task: 1, from, before, ..TaskLogRange::default() };
    assert_eq!(connection.task_log(&part(298, 300), 100, false).unwrap(), lines[298..]);
    let errors = TaskLogRange { stream: Some("STDERR"), ..part(1, 300) };
    assert_eq!(connection.task_log(&errors, 2, false).unwrap(), [lines[3].clone(), lines[6].clone()]);
    assert_eq!(connection.task_log(&errors, 2, true).unwrap(), [lines[297].clone(), lines[294].clone()]);
    let (at, attempt) = (lines[0].at, lines[0].attempt);
    let count = |connection: &mut Connection, part: TaskLogRange| {
        connection.task_log(&part, 1000, false).unwrap().len()
    };
    let at_once = TaskLogRange { since: Some(at), until: Some(at + 1), ..part(0, 10) };
    assert_eq!(count(&mut connection, at_once), 10);
    assert_eq!(count(&mut connection, TaskLogRange { until: Some(at), ..part(0, 10) }), 0);
    assert_eq!(count(&mut connection, TaskLogRange { attempt: Some(attempt), ..part(0, 10) }), 10);
    assert_eq!(count(&mut connection, TaskLogRange { attempt: Some(attempt + 1), ..part(0, 10) }), 0);

    let changed = TaskRow { ended_at: Some(9), why: Some("{}".to_owned()), ..task(1, Some("a")) };
    let gone = GoneTaskRow { id: "t2".to_owned(), attempt: 4, at: 11 };
    let group = TaskGroup {
        tasks: vec![changed.clone()],
        deleted: vec![2],
        deleted_arrays: vec![7],
        gone: vec![gone.clone()],
        logs: TaskLogGroup {
            lines: vec![Arc::new(TaskLogRow { dropped: 3, ..line(1, 299, "STDOUT") })],
            removed: vec![2],
            ..TaskLogGroup::default()
        },
        highest: 3,
        ..TaskGroup::default()
    };
    connection.commit_tasks(&claim, &group).unwrap();
    let stored = connection.load_tasks().unwrap();
    let (tasks, arrays) = rows(&mut connection);
    assert_eq!(
        (tasks, arrays, stored.gone, stored.events),
        (vec![changed, task(3, None)], vec![array(9)], vec![gone], vec![(1, 2)])
    );
    assert_eq!(connection.task_log(&TaskLogRange { task: 2, ..part(0, 9) }, 10, false).unwrap(), []);
    let forgotten = vec!["t2".to_owned(), "t3".to_owned()];
    connection.commit_tasks(&claim, &TaskGroup { forgotten, highest: 3, ..TaskGroup::default() }).unwrap();
    assert_eq!(connection.load_tasks().unwrap().gone, []);
    assert_eq!(connection.task_log(&part(299, 300), 10, false).unwrap()[0].dropped, 3);

    // Another claim knows how far numbers were given, and ends this one.
    let next = connection.claim("tasks", 0).unwrap();
    assert_eq!(next.revision, 3);
    let refused = connection.commit_tasks(&claim, &group).unwrap_err();
    assert!(matches!(refused, Error::Fenced { .. }), "{refused}");
}

fn a_long_log_is_removed_in_pieces(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("tasks", 0).unwrap();
    let count = LOG_PIECE as i64 * 2 + 5;
    // Numbers of lines that were dropped are missing.
    let lines = [1, 2].map(|task| (0..count).map(move |at| line(task, at * 3, "STDOUT")));
    let commit = |connection: &mut Connection, logs| {
        connection.commit_tasks(&claim, &TaskGroup { logs, ..TaskGroup::default() }).unwrap();
    };
    let lines = lines.into_iter().flatten().map(Arc::new).collect();
    commit(&mut connection, TaskLogGroup { lines, ..TaskLogGroup::default() });
    let left = |connection: &mut Connection, task| {
        let all = TaskLogRange { task, before: i64::MAX, ..TaskLogRange::default() };
        connection.task_log(&all, count, false).unwrap().len() as i64
    };
    assert_eq!(connection.task_log_to_remove().unwrap(), None);
    for _ in 0..2 {
        commit(&mut connection, TaskLogGroup { to_remove: vec![1], ..TaskLogGroup::default() });
        assert_eq!((connection.task_log_to_remove().unwrap(), left(&mut connection, 1)), (Some(1), count));
    }
    let piece = || TaskLogGroup { shortened: vec![1], ..TaskLogGroup::default() };
    for expected in [LOG_PIECE as i64 + 5, 5] {
        commit(&mut connection, piece());
        assert_eq!((connection.task_log_to_remove().unwrap(), left(&mut connection, 1)), (Some(1), expected));
    }
    for _ in 0..2 {
        commit(&mut connection, piece());
        assert_eq!((connection.task_log_to_remove().unwrap(), left(&mut connection, 1)), (None, 0));
    }
    assert_eq!(left(&mut connection, 2), count, "that of another task");
}

fn the_feed_of_tasks_is_read_on_and_cut(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("tasks", 0).unwrap();
    let event = |revision| TaskFeedRow {
        revision,
        task: 1,
        id: "t1".to_owned(),
        at: 7,
        event: "{\"to\":\"grüße \u{1F980}\"}".to_owned(),
    };
    let commit = |connection: &mut Connection, feed: TaskFeedGroup| {
        connection.commit_tasks(&claim, &TaskGroup { feed, ..TaskGroup::default() }).unwrap();
    };
    assert_eq!(connection.load_tasks().unwrap().feed, StoredFeed::default());
    let rows = (1..=600).map(event).collect();
    commit(&mut connection, TaskFeedGroup { rows, ..TaskFeedGroup::default() });
    let cursor = |revision| vec![TaskCursorRow { name: "broker".to_owned(), revision }];
    commit(&mut connection, TaskFeedGroup { cursors: cursor(3), ..TaskFeedGroup::default() });
    let rows = vec![event(601)];
    commit(&mut connection, TaskFeedGroup { rows, removed_to: Some(500), cursors: cursor(9) });
    let kept = StoredFeed { base: 500, newest: 601, cursors: cursor(9) };
    assert_eq!(connection.load_tasks().unwrap().feed, kept);
    assert_eq!(connection.task_feed(598, 2).unwrap(), [event(599), event(600)]);
    assert_eq!(connection.task_feed(0, 1).unwrap(), [event(501)]);
    assert_eq!(connection.task_feed(601, 9).unwrap(), []);
}

fn images_are_kept_with_those_of_tasks(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("tasks", 0).unwrap();
    let image = |name: &str, reference: &str, description: Option<&str>| ImageRow {
        name: name.to_owned(),
        reference: reference.to_owned(),
        digest: "sha256:0a".to_owned(),
        description: description.map(str::to_owned),
        labels: "{}".to_owned(),
        published_at: 5,
        published_by: "somebody".to_owned(),
    };
    let given = |number| TaskImageRow {
        number,
        name: "a".to_owned(),
        reference: "h:5000/a".to_owned(),
        digest: "sha256:0a".to_owned(),
    };
    let commit = |connection: &mut Connection, images, deleted, deleted_arrays| {
        let group = TaskGroup { images, deleted, deleted_arrays, ..TaskGroup::default() };
        connection.commit_tasks(&claim, &group).unwrap();
        connection.load_tasks().unwrap().images
    };
    assert_eq!(connection.load_tasks().unwrap().images, StoredImages::default());
    // A name in upper case is another one.
    let (first, second) = (image("A", "h:5000/A", None), image("a", "h:5000/a", Some("grüße \u{1F980}")));
    let images = vec![first.clone(), second];
    let of_tasks = vec![given(1), given(2), given(7)];
    let group = ImageGroup { images: images.clone(), of_tasks: of_tasks.clone(), ..ImageGroup::default() };
    assert_eq!(commit(&mut connection, group, vec![], vec![]), StoredImages { images, of_tasks });
    let changed = image("A", "elsewhere", Some("x"));
    let group =
        ImageGroup { images: vec![changed.clone()], removed: vec!["a".to_owned()], ..ImageGroup::default() };
    let kept = StoredImages { images: vec![changed], of_tasks: vec![given(2)] };
    assert_eq!(commit(&mut connection, group, vec![1], vec![7]), kept);
}

fn progress_is_read_in_one_order_and_goes_with_its_task(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("tasks", 0).unwrap();
    let report = |revision: i64| {
        let report = "{\"values\":{\"grüße \u{1F980}\":0.5}}".to_owned();
        TaskProgressRow { revision, task: revision % 3, place: revision / 3, report }
    };
    let commit = |connection: &mut Connection, group: TaskGroup| {
        connection.commit_tasks(&claim, &group).unwrap();
        let rows = connection.task_progress(0, 1_000).unwrap();
        rows.iter().map(|row| row.revision).collect::<Vec<i64>>()
    };
    let progress = TaskProgressGroup { rows: (1..=600).map(report).collect(), ..Default::default() };
    let all = commit(&mut connection, TaskGroup { progress, ..TaskGroup::default() });
    assert_eq!(all, (1..=600).collect::<Vec<i64>>());
    assert_eq!(connection.task_progress(598, 1).unwrap(), [report(599)]);
    assert_eq!(connection.task_progress(600, 1).unwrap(), []);

    let shortened = vec![(1, 199)];
    let progress = TaskProgressGroup { removed_to: Some(588), shortened, ..Default::default() };
    let kept = commit(&mut connection, TaskGroup { progress, ..TaskGroup::default() });
    assert_eq!(kept, [590, 591, 593, 594, 596, 597, 598, 599, 600]);

    // A short log goes with its task, a long one in pieces.
    let logs = TaskLogGroup { removed: vec![2], to_remove: vec![0], ..TaskLogGroup::default() };
    let kept = commit(&mut connection, TaskGroup { logs, ..TaskGroup::default() });
    assert_eq!(kept, [591, 594, 597, 598, 600]);
    let logs = TaskLogGroup { shortened: vec![0], ..TaskLogGroup::default() };
    assert_eq!(commit(&mut connection, TaskGroup { logs, ..TaskGroup::default() }), [598]);
}
