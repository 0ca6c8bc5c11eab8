//! The results of one job on one node: a file an attempt, a line an image.
//!
//! `OUT/<job>/<node>.<attempt>.jsonl`; an attempt is one life of the worker. An image with a whole line of an earlier
//! attempt is done; a line that was cut off by a crash does not count. So each image has exactly one readable line in a
//! node's files, however often its worker is killed. A lock keeps a second worker of the same node out.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat, Utc};
use estimand_api::names::NodeName;
use serde::{Deserialize, Serialize};

use crate::network::Verdict;

/// The result of one image: a label with its score, or an error.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record<'a> {
    pub image: &'a str,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub node: &'a NodeName,
    /// When it was done.
    pub at: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    Labelled { label: usize, score: f32 },
    Failed { error: String },
}

impl From<Result<Verdict, String>> for Outcome {
    fn from(result: Result<Verdict, String>) -> Self {
        match result {
            Ok(Verdict { label, score }) => Outcome::Labelled { label, score },
            Err(error) => Outcome::Failed { error },
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct ResultsError {
    path: PathBuf,
    cause: io::Error,
}

/// The files of a job on a node, of which one is being written.
pub struct Results {
    node: NodeName,
    path: PathBuf,
    file: File,
    done: HashSet<String>,
    /// Lines that are not in the file yet.
    pending: Vec<u8>,
    pending_lines: usize,
    /// Held as long as this lives.
    _lock: File,
}

impl Results {
    /// Waits for an earlier worker of this node to end, reads what was done before, and begins a file.
    pub fn open(out: &Path, job: &str, node: &NodeName) -> Result<Self, ResultsError> {
        let folder = out.join(job);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |cause| ResultsError { path, cause }
        };
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let lock_path = folder.join(format!("{node}.lock"));
        let lock = File::create(&lock_path).map_err(at(&lock_path))?;
        lock.lock().map_err(at(&lock_path))?;
        let (mut done, mut attempt) = (HashSet::new(), 0);
        for (number, path) in attempts(&folder, node).map_err(at(&folder))? {
            attempt = attempt.max(number);
            read_done(&path, &mut done).map_err(at(&path))?;
        }
        let path = folder.join(format!("{node}.{}.jsonl", attempt + 1));
        let file = OpenOptions::new().create_new(true).append(true).open(&path).map_err(at(&path))?;
        // A file is there after a crash of the machine only if its folder knows of it.
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(at(&folder))?;
        let node = node.clone();
        Ok(Results { node, path, file, done, pending: Vec::new(), pending_lines: 0, _lock: lock })
    }

    /// All images that this node has a result of, those that aren't durable yet among them.
    pub fn done(&self) -> &HashSet<String> {
        &self.done
    }

    pub fn pending(&self) -> usize {
        self.pending_lines
    }

    /// Takes a result; one about an image that has one already is dropped.
    pub fn add(&mut self, image: &str, outcome: Outcome, at: DateTime<Utc>) -> Result<(), ResultsError> {
        if !self.done.insert(image.to_owned()) {
            return Ok(());
        }
        let at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let record = Record { image, outcome, node: &self.node, at };
        serde_json::to_writer(&mut self.pending, &record).map_err(|error| self.failed(error.into()))?;
        self.pending.push(b'\n');
        self.pending_lines += 1;
        Ok(())
    }

    /// Makes all that was taken durable.
    pub fn flush(&mut self) -> Result<(), ResultsError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.pending).and_then(|()| self.file.sync_data());
        written.map_err(|error| self.failed(error))?;
        self.pending.clear();
        self.pending_lines = 0;
        Ok(())
    }

    fn failed(&self, cause: io::Error) -> ResultsError {
        ResultsError { path: self.path.clone(), cause }
    }
}

/// The files of this node with their numbers.
fn attempts(folder: &Path, node: &NodeName) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(node.as_str())?.strip_prefix('.'));
        let number = rest.and_then(|rest| rest.strip_suffix(".jsonl")?.parse().ok());
        found.extend(number.map(|number| (number, entry.path())));
    }
    Ok(found)
}

/// Only whole lines count, as for every reader of results.
fn read_done(path: &Path, done: &mut HashSet<String>) -> io::Result<()> {
    #[derive(Deserialize)]
    struct ImageName {
        image: String,
    }
    let bytes = fs::read(path)?;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    done.extend(
        lines.filter_map(|line| serde_json::from_slice::<ImageName>(line).ok()).map(|named| named.image),
    );
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::parse(name).unwrap()
    }

    fn open(folder: &Path, name: &str) -> Results {
        Results::open(folder, "job", &node(name)).unwrap()
    }

    const LABELLED: Outcome = Outcome::Labelled { label: 3, score: 0.5 };

    #[test]
    fn a_line_has_the_label_or_the_error_of_an_image() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = open(folder.path(), "n");
        let at = DateTime::from_timestamp_millis(1_700_000_000_123).unwrap();
        results.add("a.jpg", LABELLED, at).unwrap();
        results.add("b.jpg", Outcome::Failed { error: "broken".into() }, at).unwrap();
        results.add("a.jpg", LABELLED, at).unwrap();
        assert_eq!(results.pending(), 2);
        results.flush().unwrap();
        let text = fs::read_to_string(folder.path().join("job/n.1.jsonl")).unwrap();
        let expected = concat!(
            r#"{"image":"a.jpg","label":3,"score":0.5,"node":"n","at":"2023-11-14T22:13:20.123Z"}"#,
            "\n",
            r#"{"image":"b.jpg","error":"broken","node":"n","at":"2023-11-14T22:13:20.123Z"}"#,
            "\n",
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn an_attempt_knows_the_whole_lines_of_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = open(folder.path(), "n");
        first.add("a", LABELLED, Utc::now()).unwrap();
        first.flush().unwrap();
        drop(first);
        let path = folder.path().join("job/n.1.jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        // The machine went down: a hole, another whole line, one without an end.
        file.write_all(b"\0\0\0\0\n{\"image\":\"b\",\"label\":1}\n{\"image\":\"c\",\"label\":1}").unwrap();
        let second = open(folder.path(), "n");
        assert_eq!(second.done(), &HashSet::from(["a".to_owned(), "b".to_owned()]));
        assert!(folder.path().join("job/n.2.jsonl").exists());
    }

    #[test]
    fn names_that_begin_alike_are_not_mixed_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut one = open(folder.path(), "n.1");
        one.add("a", LABELLED, Utc::now()).unwrap();
        one.flush().unwrap();
        assert!(open(folder.path(), "n").done().is_empty());
    }

    #[test]
    fn a_second_worker_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = open(folder.path(), "n");
        let path = folder.path().to_owned();
        let second = std::thread::spawn(move || open(&path, "n").done().clone());
        first.add("a", LABELLED, Utc::now()).unwrap();
        first.flush().unwrap();
        drop(first);
        assert_eq!(
            second.join().unwrap(),
            HashSet::from(["a".to_owned()]),
            "it read what the first had done"
        );
    }
}
