//! The last lines of a log that match a pattern, with what its named groups captured.
//!
//! A file is searched backwards from its end once, and from then on only added lines are read, across rotation,
//! truncation and replacement. No collection reads more than [`Options::search`] of any file, nor waits for a writer.
//! The place in the file and the matches are kept in the collector's folder, if it has one, so that a restart neither
//! loses nor repeats a line. A last match stays until there is a newer one, also when the file is gone.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use crate::{Collector, CollectorKind, Failure, Param, Params, Reading, Surroundings};

mod find;
mod follow;
mod matches;
mod pattern;
mod place;
mod scan;
mod source;
mod stored;
#[cfg(test)]
mod tests;

use find::Target;
use follow::Follower;
use pattern::{Match, Pattern};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "log_tail",
    about: "the last lines of a log that match a pattern, and what its named groups captured",
    params: &[
        Param::required(
            "path",
            "the file; {node} is the node's name; with `*` or `?` in its name, the newest that matches",
        ),
        Param::required("pattern", "a regular expression; its named groups are the values"),
        Param::optional("lines", "how many of the last matching lines to give, 1 to 100 (1)"),
        Param::optional("search", "the most bytes to read of a file at a time (67108864)"),
    ],
    default: None,
    make,
};

/// Stands for the node's name in a path, for nodes that share a disk.
const NODE: &str = "{node}";
const MOST_LINES: usize = 100;
const SEARCH: u64 = 64 << 20;

/// A value may have 64 KiB; the oldest matches go when it would be more than this.
const MOST_BYTES: usize = 60 * 1024;

struct Options {
    target: Target,
    pattern: Pattern,
    lines: usize,
    /// The most bytes that one collection reads of a file.
    search: u64,
    folder: Option<PathBuf>,
}

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    Ok(Box::new(made(params, around)?))
}

fn made(params: &Params, around: &Surroundings) -> Result<LogTail, String> {
    let path = params.required("path")?;
    let path = match &around.node {
        Some(node) => path.replace(NODE, node),
        // A registration is checked where there is no node; without a name there is no such file.
        None => path,
    };
    let target = Target::new(&path)?;
    let pattern = Pattern::new(&params.required("pattern")?)?;
    let lines = whole(params, "lines", 1, 1..=MOST_LINES as u64)?;
    let search = whole(params, "search", SEARCH, 4096..=1 << 32)?;
    let options = Options { target, pattern, lines: lines as usize, search, folder: around.folder.clone() };
    Ok(LogTail { follower: Follower::new(options, around.bounds.clone()) })
}

fn whole(
    params: &Params,
    name: &str,
    otherwise: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, String> {
    let Some(number) = params.number(name)? else { return Ok(otherwise) };
    let whole = (number.fract() == 0.0 && number >= 0.0).then_some(number as u64);
    whole.filter(|whole| range.contains(whole)).ok_or_else(|| {
        format!("the parameter `{name}` is {number}; expected {} to {}", range.start(), range.end())
    })
}

struct LogTail {
    follower: Follower,
}

impl Collector for LogTail {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let looked = self.follower.look(until);
        self.follower.keep();
        let here = looked?;
        let follower = &self.follower;
        let target = &follower.options.target;
        let Some(last) = follower.seen.last(1).next() else {
            return Err(Failure::NotHere(match here {
                true => format!("no line of {target} matches so far"),
                false => format!("there is no {target}"),
            }));
        };
        let mut value = last.shown();
        value["count"] = json!(follower.seen.count);
        value["path"] = json!(follower.path());
        if !here {
            value["gone"] = json!(true);
        }
        if follower.options.lines > 1 {
            value["matches"] = several(follower.seen.last(follower.options.lines), &value);
        }
        Ok(Reading::Here(value))
    }
}

/// The last matches, the oldest first, as many as fit beside the rest of the value.
fn several<'a>(newest_first: impl Iterator<Item = &'a Match>, rest: &Value) -> Value {
    let mut left = MOST_BYTES.saturating_sub(rest.to_string().len());
    let mut matches = Vec::new();
    for one in newest_first.map(Match::shown) {
        let size = one.to_string().len() + 1;
        if size > left {
            break;
        }
        left -= size;
        matches.push(one);
    }
    matches.reverse();
    Value::Array(matches)
}
