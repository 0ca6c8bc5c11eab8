//! Finds the programs that the show runs: the `estimand` binary and the worker.
//!
//! A given path must be a file; otherwise the usual places are searched. Nothing is started here.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

const ESTIMAND: &str = "estimand";
const WORKER: &str = "estimand-worker";
/// The folders in which the worker is built, seen from the project's folder.
const WORKER_FOLDERS: [&str; 2] = ["target/release", "target/debug"];

#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error(
        "there is no `{ESTIMAND}` beside this program or on PATH; `./run-demo` builds it, and --program names another"
    )]
    NoEstimand,
    #[error(
        "there is no `{WORKER}` beside `{ESTIMAND}`, on PATH or in the folders where it is built; `./run-demo` builds \
         it, as does this command in the project's folder:\n  \
         cargo build --release --package estimand-worker\n\
         --worker names another"
    )]
    NoWorker,
    #[error("{option} {}: {cause}; expected the path of a program", path.display())]
    Given { option: &'static str, path: PathBuf, cause: io::Error },
}

/// The binary from which services and agents are started.
pub fn estimand(given: Option<&Path>) -> Result<PathBuf, ProgramError> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent);
    locate(given, "--program", beside.into_iter().map(Path::to_owned), ESTIMAND)?
        .ok_or(ProgramError::NoEstimand)
}

/// The program that classifies images.
pub fn worker(given: Option<&Path>, estimand: &Path) -> Result<PathBuf, ProgramError> {
    let beside = estimand.parent().map(Path::to_owned);
    let folders = beside.into_iter().chain(WORKER_FOLDERS.map(PathBuf::from));
    locate(given, "--worker", folders, WORKER)?.ok_or(ProgramError::NoWorker)
}

/// The given program, else the first of that name in the folders or on PATH.
fn locate(
    given: Option<&Path>,
    option: &'static str,
    folders: impl Iterator<Item = PathBuf>,
    name: &str,
) -> Result<Option<PathBuf>, ProgramError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual =
        || folders.chain(env::split_paths(&path)).map(|folder| folder.join(name)).find(|path| path.is_file());
    let Some(path) = given.map(Path::to_owned).or_else(usual) else { return Ok(None) };
    let failed = |cause| ProgramError::Given { option, path: path.clone(), cause };
    let program = path.canonicalize().map_err(failed)?;
    match program.is_file() {
        true => Ok(Some(program)),
        false => Err(failed(io::Error::other("not a file"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_given_program_must_be_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = estimand(Some(folder.path())).unwrap_err().to_string();
        assert!(error.starts_with("--program ") && error.contains("not a file"), "{error}");
        let error =
            worker(Some(Path::new("/no/such/worker")), Path::new("/estimand")).unwrap_err().to_string();
        assert!(error.starts_with("--worker /no/such/worker: No such file"), "{error}");
    }

    #[test]
    fn the_worker_beside_the_binary_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join(WORKER);
        std::fs::write(&beside, "").unwrap();
        let found = worker(None, &folder.path().join(ESTIMAND)).unwrap();
        assert_eq!(found, beside.canonicalize().unwrap());
    }
}
