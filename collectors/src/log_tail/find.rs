//! Finds the file: the one of a name, or the newest of those whose names match.

use std::fmt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::source::{Reads, Source, found};
use crate::Failure;

/// More entries of a directory are not looked at.
const MOST_ENTRIES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    One(PathBuf),
    Newest { directory: PathBuf, name: String },
}

impl Target {
    pub(super) fn new(path: &str) -> Result<Self, String> {
        let wild = |text: &str| text.contains(['*', '?']);
        if !wild(path) {
            return Ok(Target::One(path.into()));
        }
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
        if wild(directory) || name.is_empty() {
            return Err(format!(
                "the parameter `path` is `{path}`; only the file's name may have `*` and `?`"
            ));
        }
        let directory = if directory.is_empty() { "/" } else { directory };
        Ok(Target::Newest { directory: directory.into(), name: name.to_owned() })
    }

    /// Opens it; none if it is not there.
    pub(super) fn open(&self, reads: &Reads) -> Result<Option<Source>, Failure> {
        match self {
            Target::One(path) => Source::open(path, reads),
            Target::Newest { directory, name } => match newest(directory, name, reads)? {
                Some(path) => Source::open(&path, reads),
                None => Ok(None),
            },
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::One(path) => write!(f, "{}", path.display()),
            Target::Newest { directory, name } => write!(f, "{}", directory.join(name).display()),
        }
    }
}

fn newest(directory: &Path, pattern: &str, reads: &Reads) -> Result<Option<PathBuf>, Failure> {
    let Some(found) = found(directory, reads.bounds.find(directory))? else { return Ok(None) };
    let listed = found.entries();
    let entries = listed.map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
    let entries = entries.take(MOST_ENTRIES).flatten();
    let files = entries.filter_map(|entry| {
        if !fits(pattern.as_bytes(), entry.file_name().as_encoded_bytes()) {
            return None;
        }
        let about = std::fs::metadata(entry.path()).ok().filter(std::fs::Metadata::is_file)?;
        Some((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), directory.join(entry.file_name())))
    });
    Ok(files.max().map(|(_, path)| path))
}

/// Where a file of an inode is in the directory of a path: that path itself, or what it was renamed to.
pub(super) fn renamed(path: &Path, inode: u64) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(path.parent()?).ok()?.take(MOST_ENTRIES).flatten();
    entries.find(|entry| entry.ino() == inode).map(|entry| entry.path())
}

/// True if a name fits a pattern with `*` and `?`. Goes back to the last `*` only, so it takes no longer than the
/// product of both lengths.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(letter) if *letter == b'?' || *letter == name[at] => {
                (at, of) = (at + 1, of + 1);
            }
            _ => match star {
                Some((begin, taken)) => {
                    star = Some((begin, taken + 1));
                    (at, of) = (taken + 1, begin + 1);
                }
                None => return false,
            },
        }
    }
    pattern[of..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, expected) in [
            ("*.log", "a.log", true),
            ("*.log", ".log", true),
            ("*.log", "a.log.1", false),
            ("w?-*.log", "w1-x-y.log", true),
            ("w?-*.log", "w-x.log", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a", "a", true),
            ("a", "", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
        assert!(!fits("*a".repeat(200).as_bytes(), "a".repeat(199).as_bytes()));
    }
}
