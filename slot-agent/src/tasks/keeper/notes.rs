//! Messages of a keeper for the operator: in `keeper.log` of the attempt that it keeps, else on standard error.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::super::folder::AttemptFolder;

/// Where it is written; a keeper has one attempt at a time.
static FILE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// From now on it is about this attempt.
pub fn concern(folder: &AttemptFolder) {
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.file("keeper.log"));
}

/// Says something. A full disk does not take it, which `eprintln` would end this process for.
pub fn say(text: fmt::Arguments<'_>) {
    let path = FILE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let file = path.and_then(|path| OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok());
    let _ = match file {
        Some(mut file) => file.write_all(format!("{text}\n").as_bytes()),
        None => writeln!(io::stderr(), "{text}"),
    };
}

/// The complaints of a keeper about one thing, each once in a row: it may try for days.
#[derive(Default)]
pub struct Complaints {
    last: String,
}

impl Complaints {
    pub fn say(&mut self, error: &dyn fmt::Display) {
        let text = error.to_string();
        if text != self.last {
            say(format_args!("{text}; it is tried again"));
            self.last = text;
        }
    }
}
