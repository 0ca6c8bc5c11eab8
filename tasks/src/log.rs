//! Parts of a task's log out of the store. Looking for a text reads the lines in pieces, and no more of them for one answer
//! than a bound.

use estimand_api::problem::Problem;
use estimand_api::task_log::{OpenLine, OpenLogEntry, TaskLogEntry, TaskStream};
use estimand_store::TaskLogRange;

use crate::TaskService;
use crate::open_lines::OpenLog;
use crate::storage::rows;
use crate::task::Task;

/// How many lines are read at a time, and looked through for one answer.
const PIECE: u64 = 500;
const MAX_LOOKED_AT: u64 = 10_000;

/// The lines that are asked for.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// The number of the first one.
    pub from: u64,
    pub stream: Option<TaskStream>,
    pub attempt: Option<u32>,
    /// Microseconds since 1970, by the node's clock.
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// A text that is in them.
    pub contains: Option<String>,
}

/// Lines, and the number from which on the next part is read.
pub struct LogPart {
    pub lines: Vec<TaskLogEntry>,
    pub next: u64,
}

impl LogQuery {
    /// The lines of a task from a number to before another one.
    fn range(&self, task: &Task, from: u64, before: u64) -> TaskLogRange {
        TaskLogRange {
            task: rows::column(task.number.0),
            from: rows::column(from),
            before: rows::column(before),
            stream: self.stream.map(TaskStream::as_str),
            attempt: self.attempt.map(i64::from),
            since: self.since,
            until: self.until,
        }
    }

    fn matches(&self, line: &TaskLogEntry) -> bool {
        self.contains.as_deref().is_none_or(|text| line.text.contains(text))
    }

    /// The unfinished lines that are asked for.
    pub fn open_entries(&self, OpenLog { attempt, lines, .. }: OpenLog) -> Vec<OpenLogEntry> {
        let is_asked = |line: &OpenLine| {
            self.stream.is_none_or(|stream| stream == line.stream)
                && self.attempt.is_none_or(|asked| asked == attempt)
                && self.since.is_none_or(|since| line.at >= since)
                && self.until.is_none_or(|until| line.at < until)
                && self.contains.as_deref().is_none_or(|text| line.text.contains(text))
        };
        let entry =
            |OpenLine { at, stream, text }| OpenLogEntry { attempt, at: rows::instant(at), stream, text };
        lines.into_iter().filter(is_asked).map(entry).collect()
    }
}

/// The first lines that are asked for, at most `limit`.
pub async fn next_lines(
    service: &TaskService,
    task: &Task,
    asked: &LogQuery,
    limit: u64,
) -> Result<LogPart, Problem> {
    let (mut part, end) = (LogPart { lines: Vec::new(), next: asked.from }, task.log.next);
    let (piece, mut looked_at) = (if asked.contains.is_some() { PIECE } else { limit }, 0);
    while part.next < end && looked_at < MAX_LOOKED_AT {
        let lines = service.lines(task, asked.range(task, part.next, end), piece, false).await?;
        let is_last = (lines.len() as u64) < piece;
        looked_at += lines.len() as u64;
        for line in lines {
            part.next = line.line + 1;
            if asked.matches(&line) {
                part.lines.push(line);
                if part.lines.len() as u64 >= limit {
                    return Ok(part);
                }
            }
        }
        if is_last {
            // Lines that are not asked for, and those that were dropped, are passed over.
            part.next = end;
        }
    }
    Ok(part)
}

/// The last lines that are asked for, at most `limit`.
pub async fn last_lines(
    service: &TaskService,
    task: &Task,
    asked: &LogQuery,
    limit: u64,
) -> Result<Vec<TaskLogEntry>, Problem> {
    let (mut lines, mut before, mut looked_at) = (Vec::new(), task.log.next, 0);
    let piece = if asked.contains.is_some() { PIECE } else { limit };
    while (lines.len() as u64) < limit && looked_at < MAX_LOOKED_AT {
        let some = service.lines(task, asked.range(task, asked.from, before), piece, true).await?;
        let is_first = (some.len() as u64) < piece;
        looked_at += some.len() as u64;
        before = some.last().map_or(before, |line| line.line);
        let missing = usize::try_from(limit).unwrap_or(usize::MAX) - lines.len();
        lines.extend(some.into_iter().filter(|line| asked.matches(line)).take(missing));
        if is_first {
            break;
        }
    }
    lines.reverse();
    Ok(lines)
}
