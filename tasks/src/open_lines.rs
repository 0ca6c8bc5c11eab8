//! The unfinished lines of tasks that run, as their agents told them: in memory only, until they end or their attempt does.
//! A revision is never given twice, also not by another start, so that a follower knows whether it has seen them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use estimand_api::task_log::OpenLine;

use crate::change::Change;
use crate::core::queue::TaskNumber;
use crate::task::Edit;

/// The most tasks of which they are known,
const MAX_TASKS: usize = 16_384;
/// and the most of a line, as agents cut it or as it is cut here.
const MAX_TEXT: usize = 1024;
/// A line of each stream.
const MAX_LINES: usize = 2;

/// The unfinished lines of all tasks.
#[derive(Debug)]
pub struct OpenLogs(Mutex<Book>);

#[derive(Debug)]
struct Book {
    revision: u64,
    logs: HashMap<TaskNumber, OpenLog>,
}

/// The unfinished lines of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenLog {
    /// 0 if there are none.
    pub revision: u64,
    pub attempt: u32,
    pub lines: Vec<OpenLine>,
}

impl OpenLogs {
    /// `now` is in microseconds since 1970: a start gives fewer revisions than pass until the next one.
    pub fn new(now: i64) -> Self {
        OpenLogs(Mutex::new(Book { revision: u64::try_from(now).unwrap_or(0), logs: HashMap::new() }))
    }

    pub fn of(&self, task: TaskNumber) -> OpenLog {
        self.book().logs.get(&task).cloned().unwrap_or_default()
    }

    /// Takes what its agent tells of an attempt, which is all that is open.
    pub fn replace(&self, task: TaskNumber, attempt: u32, mut lines: Vec<OpenLine>) {
        lines.truncate(MAX_LINES);
        for line in &mut lines {
            let end = (0..=MAX_TEXT).rev().find(|at| line.text.is_char_boundary(*at)).unwrap_or(0);
            line.text.truncate(end);
        }
        self.book().set(task, attempt, lines);
    }

    /// Lines that these changes end are open no longer, nor are those of attempts that are over.
    pub fn follow(&self, changes: &[Change]) {
        let mut book = self.book();
        for edit in changes.iter().flat_map(|change| &change.edits) {
            let number = edit.after.number;
            let Some(OpenLog { attempt, lines, .. }) = book.logs.get(&number).cloned() else { continue };
            let is_over = edit.after.placed_on().is_none() || edit.after.progress.attempt != attempt;
            let still = lines.into_iter().filter(|open| !is_over && !has_ended(open, edit));
            book.set(number, attempt, still.collect());
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn set(&mut self, task: TaskNumber, attempt: u32, lines: Vec<OpenLine>) {
        let known = self.logs.get(&task);
        if lines.is_empty() {
            self.logs.remove(&task);
        } else if known.is_some_and(|log| log.attempt == attempt && log.lines == lines) {
            // Nobody has to look again.
        } else if known.is_some() || self.logs.len() < MAX_TASKS {
            self.revision += 1;
            self.logs.insert(task, OpenLog { revision: self.revision, attempt, lines });
        }
    }
}

/// A stream has one line at a time: one that ended after this had begun is this one.
fn has_ended(open: &OpenLine, edit: &Edit) -> bool {
    edit.lines.iter().any(|row| row.stream == open.stream.as_str() && row.at > open.at)
}
