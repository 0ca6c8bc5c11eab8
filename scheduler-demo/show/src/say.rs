//! What whoever watches is told: headings and tables on standard output, what moves on standard error.
//!
//! If standard output is for a program, everything but the report goes to standard error. Nobody listening is no
//! reason to stop.

use std::io::{self, Write};

use estimand_scheduler_demo::report::Live;
use estimand_scheduler_demo::run::Now;

pub struct Say {
    for_programs: bool,
    live: Live,
}

impl Say {
    /// `terminal`: how wide the terminal behind standard error is, if there is one.
    pub fn new(for_programs: bool, terminal: Option<usize>) -> Say {
        /// Of lines that nobody's terminal breaks.
        const WIDTH: usize = 100;
        Say { for_programs, live: Live::new(terminal.is_some(), terminal.unwrap_or(WIDTH).min(WIDTH)) }
    }

    /// A line, or several.
    pub fn line(&self, text: &str) {
        match self.for_programs {
            true => put(io::stderr(), text),
            false => put(io::stdout(), text),
        }
    }

    /// What a program reads.
    pub fn report(&self, text: &str) {
        if self.for_programs {
            put(io::stdout(), text);
        }
    }

    /// How far a run is.
    pub fn progress(&mut self, now: &Now) {
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
