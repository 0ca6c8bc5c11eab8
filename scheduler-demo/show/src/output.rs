//! Output for the user: headings and tables on standard output, progress on standard error.
//!
//! With `--json`, everything but the report goes to standard error. A failed write is no reason to stop.

use std::io::{self, Write};

use estimand_scheduler_demo::report::LiveBars;
use estimand_scheduler_demo::run::RunProgress;

pub struct Output {
    for_programs: bool,
    live: LiveBars,
}

impl Output {
    /// `terminal`: how wide the terminal behind standard error is, if there is one.
    pub fn new(for_programs: bool, terminal: Option<usize>) -> Output {
        /// Widest line, which no usual terminal wraps.
        const WIDTH: usize = 100;
        Output { for_programs, live: LiveBars::new(terminal.is_some(), terminal.unwrap_or(WIDTH).min(WIDTH)) }
    }

    /// A line, or several.
    pub fn line(&self, text: &str) {
        match self.for_programs {
            true => put(io::stderr(), text),
            false => put(io::stdout(), text),
        }
    }

    /// The report for a program.
    pub fn report(&self, text: &str) {
        if self.for_programs {
            put(io::stdout(), text);
        }
    }

    /// Progress of a run.
    pub fn progress(&mut self, now: &RunProgress) {
        let text = self.live.show(now);
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// The run is over.
    pub fn end_progress(&mut self) {
        let text = self.live.end();
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

fn put(mut out: impl Write, text: &str) {
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
