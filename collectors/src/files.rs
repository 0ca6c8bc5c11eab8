//! Reads the small files of the kernel, up to a bound.
//!
//! Text that is not UTF-8 (names can be anything) is kept as far as it is, since a strange name of one thing must not
//! hide all others.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::{Failure, Roots};

/// The most that is read of one file: enough for the mounts of a node with tens of thousands of them.
const MOST: u64 = 16 << 20;

/// All of a file.
pub(crate) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file without which there is nothing to tell.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    required(path).map(|bytes| lossy(&bytes))
}

/// All of a file without which there is nothing to tell.
pub(crate) fn required(path: &Path) -> Result<Vec<u8>, Failure> {
    bytes(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::NotHere(format!("there is no {}", path.display())),
        _ => Failure::Failed(format!("{}: {error}", path.display())),
    })
}

/// The text of a file that may be missing, without white space around it.
pub(crate) fn optional(path: &Path) -> Option<String> {
    bytes(path).ok().map(|bytes| lossy(&bytes).trim().to_owned())
}

/// The number behind a word at the beginning of a line.
pub(crate) fn word(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(word, _)| *word == name)?.1.trim().parse().ok()
}

/// A file that is one number.
pub(crate) fn number(path: &Path) -> Option<u64> {
    optional(path)?.parse().ok()
}

/// A file of `/proc` that differs from process to process, as processes outside of containers see it: where the
/// roots lead out of a container, that is the machine's first process.
pub(crate) fn of_machine(roots: &Roots, name: &str) -> PathBuf {
    let first = roots.proc.join("1").join(name);
    if roots.root != Path::new("/") && first.exists() {
        return first;
    }
    roots.proc.join("self").join(name)
}

/// A path that the kernel names, as it is reached from here.
pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The lines that are whole: one that was cut off would be taken for another number.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

/// How many a list such as `0-3,8,10-11` names.
pub(crate) fn count_of_list(list: &str) -> Option<u64> {
    let mut count = 0u64;
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted() {
        let cases = [("0", Some(1)), ("0-3,8,10-11\n", Some(7)), ("", Some(0)), ("3-1", None), ("a", None)];
        for (list, count) in cases {
            assert_eq!(count_of_list(list), count, "{list}");
        }
        assert_eq!(count_of_list("0-18446744073709551615"), None);
    }

    #[test]
    fn a_line_without_an_end_is_none() {
        assert_eq!(lines("a\nb\nc").collect::<Vec<_>>(), ["a", "b"]);
    }
}
