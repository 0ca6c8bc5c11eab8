//! The news of agents: logs, and how far attempts are. They may be late or come twice; what is known already, or is about
//! an attempt that is over, changes nothing.

use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_api::task::{TaskNews, TaskReport, TaskStage};
use estimand_api::task_files::TaskOutputs;
use estimand_api::task_log::{LogBytes, TaskLog, TaskLogLine};
use estimand_service::{Decision, Request};
use estimand_store::TaskLogRow;

use super::edits::Edits;
use super::log_room::LogRoom;
use crate::TaskService;
use crate::change::Rejection;
use crate::core::state::{Actor, Event};
use crate::progress;
use crate::storage::rows;
use crate::task::{Edit, Task};
use crate::writer::TasksState;

/// How much of one task's log is kept,
const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;
/// and about what a line of it costs, however short it is.
const LEAST_LINE: u64 = 64;
/// The longest line, as the agent cuts it or as it is cut here.
const MAX_LINE_BYTES: usize = 64 * 1024;

pub struct News {
    pub logs: Vec<TaskLog>,
    pub reports: Vec<TaskReport>,
    /// When the news came, in microseconds since 1970. What is stored before them may take its time.
    pub came: i64,
    /// The node for which the caller speaks; none: for any.
    pub node: Option<String>,
}

impl TaskService {
    /// Takes the news of an engine, which came at this instant (microseconds since 1970). News about other nodes than this one are
    /// passed over; none: about any. Returns when they are stored.
    pub async fn take_news(&self, news: TaskNews, came: i64, node: Option<&str>) -> Result<(), Problem> {
        let TaskNews { logs, reports, open } = news;
        // Unfinished lines are not stored, so news of them alone waits for no disk.
        if !logs.is_empty() || !reports.is_empty() || open.is_empty() {
            self.change(News { logs, reports, came, node: node.map(str::to_owned) }).await?;
        }
        if !open.is_empty() {
            self.shared().table.loaded(|_| ())?;
            self.shared().show_open(open, node);
        }
        Ok(())
    }
}

impl Request<TasksState> for News {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let News { logs, reports, came, node } = self;
        let mut edits = Edits::new(state.table(), state.now_us());
        let mut room = LogRoom::new(state.table(), &state.users);
        for log in logs {
            if let Some(edit) = edit_of(&mut edits, node.as_deref(), &log.id, log.attempt) {
                let document = Arc::clone(&edit.after.document);
                append(edit, log, |bytes| room.takes(document.user.as_deref(), bytes));
            }
        }
        for report in reports {
            if let Some(edit) = edit_of(&mut edits, node.as_deref(), &report.id, report.attempt) {
                report_on(edit, report, came);
            }
        }
        Ok(match edits.finish() {
            Some(change) => Decision::change(room.make(change), |_, _| ()),
            None => Decision::Nothing(()),
        })
    }
}

/// The edit of a task whose present attempt this is, on a node for which the caller speaks.
fn edit_of<'e>(edits: &'e mut Edits<'_>, node: Option<&str>, id: &str, attempt: u32) -> Option<&'e mut Edit> {
    let task = edits.table.named(id)?;
    let edit = edits.of(task);
    let placed_on = edit.after.placed_on()?;
    let speaks = node.is_none_or(|own| own == placed_on);
    (speaks && edit.after.progress.attempt == attempt).then_some(edit)
}

fn report_on(edit: &mut Edit, report: TaskReport, came: i64) {
    let TaskReport { attempt, ago, outputs, .. } = report;
    // It may be told late. By how much the node says, so no clocks are compared.
    let since = edit.after.progress.since.micros();
    let at = came.saturating_sub_unsigned(ago.unwrap_or(0)).max(since);
    let is_end = matches!(report.stage, TaskStage::Ended { .. });
    let cause = match report.stage {
        TaskStage::Accepted => Event::Accept { attempt },
        TaskStage::Preparing => Event::Prepare { attempt },
        TaskStage::Running => Event::Start { attempt },
        TaskStage::Ended { ending, program, used } => {
            Event::End { attempt, ending, program, used: used.map(Box::new) }
        }
    };
    let agent = Actor::Agent(edit.after.progress.node.clone().unwrap_or_default());
    match edit.apply(at, cause, agent) {
        // They go with the end, in one transaction.
        Ok(true) if is_end => edit.outputs = outputs.map(|outputs| TaskOutputs { attempt, ..outputs }),
        Ok(_) => {}
        Err(refused) => tracing::debug!(task = edit.after.id, %refused, "a report changes nothing"),
    }
}

/// Appends the lines that are new. `takes` is asked for the room of each.
fn append(edit: &mut Edit, log: TaskLog, mut takes: impl FnMut(u64) -> bool) {
    let base = edit.after.log.first;
    for (line, given) in (log.first..).zip(log.lines) {
        let number = base.saturating_add(line);
        if number >= edit.after.log.next {
            edit.after.log.next = number.saturating_add(1);
            append_line(edit, number, given, &mut takes);
        }
    }
}

fn append_line(edit: &mut Edit, line: u64, given: TaskLogLine, takes: &mut impl FnMut(u64) -> bool) {
    // Progress is heard also where the log has no room.
    progress::hear(edit, line, &given);
    let Task { number, log, progress, .. } = &mut edit.after;
    let row = rows::log_row(*number, line, progress.attempt, readable(given));
    let cost = (row.size() as u64).max(LEAST_LINE);
    let full_at = match log.full_at {
        None if log.bytes + cost > MAX_LOG_BYTES || !takes(cost) => *log.full_at.insert(line),
        None => {
            log.bytes += cost;
            edit.lines.push(Arc::new(row));
            return;
        }
        Some(full_at) => full_at,
    };
    // One row says how many lines are dropped from there on.
    let mark = TaskLogRow {
        line_number: rows::column(full_at),
        content: String::new(),
        written: Some(Vec::new()),
        continues: false,
        dropped: rows::column(line - full_at + 1),
        ..row
    };
    edit.lines.retain(|row| row.line_number != mark.line_number);
    edit.lines.push(Arc::new(mark));
}

/// A line that every database takes: no NUL in its text, and no longer than a line may be. Its bytes are there where the
/// text does not tell them.
fn readable(mut line: TaskLogLine) -> TaskLogLine {
    let TaskLogLine { text, bytes, partial, dropped, .. } = &mut line;
    // An empty line behind a gap would be taken for a mark of the gap alone.
    let is_told_by_text = !text.contains('\0') && (*dropped == 0 || !text.is_empty());
    if bytes.is_none() && !is_told_by_text {
        let end = if *partial { "" } else { "\n" };
        *bytes = Some(LogBytes(format!("{text}{end}").into_bytes()));
    }
    if let Some(LogBytes(bytes)) = bytes {
        bytes.truncate(MAX_LINE_BYTES);
    }
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
    if text.len() > MAX_LINE_BYTES {
        let end = (0..=MAX_LINE_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    line
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::task_document::TaskDocument;
    use estimand_api::task_log::TaskStream;

    use super::*;
    use crate::core::queue::TaskNumber;
    use crate::core::state::Progress;
    use crate::task::LogEnd;

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
            log: LogEnd { next: 10, first: 10, ..LogEnd::default() },
            events: 0,
            submitted_at: 0,
            submitted_by: String::new(),
            ended_at: None,
        };
        Edit::of(&task)
    }

    fn log(first: u64, texts: &[&str]) -> TaskLog {
        let line = |text: &&str| TaskLogLine {
            at: 1,
            stream: TaskStream::Stdout,
            text: (*text).to_owned(),
            bytes: None,
            partial: false,
            dropped: 0,
        };
        TaskLog { id: "t".to_owned(), attempt: 2, first, lines: texts.iter().map(line).collect() }
    }

    #[test]
    fn lines_that_come_twice_are_kept_once() {
        let mut edit = edit();
        append(&mut edit, log(0, &["a", "b"]), |_| true);
        append(&mut edit, log(0, &["a", "b", "c\0"]), |_| true);
        append(&mut edit, log(2, &["c"]), |_| true);
        let kept: Vec<(i64, &str)> =
            edit.lines.iter().map(|row| (row.line_number, row.content.as_str())).collect();
        assert_eq!(kept, [(10, "a"), (11, "b"), (12, "c\u{fffd}")]);
        assert_eq!((edit.after.log.next, edit.after.log.bytes), (13, 3 * LEAST_LINE));
        assert_eq!(edit.lines[2].written.as_deref(), Some(&b"c\0\n"[..]));
    }

    #[test]
    fn a_log_that_is_full_says_how_much_is_missing() {
        let mut edit = edit();
        edit.after.log.bytes = MAX_LOG_BYTES - LEAST_LINE;
        append(&mut edit, log(0, &["a", "bc", "d"]), |_| true);
        append(&mut edit, log(3, &["e"]), |_| true);
        let kept: Vec<_> =
            edit.lines.iter().map(|row| (row.line_number, row.content.as_str(), row.dropped)).collect();
        assert_eq!(kept, [(10, "a", 0), (11, "", 3)]);
        assert_eq!(edit.after.log.next, 14);
    }

    #[test]
    fn a_log_that_is_full_still_takes_progress() {
        let mut edit = edit();
        edit.after.log.bytes = MAX_LOG_BYTES;
        append(&mut edit, log(0, &["a", "estimand-progress {\"step\": 7}", "b"]), |_| true);
        assert_eq!((edit.lines.len(), edit.lines[0].dropped, edit.reports.len()), (1, 3, 1));
        append(&mut edit, log(1, &["estimand-progress {\"step\": 7}"]), |_| true);
        assert_eq!(edit.after.log.progress.reports, 1, "twice is once");
    }

    #[test]
    fn a_line_beyond_the_share_of_its_user_fills_the_log() {
        let mut edit = edit();
        append(&mut edit, log(0, &["a", "b", "c"]), |cost| cost < LEAST_LINE);
        assert_eq!((edit.after.log.full_at, edit.lines.len(), edit.lines[0].dropped), (Some(10), 1, 3));
    }

    /// So a flood of empty lines has a bound, too.
    #[test]
    fn empty_lines_fill_a_log() {
        let mut edit = edit();
        edit.after.log.bytes = MAX_LOG_BYTES - 3 * LEAST_LINE;
        append(&mut edit, log(0, &[""; 10]), |_| true);
        assert_eq!((edit.lines.len(), edit.lines[3].dropped), (4, 7));
    }

    #[test]
    fn an_empty_line_behind_a_gap_is_a_line() {
        let mut edit = edit();
        let mut given = log(5, &["", "b"]);
        given.lines[0].dropped = 5;
        append(&mut edit, given, |_| true);
        assert_eq!((edit.lines[0].dropped, edit.lines[0].written.as_deref()), (5, Some(&b"\n"[..])));
        assert_eq!(edit.lines[1].written, None);
    }

    #[test]
    fn a_line_is_no_longer_than_it_may_be() {
        let mut edit = edit();
        append(&mut edit, log(0, &[&"ä".repeat(MAX_LINE_BYTES)]), |_| true);
        let text = &edit.lines[0].content;
        assert!(text.len() <= MAX_LINE_BYTES && text.ends_with('ä'));
    }
}
