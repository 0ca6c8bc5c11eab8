//! The unfinished lines of an attempt: prompts, bars of progress. Its keeper writes them into a file when they have lasted for
//! half a second, each time all of them; its agent reads that. They are in no log, and have no number, before they end.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use estimand_api::task_log::OpenLine;
use tokio::time::Instant;

/// How long a line is unfinished before it is shown, and how often it is shown anew.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// The unfinished lines as they are shown, and when they are looked at next. Pure.
#[derive(Debug, Default)]
pub struct OpenDisplay {
    shown: Vec<OpenLine>,
    due: Option<Instant>,
}

impl OpenDisplay {
    /// Output has come, behind which a line is open or not.
    pub fn note_output(&mut self, is_open: bool, now: Instant) {
        if is_open || !self.shown.is_empty() {
            self.due.get_or_insert(now + SHOWN_AFTER);
        }
    }

    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The lines to be shown, if they are others than before. Lines that began a moment ago wait, so a flood of whole lines shows
    /// none.
    pub fn renew(&mut self, mut open: Vec<OpenLine>, now_us: i64, now: Instant) -> Option<&[OpenLine]> {
        let count = open.len();
        let latest = now_us.saturating_sub(SHOWN_AFTER.as_micros() as i64);
        open.retain(|line| line.at <= latest);
        self.due = (open.len() < count).then(|| now + SHOWN_AFTER);
        if open == self.shown {
            return None;
        }
        self.shown = open;
        Some(&self.shown)
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("open.json")
}

/// Writes the unfinished lines of an attempt into its folder.
pub fn write_open(folder: &Path, lines: &[OpenLine]) -> io::Result<()> {
    let text = serde_json::to_vec(lines)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(file(folder))?.write_all(&text)
}

/// The unfinished lines of an attempt; none while they are being written, after which its keeper has news.
pub fn read_open(folder: &Path) -> io::Result<Option<Vec<OpenLine>>> {
    match fs::read(file(folder)) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Vec::new())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::task_log::TaskStream;

    use super::*;

    fn line(at: i64, text: &str) -> OpenLine {
        OpenLine { at, stream: TaskStream::Stderr, text: text.to_owned() }
    }

    #[test]
    fn a_line_is_shown_after_half_a_second_and_anew_while_it_changes() {
        let begin = Instant::now();
        let after = |ms: u64| begin + Duration::from_millis(ms);
        let mut display = OpenDisplay::default();
        display.note_output(false, begin);
        assert_eq!(display.due(), None, "whole lines are nothing to look at");
        display.note_output(true, after(100));
        display.note_output(true, after(400));
        assert_eq!(display.due(), Some(after(600)));
        let bar = [line(100_000, "10%")];
        assert_eq!(display.renew(bar.to_vec(), 600_000, after(600)), Some(&bar[..]));
        assert_eq!(display.due(), None);
        display.note_output(true, after(700));
        assert_eq!(display.due(), Some(after(1_200)));
        let bar = [line(100_000, "20%")];
        assert_eq!(display.renew(bar.to_vec(), 1_200_000, after(1_200)), Some(&bar[..]));
        assert_eq!(display.renew(bar.to_vec(), 1_300_000, after(1_300)), None, "it has not changed");
        // It ends, which leaves nothing to be shown.
        display.note_output(false, after(1_400));
        assert_eq!(display.due(), Some(after(1_900)));
        assert_eq!(display.renew(Vec::new(), 1_900_000, after(1_900)), Some(&[][..]));
        display.note_output(false, after(2_000));
        assert_eq!(display.due(), None);
    }

    #[test]
    fn a_flood_of_whole_lines_shows_none() {
        let begin = Instant::now();
        let mut display = OpenDisplay::default();
        display.note_output(true, begin);
        for round in 1..10_i64 {
            let now = display.due().unwrap();
            let young = vec![line(round * 500_000 - 10, "half of one")];
            assert_eq!(display.renew(young, round * 500_000, now), None);
        }
    }

    #[test]
    fn they_are_read_as_they_were_written_last() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(read_open(place.path()).unwrap(), Some(Vec::new()));
        let lines = [line(1, "Password: ")];
        write_open(place.path(), &lines).unwrap();
        assert_eq!(read_open(place.path()).unwrap().as_deref(), Some(&lines[..]));
        fs::write(place.path().join("open.json"), "[{\"at\":").unwrap();
        assert_eq!(read_open(place.path()).unwrap(), None);
    }
}
