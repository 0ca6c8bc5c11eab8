//! Brings out the log of a task: each line where the task wrote it, and on a terminal the unfinished one, which is drawn anew
//! while it changes.

use std::io::{self, IsTerminal as _, Write as _};

use estimand_api::task_log::{LogStream, TaskLogEntry, TaskLogPage, TaskStream};

use crate::output::failure::Failure;
use crate::output::harmless::visible;
use crate::output::{Output, remark};

/// Goes to the beginning of the terminal's line, and empties it.
const ERASE: &str = "\r\x1b[K";

#[derive(Default)]
pub struct LogPrinter {
    /// Both streams go to standard output, byte for byte.
    is_raw: bool,
    /// The terminal's line shows an unfinished one.
    is_drawn: bool,
}

impl LogPrinter {
    pub fn new(stream: Option<LogStream>) -> Self {
        LogPrinter { is_raw: stream == Some(LogStream::Raw), is_drawn: false }
    }

    pub fn page(&mut self, out: &mut Output, page: &TaskLogPage) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_drawn) {
            out.end(ERASE)?;
            out.flush()?;
        }
        for line in &page.lines {
            self.line(out, line)?;
        }
        let goes_on = page.lines.last().is_some_and(|line| line.partial);
        if let (Some(open), Some(width), false) = (page.open.last(), out.style.width, goes_on) {
            out.end(&drawn(&open.text, width))?;
            self.is_drawn = true;
        }
        out.flush()?;
        Ok(())
    }

    /// An unfinished line stays as it is.
    pub fn finish(&mut self, out: &mut Output) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_drawn) {
            out.end("\n")?;
            out.flush()?;
        }
        Ok(())
    }

    fn line(&self, out: &mut Output, line: &TaskLogEntry) -> Result<(), Failure> {
        let written = line.written();
        if line.dropped > 0 {
            out.flush()?;
            remark(&format!("({} lines were dropped here: more was written than is kept)", line.dropped));
            if written.is_empty() {
                return Ok(());
            }
        }
        // The line that a terminal shows by then is written over.
        let erase = if line.text.contains('\r') { ERASE } else { "" };
        let end = if line.partial { "" } else { "\n" };
        let is_ended = self.is_raw || line.partial || written.ends_with(b"\n");
        let last = if is_ended { "" } else { "\n" };
        if self.is_raw || line.stream == TaskStream::Stdout {
            match out.style.width {
                Some(_) => {
                    out.end(erase)?;
                    out.part(shown(&line.text))?;
                    out.end(end)?;
                }
                None => {
                    out.bytes(&written)?;
                    out.end(last)?;
                }
            }
            return Ok(());
        }
        out.flush()?;
        let mut errors = io::stderr().lock();
        let text = if errors.is_terminal() {
            format!("{erase}{}{end}", visible(shown(&line.text))).into_bytes()
        } else {
            [&written, last.as_bytes()].concat()
        };
        // Nobody listening there is no reason to fail.
        let _ = errors.write_all(&text);
        Ok(())
    }
}

/// The part of a line that a terminal would show: what follows its last carriage return.
fn shown(text: &str) -> &str {
    text.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default()
}

/// The unfinished line in place of what the terminal's line showed. It stays on that one line.
fn drawn(text: &str, width: usize) -> String {
    let fitting: String = visible(text).chars().take(width.saturating_sub(1)).collect();
    format!("{ERASE}{fitting}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_the_last_state_of_a_line() {
        for (text, expected) in
            [("a", "a"), ("\r10%\r20%", "20%"), ("20%\r", "20%"), ("\r", ""), ("", ""), ("line\r", "line")]
        {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_unfinished_line_is_drawn_on_one_line_and_harmless() {
        assert_eq!(drawn("Password: ", 80), "\r\x1b[KPassword: ");
        assert_eq!(drawn("50% of it", 4), "\r\x1b[K50%");
        assert_eq!(drawn("\x1b[2Jx", 80), "\r\x1b[K\\u{1b}[2Jx");
    }
}
