//! The record of an attempt, which its keeper writes: that it has begun, that it runs, how it has ended.
//!
//! It is the file `begun`. Its maker begins the attempt, and a file is made once, so nobody else does. The first line is the
//! name of that keeper, and each step adds a line with one write. A line counts when its end is there: one that a full disk,
//! a kill or a power cut left unfinished is passed over, as is a line that makes no sense. Blocking.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use estimand_api::task::TaskEnding;
use estimand_api::task_usage::TaskUsage;
use serde::{Deserialize, Serialize};

const RUNNING: &str = "running";
const END: &str = "end";

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Microseconds since 1970.
    pub at: i64,
    pub ending: TaskEnding,
    /// The end of its program, where the ending is the reason for which it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<TaskEnding>,
    /// None: it was not measured, as in what versions of before wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<TaskUsage>,
}

/// The steps of an attempt of which its record tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// The keeper that began it, if it came to write its name.
    pub keeper: Option<String>,
    /// When its program was executed, in microseconds since 1970.
    pub running: Option<i64>,
    pub end: Option<End>,
}

/// A record in the hands of its keeper.
#[derive(Debug)]
pub struct Record {
    file: File,
    /// There may be a part of a line at its end.
    is_torn: bool,
}

/// The moment at which an attempt began.
#[derive(Debug)]
pub enum Beginning {
    Now(Record),
    /// By the keeper of this name, if it came to write it.
    Before(Record, Option<String>),
}

impl Steps {
    /// None without a record.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(Steps::of(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn of(bytes: &[u8]) -> Self {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        // A name is short enough to be written whole or not at all.
        let name = lines.next().and_then(|line| std::str::from_utf8(line).ok()).map(str::trim_ascii_end);
        let keeper = name.filter(|name| is_name(name)).map(str::to_owned);
        let mut steps = Steps { keeper, ..Steps::default() };
        for line in lines.filter_map(|line| std::str::from_utf8(line.strip_suffix(b"\n")?).ok()) {
            match line.split_once(' ') {
                Some((RUNNING, at)) => steps.running = steps.running.or(at.parse().ok()),
                Some((END, end)) => steps.end = steps.end.or_else(|| serde_json::from_str(end).ok()),
                _ => {}
            }
        }
        steps
    }
}

impl Record {
    /// Has this keeper begin the attempt, if it is the first.
    pub fn begin(path: &Path, keeper: &str) -> io::Result<Beginning> {
        match OpenOptions::new().append(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                file.write_all(format!("{keeper}\n").as_bytes())?;
                Ok(Beginning::Now(Record { file, is_torn: false }))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let bytes = fs::read(path)?;
                let file = OpenOptions::new().append(true).open(path)?;
                let record = Record { file, is_torn: !bytes.ends_with(b"\n") };
                Ok(Beginning::Before(record, Steps::of(&bytes).keeper))
            }
            Err(error) => Err(error),
        }
    }

    /// Its program was executed.
    pub fn add_running(&mut self, at: i64) -> io::Result<()> {
        self.add(RUNNING, &at.to_string())
    }

    /// Nothing of it runs any more.
    pub fn add_end(&mut self, end: &End) -> io::Result<()> {
        self.add(END, &serde_json::to_string(end)?)
    }

    fn add(&mut self, word: &str, text: &str) -> io::Result<()> {
        let separator = if self.is_torn { "\n" } else { "" };
        self.is_torn = true;
        self.file.write_all(format!("{separator}{word} {text}\n").as_bytes())?;
        self.is_torn = false;
        Ok(())
    }
}

/// A name is also that of a pipe.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ENDED: End = End { at: 9, ending: TaskEnding::Exit(3), program: None, used: None };

    fn read(path: &Path) -> Steps {
        Steps::read(path).unwrap().unwrap()
    }

    #[test]
    fn an_attempt_begins_once_and_its_steps_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("begun");
        assert_eq!(Steps::read(&path).unwrap(), None);
        let Beginning::Now(mut record) = Record::begin(&path, "keeper-1").unwrap() else { panic!() };
        assert_eq!(read(&path), Steps { keeper: Some("keeper-1".into()), ..Steps::default() });
        record.add_running(7).unwrap();
        let Beginning::Before(mut next, keeper) = Record::begin(&path, "keeper-2").unwrap() else { panic!() };
        assert_eq!(keeper.as_deref(), Some("keeper-1"));
        next.add_end(&ENDED).unwrap();
        let steps = Steps { keeper, running: Some(7), end: Some(ENDED) };
        assert_eq!(read(&path), steps);
        // No end is taken back.
        next.add_end(&End { at: 10, ending: TaskEnding::NodeLost, program: None, used: None }).unwrap();
        assert_eq!(read(&path), steps);
    }

    #[test]
    fn an_end_keeps_what_was_used_and_one_of_before_is_read() {
        let used = TaskUsage { ran_us: 7, memory_peak: Some(9), ..TaskUsage::default() };
        let end = End { used: Some(used), ..ENDED };
        let text = serde_json::to_string(&end).unwrap();
        let read = |end: &str| Steps::of(format!("keeper-1\nend {end}\n").as_bytes()).end;
        assert_eq!(read(&text), Some(end));
        assert_eq!(read(r#"{"at":9,"ending":{"exit":3}}"#), Some(ENDED));
    }

    /// The writer may have died anywhere, and a power cut left anything.
    #[test]
    fn the_next_keeper_goes_on_behind_an_unfinished_line() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("begun");
        let whole = format!("keeper-1\nrunning 7\nend {}\n", serde_json::to_string(&ENDED).unwrap());
        let lost = End { at: 11, ending: TaskEnding::NodeLost, program: None, used: None };
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let before = read(&path);
            assert_eq!(before.end.is_some(), cut == whole.len(), "{cut}");
            let Beginning::Before(mut record, _) = Record::begin(&path, "keeper-2").unwrap() else {
                panic!()
            };
            record.add_end(&lost).unwrap();
            let end = read(&path).end.unwrap();
            // A line of which only its end was missing is whole now.
            let first = if cut + 1 >= whole.len() { &ENDED } else { &lost };
            assert_eq!(&end, first, "{cut}");
        }
        for bytes in [&b"\0\0\0\0"[..], b"\xff\xff\nend \xff\n", b"../x\nend {}\n"] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(read(&path), Steps::default());
        }
    }
}
