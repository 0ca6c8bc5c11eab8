//! The programs that this machine's operator allows, and the search for the program of a command.
//!
//! A program runs only if, with every link followed, it lies in an allowed folder; nothing is allowed by
//! default. That bounds which programs are started, not what they do: an operator who allows the folder of an
//! interpreter allows whatever it can be told to do.
//!
//! The file that was checked is the one that is executed. A path that only root and the agent's own user could lead elsewhere is
//! executed as it is written, because scripts look at the name by which they were called; any other one
//! with every link followed, so that what lies behind it is in an allowed folder also when a link was changed meanwhile.
//! (Whoever may write into an allowed folder decides what runs in any case.)

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
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

/// The most links on the way to a file, as in the kernel.
const MAX_LINKS: usize = 40;

/// Where a path leads.
struct ResolvedPath {
    real: PathBuf,
    /// True if root and the agent's own user alone can change that.
    steady: bool,
}

/// The reason why a command is not run, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// It is not on this node; it may come.
    #[error("{0}")]
    Missing(String),
    /// Something else is in the way just now.
    #[error("{0}")]
    NotNow(String),
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

    /// The program that a command's first word means: the path to execute.
    pub fn resolve(&self, word: &str) -> Result<PathBuf, ProgramError> {
        let found = self.find(word).map_err(ProgramError::Missing)?;
        if *self == Allow::Everything {
            return Ok(found);
        }
        let followed = follow(&found)
            .map_err(|e| ProgramError::Missing(format!("`{word}` cannot be followed to its file: {e}")))?;
        self.check(word, &followed.real)?;
        Ok(if followed.steady { found } else { followed.real })
    }

    /// Refuses what does not lie, all links followed, in an allowed folder.
    pub fn check(&self, word: &str, real: &Path) -> Result<(), ProgramError> {
        match self {
            Allow::Everything => Ok(()),
            Allow::Folders(folders) if folders.iter().any(|(_, folder)| real.starts_with(folder)) => Ok(()),
            Allow::Folders(folders) if folders.is_empty() => Err(ProgramError::Refused(format!(
                "`{word}` is not run: the agent on this node allows nothing; start it with `--allow FOLDER`"
            ))),
            Allow::Folders(_) => {
                let allowed = self.shown().join(", ");
                let real = real.display();
                Err(ProgramError::Refused(format!(
                    "`{word}` is not run: it is {real}, and the agent on this node allows only what lies in {allowed}"
                )))
            }
        }
    }

    /// Where the word is looked for, and found.
    pub fn find(&self, word: &str) -> Result<PathBuf, String> {
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

/// Follows every link of an absolute path.
fn follow(path: &Path) -> io::Result<ResolvedPath> {
    let mut followed = ResolvedPath { real: PathBuf::from("/"), steady: true };
    let mut left: Vec<OsString> = Vec::new();
    let mut links = 0;
    push(&mut left, path);
    while let Some(next) = left.pop() {
        let entry = followed.real.join(&next);
        let real = &mut followed.real;
        if next == ".." {
            real.pop();
            continue;
        }
        let meta = entry.symlink_metadata()?;
        followed.steady &= is_steady(&real.symlink_metadata()?, &meta);
        if !meta.is_symlink() {
            *real = entry;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        // One that begins with `/` replaces all of what was followed so far.
        let target = entry.read_link()?;
        if target.is_absolute() {
            *real = PathBuf::from("/");
        }
        push(&mut left, &target);
    }
    Ok(followed)
}

/// Puts the parts of a path where the next one is taken from.
fn push(left: &mut Vec<OsString>, path: &Path) {
    left.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    }));
}

/// True if root and the agent's own user alone can put something else in the place of an entry.
fn is_steady(folder: &Metadata, entry: &Metadata) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let own = rustix::process::geteuid().as_raw();
    let trusted = |uid: u32| uid == 0 || uid == own;
    let closed = folder.mode() & OTHERS_WRITE == 0 || folder.mode() & STICKY != 0 && trusted(entry.uid());
    trusted(folder.uid()) && closed
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn programs_in_allowed_folders_run_and_no_others() {
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

    #[test]
    fn a_link_that_others_can_change_is_not_gone_through_again() {
        let place = tempfile::tempdir().unwrap();
        let of = |name: &str| place.path().join(name);
        for folder in ["good", "ours", "theirs", "shared"] {
            fs::create_dir(of(folder)).unwrap();
        }
        fs::write(of("good/a"), "").unwrap();
        let mode =
            |folder: &str, mode: u32| fs::set_permissions(of(folder), Permissions::from_mode(mode)).unwrap();
        mode("theirs", 0o777);
        mode("shared", 0o1777);
        for link in ["ours/a", "theirs/a", "shared/a", "good/b"] {
            symlink("../good/a", of(link)).unwrap();
        }
        symlink(of("theirs/a"), of("ours/far")).unwrap();
        let allow = Allow::folders(&[of("good")]).unwrap();
        let check = |word: &str, right: &str| {
            let found = allow.resolve(of(word).to_str().unwrap()).unwrap();
            assert_eq!(found, of(right), "{word}");
        };
        check("good/b", "good/b");
        check("ours/a", "ours/a");
        check("shared/a", "shared/a");
        check("theirs/a", "good/a");
        check("ours/far", "good/a");
        symlink("round", of("good/round")).unwrap();
        assert!(follow(&of("good/round")).is_err());
    }
}
