//! Merges the files of all attempts on all nodes: one result for each image.
//!
//! Only whole lines count. The line with the earliest time is the result of its image, so that the outcome does not
//! depend on the time or order of merging. Later lines that differ are conflicts. The state of the scheduler plays no
//! part.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The result of one image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageResult {
    pub image: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The reason for a missing label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub node: String,
    /// When it was done, RFC 3339 in UTC: the order of the texts is that of the times.
    pub at: String,
}

impl ImageResult {
    fn agrees_with(&self, other: &ImageResult) -> bool {
        self.label == other.label && self.error.is_some() == other.error.is_some()
    }
}

/// The results of all images.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MergedResults {
    pub results: BTreeMap<String, ImageResult>,
    /// Lines beyond the first one of an image.
    pub duplicates: u64,
    /// Those among them that differ from the first.
    pub conflicts: u64,
    /// Lines that cannot be parsed: cut off by a crash.
    pub unreadable: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct Error {
    path: PathBuf,
    #[source]
    cause: io::Error,
}

/// Merges what is in `OUT/<job>/*.jsonl`.
pub fn merge_folder(out: &Path, job: &str) -> Result<MergedResults, Error> {
    let folder = out.join(job);
    let at = |path: &Path| {
        let path = path.to_owned();
        move |cause| Error { path, cause }
    };
    let entries = fs::read_dir(&folder).map_err(at(&folder))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(at(&folder))?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            files.push(fs::read(&path).map_err(at(&path))?);
        }
    }
    Ok(merge(files.iter().map(Vec::as_slice)))
}

/// Merges files' contents; their order does not matter.
pub fn merge<'a>(files: impl IntoIterator<Item = &'a [u8]>) -> MergedResults {
    let mut merged = MergedResults::default();
    let mut all: BTreeMap<String, Vec<ImageResult>> = BTreeMap::new();
    for file in files {
        for line in file.split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice::<ImageResult>(line) {
                Ok(answer) if line.ends_with(b"\n") => {
                    all.entry(answer.image.clone()).or_default().push(answer);
                }
                _ if line.trim_ascii().is_empty() => {}
                _ => merged.unreadable += 1,
            }
        }
    }
    for (image, mut results) in all {
        results.sort_by(|a, b| (&a.at, &a.node).cmp(&(&b.at, &b.node)));
        let mut results = results.into_iter();
        let Some(first) = results.next() else { continue };
        for later in results {
            merged.duplicates += 1;
            merged.conflicts += u64::from(!later.agrees_with(&first));
        }
        merged.results.insert(image, first);
    }
    merged
}

impl MergedResults {
    /// The images without a result.
    pub fn missing<'i>(&self, images: impl IntoIterator<Item = &'i str>) -> Vec<&'i str> {
        images.into_iter().filter(|image| !self.results.contains_key(*image)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn line(image: &str, label: u64, node: &str, second: u8) -> String {
        format!(
            r#"{{"image":"{image}","label":{label},"score":0.5,"node":"{node}","at":"2026-11-21T12:00:{second:02}.000Z"}}"#
        )
    }

    #[test]
    fn the_first_line_about_an_image_counts_in_any_file() {
        let one = format!("{}\n{}\n", line("a", 1, "n", 5), line("b", 2, "n", 6));
        let other = format!("{}\n{}\n{}\n", line("b", 3, "m", 4), line("a", 1, "m", 7), line("c", 4, "m", 8));
        let merged = merge([one.as_bytes(), other.as_bytes()]);
        assert_eq!(merged, merge([other.as_bytes(), one.as_bytes()]));
        let seen: Vec<_> =
            merged.results.values().map(|answer| (answer.label.unwrap(), &*answer.node)).collect();
        assert_eq!(seen, [(1, "n"), (3, "m"), (4, "m")]);
        assert_eq!((merged.duplicates, merged.conflicts, merged.unreadable), (2, 1, 0));
        assert_eq!(merged.missing(["a", "d", "c"]), ["d"]);
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_count() {
        let whole = line("a", 1, "n", 1);
        let file = format!("\0\0\n{whole}\n\n{}", line("b", 1, "n", 2));
        let merged = merge([file.as_bytes()]);
        assert_eq!((merged.results.len(), merged.unreadable), (1, 2));
    }

    #[test]
    fn a_failure_is_a_result_and_a_label_besides_it_a_conflict() {
        let failed = r#"{"image":"a","error":"broken","node":"n","at":"2026-11-21T12:00:00.000Z"}"#;
        let file = format!("{failed}\n{}\n", line("a", 1, "m", 1));
        let merged = merge([file.as_bytes()]);
        assert_eq!(merged.results["a"].error.as_deref(), Some("broken"));
        assert_eq!(merged.conflicts, 1);
    }
}
