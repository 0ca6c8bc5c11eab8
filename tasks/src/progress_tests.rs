#![allow(clippy::unwrap_used)]

use estimand_api::task_document::TaskDocument;
use serde_json::json;

use super::*;
use crate::core::state::Progress;
use crate::task::{LogEnd, Task};

fn edit() -> Edit {
    let task = Task {
        number: TaskNumber(1),
        id: "t".to_owned(),
        key: None,
        array: None,
        document: Arc::new(TaskDocument::default()),
        image: None,
        progress: Progress { attempt: 2, ..Progress::default() },
        why: None,
        log: LogEnd::default(),
        events: 0,
        submitted_at: 0,
        submitted_by: String::new(),
        ended_at: None,
    };
    Edit::of(&task)
}

fn line(text: &str) -> TaskLogLine {
    let text = text.to_owned();
    TaskLogLine { at: 1, stream: TaskStream::Stdout, text, bytes: None, partial: false, dropped: 0 }
}

fn step(step: u32) -> TaskLogLine {
    line(&format!("estimand-progress {{\"step\": {step}}}"))
}

fn steps(edit: &Edit) -> Vec<u64> {
    edit.reports.iter().map(|report| report.step.as_ref().unwrap().as_u64().unwrap()).collect()
}

#[test]
fn standard_output_alone_is_progress() {
    let mut edit = edit();
    hear(&mut edit, 0, &TaskLogLine { stream: TaskStream::Stderr, ..step(1) });
    hear(&mut edit, 1, &line("step 2"));
    assert_eq!((edit.reports.len(), &edit.after.log.progress), (0, &ProgressEnd::default()));
    hear(&mut edit, 2, &step(3));
    let last = edit.after.log.progress.last.as_deref().unwrap();
    let told = json!({ "attempt": 2, "at": "1970-01-01T00:00:00.000001Z", "step": 3 });
    assert_eq!((json!(last), edit.after.log.progress.reports), (told, 1));
}

#[test]
fn the_first_line_that_is_no_progress_is_told() {
    let mut edit = edit();
    hear(&mut edit, 4, &line("estimand-progress {\"steps\": 3}"));
    hear(&mut edit, 5, &line("estimand-progress ["));
    hear(&mut edit, 6, &step(1));
    let problem = edit.after.log.progress.problem.as_deref();
    assert_eq!(problem, Some("line 4 has `steps`; expected step, of, values; it is no progress"));
    assert_eq!(steps(&edit), [1]);
}

#[test]
fn the_rest_of_a_long_line_is_no_line() {
    let mut edit = edit();
    hear(&mut edit, 0, &TaskLogLine { partial: true, ..line("x") });
    hear(&mut edit, 1, &TaskLogLine { stream: TaskStream::Stderr, ..line("between") });
    hear(&mut edit, 2, &step(1));
    assert_eq!(steps(&edit), [0_u64; 0]);
    hear(&mut edit, 3, &step(2));
    // A first piece that looks whole is none either.
    hear(&mut edit, 4, &TaskLogLine { partial: true, ..step(3) });
    // The rest is among lines that were dropped.
    hear(&mut edit, 5, &TaskLogLine { dropped: 7, ..step(4) });
    assert_eq!(steps(&edit), [2, 4]);
    assert_eq!(edit.reports[1].missing, 7);
    assert!(
        edit.after.log.progress.problem.as_deref().unwrap().starts_with("line 4 is longer than 4096 bytes")
    );
}

#[test]
fn of_a_flood_in_one_change_few_are_kept_and_the_last_always() {
    for count in [64, 65, 66, 1_000, 9_999] {
        let mut edit = edit();
        (0..count).for_each(|at| hear(&mut edit, u64::from(at), &step(at)));
        let kept = edit.reports.len() as u64;
        let missing: u64 = edit.reports.iter().map(|report| report.missing).sum();
        assert!(kept <= MAX_A_CHANGE as u64 && kept >= 32, "{count}: {kept}");
        assert_eq!(kept + missing, u64::from(count));
        assert_eq!(steps(&edit).last(), Some(&u64::from(count - 1)));
        assert_eq!(edit.after.log.progress.last.as_ref(), edit.reports.last());
        assert_eq!(edit.after.log.progress.reports, kept);
        assert!(steps(&edit).is_sorted());
    }
}

#[test]
fn the_oldest_reports_of_a_task_are_removed() {
    let with = |before: u64, new: usize| {
        let mut edit = edit();
        let said = ProgressLine::parse("estimand-progress {\"step\": 1}").unwrap().unwrap();
        edit.after.log.progress.reports = before;
        (0..new).for_each(|_| report(&mut edit, said.clone(), 0));
        removal(&edit)
    };
    assert_eq!((with(0, 64), with(KEPT - 2, 1)), (None, None));
    assert_eq!((with(KEPT - 1, 1), with(KEPT, 1)), (Some(STEP), None));
    assert_eq!(with(KEPT + STEP - 30, 60), Some(2 * STEP));
    // No more than the bound is ever kept.
    assert!(
        (1..50_000).all(|reports: u64| reports - (reports + STEP).saturating_sub(KEPT) / STEP * STEP <= KEPT)
    );
}

#[test]
fn reports_are_numbered_over_all_changes() {
    let change = |steps: &[u32]| {
        let mut edit = edit();
        edit.after.log.progress.reports = 10;
        steps.iter().for_each(|at| hear(&mut edit, 0, &step(*at)));
        Change { edits: vec![edit], ..Change::default() }
    };
    let reports = reports_of(&[change(&[1, 2]), change(&[]), change(&[3])], 5);
    let told: Vec<(u64, u64)> = reports.iter().map(|report| (report.revision, report.place)).collect();
    assert_eq!(told, [(6, 10), (7, 11), (8, 10)]);
}
