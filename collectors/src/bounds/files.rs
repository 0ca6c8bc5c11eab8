//! The files that may be read: those in folders, and single ones.

use std::path::{Path, PathBuf};

use super::Barrier;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowRead {
    #[default]
    Everything,
    /// Folders and files, with the links followed that there were when this was made.
    These(Vec<PathBuf>),
}

impl AllowRead {
    /// Those that are not there yet are allowed as well.
    pub fn these(paths: &[PathBuf]) -> Self {
        AllowRead::These(paths.iter().map(|path| real(path)).collect())
    }

    /// Refuses what does not lie, all links followed, where reading is allowed.
    pub(super) fn check(&self, path: &Path, real: &Path) -> Result<(), Barrier> {
        let AllowRead::These(allowed) = self else { return Ok(()) };
        if allowed.iter().any(|place| real.starts_with(place)) {
            return Ok(());
        }
        let shown: Vec<String> = allowed.iter().map(|place| place.display().to_string()).collect();
        let shown =
            if shown.is_empty() { "nothing".to_owned() } else { format!("only {}", shown.join(", ")) };
        let lies = if path == real { String::new() } else { format!(" (it is {})", real.display()) };
        Err(Barrier::Refused(format!(
            "{}{lies} is not read: the agent on this node allows {shown} to be read; `--allow-read {}` allows it",
            path.display(),
            real.display()
        )))
    }
}

/// A path with all links followed, as far as there is something.
pub(super) fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut there = absolute.as_path();
    loop {
        let Some(parent) = there.parent() else { return absolute };
        if let Ok(real) = there.canonicalize() {
            let rest = absolute.strip_prefix(there).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
        there = parent;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::Bounds;
    use super::*;

    #[test]
    fn only_what_lies_where_it_is_allowed_is_found() {
        let place = tempfile::tempdir().unwrap();
        let of = |name: &str| place.path().join(name);
        for folder in ["good", "bad", "later"] {
            fs::create_dir(of(folder)).unwrap();
        }
        for file in ["good/a", "bad/b", "single", "single2"] {
            fs::write(of(file), "x").unwrap();
        }
        symlink(of("bad/b"), of("good/out")).unwrap();
        symlink("../good/a", of("bad/in")).unwrap();
        symlink("../bad", of("good/way")).unwrap();
        symlink("/no/such", of("good/dangling")).unwrap();
        symlink("good", of("alias")).unwrap();
        let read = AllowRead::these(&[of("alias"), of("single"), of("later/x")]);
        let bounds = Bounds { read, ..Bounds::default() };
        let check = |path: &str, expected: &str| {
            let found = match bounds.find(&of(path)) {
                Ok(found) => format!("found {}", found.real.strip_prefix(place.path()).unwrap().display()),
                Err(Barrier::Refused(why)) => why,
                Err(Barrier::Io(error)) => error.to_string(),
            };
            assert!(found.contains(expected), "{path}: {found}");
        };
        check("good/a", "found good/a");
        check("good", "found good");
        check("alias/a", "found good/a");
        check("bad/in", "found good/a");
        check("single", "found single");
        check("later/x", "No such file");
        check("good/none", "No such file");
        check("good/none/deep", "No such file");
        for refused in [
            "bad/b",
            "good/out",
            "good/way/b",
            "good/../bad/b",
            "single2",
            "bad/none",
            "good/way/none",
            "later",
        ] {
            check(refused, "`--allow-read ");
        }
        check("good/dangling", "No such file");
        let nothing = Bounds { read: AllowRead::these(&[]), ..Bounds::default() };
        let Err(Barrier::Refused(why)) = nothing.find(&of("good/a")) else { panic!("it was found") };
        assert!(why.contains("allows nothing to be read"), "{why}");
        assert!(Bounds::default().find(&of("bad/b")).is_ok());
    }
}
