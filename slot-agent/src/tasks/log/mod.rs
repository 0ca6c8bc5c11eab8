//! The log of an attempt: its output in lines, on disk before anything else happens to it.
//!
//! Lines are numbered in the order in which they were finished, over both streams. What is dropped has its numbers, too,
//! so a gap says how much there was. [`splitter`] makes lines of bytes, [`frames`] of a container's log, [`writer`] keeps them, [`reader`] takes them up
//! again; [`open`] shows those that have not ended. A file of the log begins with the line that it is named for, and has one line of text for each: its number and
//! its JSON.

mod frames;
mod open;
mod reader;
mod splitter;
mod writer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use estimand_api::task_log::{OpenLine, TaskLogLine};

pub use frames::Frames;
pub use open::{OpenDisplay, read_open, write_open};
pub use reader::{LogReader, Position};
pub use splitter::Splitter;
pub use writer::LogWriter;

/// A part of the output: the lines that end in it, and those that are open behind it.
#[derive(Debug, Default)]
pub struct OutputPart {
    pub lines: Vec<TaskLogLine>,
    pub open: Vec<OpenLine>,
}

/// The files of a log, by the number of their first line.
fn segments(folder: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number: Option<u64> = name.to_str().and_then(|name| name.strip_prefix("log.")?.parse().ok());
        found.extend(number);
    }
    found.sort_unstable();
    Ok(found)
}

fn segment(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("log.{first:020}"))
}

#[cfg(test)]
mod tests;
