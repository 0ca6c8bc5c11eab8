//! What this machine's operator lets run here, and where a command's program is found.
//!
//! A program runs only if, with every link followed, it lies in an allowed folder; nothing is allowed by
//! default. That bounds which programs are started, not what they do: whoever allows the folder of an
//! interpreter allows whatever it can be told to do.

use std::path::{Component, Path, PathBuf};

/// Where programs without a path are looked for, after the allowed folders. Also the `PATH` they are given.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The folders whose executables may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow {
    Everything,
    /// As given, and with every link followed.
    Folders(Vec<(PathBuf, PathBuf)>),
}

/// A folder that cannot be allowed.
#[derive(Debug, thiserror::Error)]
#[error("cannot allow {}: {cause}", folder.display())]
pub struct AllowError {
    folder: PathBuf,
    cause: std::io::Error,
}

/// Why a command is not run, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRun {
    /// It is not there; it may come.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Refused(String),
}

impl Allow {
    pub fn folders(folders: &[PathBuf]) -> Result<Self, AllowError> {
        let real = |folder: &PathBuf| match folder.canonicalize() {
            Ok(real) => Ok((folder.clone(), real)),
            Err(cause) => Err(AllowError { folder: folder.clone(), cause }),
        };
        Ok(Allow::Folders(folders.iter().map(real).collect::<Result<_, _>>()?))
    }

    /// The folders, for people.
    pub fn shown(&self) -> Vec<String> {
        match self {
            Allow::Everything => vec!["/".to_owned()],
            Allow::Folders(folders) => folders.iter().map(|(given, _)| given.display().to_string()).collect(),
        }
    }

    /// The program that a command's first word means.
    pub fn resolve(&self, word: &str) -> Result<PathBuf, NotRun> {
        let found = self.find(word).map_err(NotRun::Missing)?;
        let real = found
            .canonicalize()
            .map_err(|e| NotRun::Missing(format!("`{word}` cannot be followed to its file: {e}")))?;
        match self {
            Allow::Everything => Ok(found),
            Allow::Folders(folders) if folders.iter().any(|(_, folder)| real.starts_with(folder)) => {
                Ok(found)
            }
            Allow::Folders(folders) if folders.is_empty() => Err(NotRun::Refused(format!(
                "`{word}` is not run: the agent on this node allows nothing; start it with `--allow FOLDER`"
            ))),
            Allow::Folders(_) => {
                let allowed = self.shown().join(", ");
                let real = real.display();
                Err(NotRun::Refused(format!(
                    "`{word}` is not run: it is {real}, and the agent on this node allows only what lies in {allowed}"
                )))
            }
        }
    }

    fn find(&self, word: &str) -> Result<PathBuf, String> {
        let path = Path::new(word);
        if path.is_absolute() {
            return match path.exists() {
                true => Ok(path.to_owned()),
                false => Err(format!("there is no `{word}` on this node")),
            };
        }
        let mut components = path.components();
        let single = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
        let allowed: Vec<&Path> = match self {
            Allow::Everything => Vec::new(),
            Allow::Folders(folders) => folders.iter().map(|(_, real)| real.as_path()).collect(),
        };
        let searched = SEARCH_PATH.split(':').map(Path::new).filter(|_| single);
        let mut places = allowed.into_iter().chain(searched).map(|folder| folder.join(path));
        places.find(|place| place.is_file()).ok_or_else(|| match single {
            true => format!(
                "there is no `{word}` in the folders that are allowed on this node, nor in {SEARCH_PATH}"
            ),
            false => format!(
                "there is no `{word}` in the folders that are allowed on this node; an absolute path is \
                 always clear"
            ),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_lies_in_an_allowed_folder_runs_and_nothing_else_does() {
        let place = tempfile::tempdir().unwrap();
        let (good, bad) = (place.path().join("good"), place.path().join("bad"));
        fs::create_dir_all(good.join("inner")).unwrap();
        fs::create_dir(&bad).unwrap();
        for file in [good.join("a"), good.join("inner/b"), bad.join("c")] {
            fs::write(file, "").unwrap();
        }
        symlink(bad.join("c"), good.join("out")).unwrap();
        symlink(good.join("a"), bad.join("in")).unwrap();
        let allow = Allow::folders(std::slice::from_ref(&good)).unwrap();
        let check = |word: &str, right: Result<&Path, &str>| match (allow.resolve(word), right) {
            (Ok(found), Ok(right)) => assert_eq!(found, right, "{word}"),
            (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{word}: {why}"),
            (found, _) => panic!("{word}: {found:?}"),
        };
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        check("a", Ok(&good.join("a")));
        check("inner/b", Ok(&good.join("inner/b")));
        check(&text(&good.join("a")), Ok(&good.join("a")));
        check(&text(&bad.join("in")), Ok(&bad.join("in")));
        check(&text(&bad.join("c")), Err("allows only"));
        check(&text(&good.join("out")), Err("allows only"));
        check(&text(&good.join("../bad/c")), Err("allows only"));
        check("../bad/c", Err("allows only"));
        check("sh", Err("allows only"));
        check("/no/such", Err("there is no"));
        check("inner/none", Err("absolute path"));
        assert!(
            Allow::folders(&[]).unwrap().resolve("sh").unwrap_err().to_string().contains("allows nothing")
        );
        assert!(Allow::Everything.resolve("sh").unwrap().ends_with("sh"));
    }
}
