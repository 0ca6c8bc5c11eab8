//! The state that outlives the collector, as a file in its folder. It is of use only for the same path and pattern.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Options;
use super::matches::Matches;
use super::pattern::Match;
use super::place::Place;

/// One that is larger was not written by this.
const MOST_BYTES: u64 = 4 << 20;

/// The stored state, read.
pub(super) struct StoredState {
    pub seen: Matches,
    pub known: Vec<Place>,
    pub file: Option<String>,
    pub place: Option<Place>,
}

fn path(folder: &Path) -> PathBuf {
    folder.join("log_tail.json")
}

pub(super) fn read(folder: &Path) -> Option<String> {
    let path = path(folder);
    let small =
        std::fs::metadata(&path).ok().is_some_and(|about| about.is_file() && about.len() <= MOST_BYTES);
    small.then(|| std::fs::read_to_string(path).ok())?
}

/// Whole or not at all, as far as processes see it; after a loss of power the past is searched again.
pub(super) fn write(folder: &Path, text: &str) -> std::io::Result<()> {
    let new = folder.join("log_tail.json.new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, path(folder))
}

/// Reads what was written for the same; none if it was for something else, or nothing was read then.
pub(super) fn parse(text: &str, options: &Options) -> Option<StoredState> {
    let value: Value = serde_json::from_str(text).ok()?;
    let same = value.get("path")?.as_str()? == options.target.to_string()
        && value.get("pattern")?.as_str()? == options.pattern.text()
        && value.get("lines")?.as_u64()? == options.lines as u64
        && value.get("begun")?.as_bool()?;
    if !same {
        return None;
    }
    let mut seen = Matches::new(options.lines);
    seen.count = value.get("count")?.as_u64()?;
    seen.matches = value.get("matches")?.as_array()?.iter().map(Match::read).collect::<Option<_>>()?;
    Some(StoredState {
        seen,
        known: value.get("known")?.as_array()?.iter().filter_map(Place::read).collect(),
        file: value.get("file").and_then(Value::as_str).map(str::to_owned),
        place: value.get("place").and_then(Place::read),
    })
}
