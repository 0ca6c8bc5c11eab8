//! Errors of starting, in words for the author of a registration.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::failure::{Failure, Step};

/// The launcher could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("cannot connect to a launcher process: {0}")]
    Socket(#[source] io::Error),
    #[error("cannot start the launcher {}: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("the launcher {} did not report that it is ready", program.display())]
    NotReady { program: PathBuf },
}

/// A run could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("there is no program {}", .0.display())]
    NotFound(PathBuf),
    #[error("{} asks for the interpreter {interpreter}, which is not there", program.display())]
    NoInterpreter { program: PathBuf, interpreter: String },
    #[error("{} is a directory, not a program", .0.display())]
    IsDirectory(PathBuf),
    #[error("{} is not executable; `chmod +x` makes it so", .0.display())]
    NotExecutable(PathBuf),
    #[error("may not execute {}: permission denied on the way to it, or its file system forbids programs", .0.display())]
    Permission(PathBuf),
    #[error("{} is neither a program for this machine nor a script with a first line like `#!/bin/sh`", .0.display())]
    Format(PathBuf),
    #[error("{} is open for writing somewhere, so it cannot be executed yet", .0.display())]
    Busy(PathBuf),
    #[error("cannot execute {}: {source}", program.display())]
    Execute { program: PathBuf, source: io::Error },
    #[error("cannot change to the directory {}: {source}", dir.display())]
    Directory { dir: PathBuf, source: io::Error },
    #[error("cannot set its limits: {0}")]
    Limits(#[source] io::Error),
    #[error("cannot become the user that it runs as: {0}")]
    Identity(#[source] io::Error),
    #[error("cannot give up the agent's capabilities, or keep those that it may: {0}")]
    Capabilities(#[source] io::Error),
    #[error("cannot join its cgroup: {0}")]
    Cell(#[source] io::Error),
    #[error("this machine takes no further process now: {0}")]
    NoProcess(#[source] io::Error),
    #[error("cannot make its pipes: {0}")]
    Pipes(#[source] io::Error),
    #[error("cannot prepare its session: {0}")]
    Session(#[source] io::Error),
    #[error("the program's path must be absolute, but is {}", .0.display())]
    NotAbsolute(PathBuf),
    #[error("there is a NUL in {0}")]
    Nul(String),
    #[error("there must be at least one argument, the program's name")]
    NoArguments,
    #[error(
        "arguments and environment are {bytes} bytes in {strings} strings; the most is {most_bytes} in {most_strings}"
    )]
    TooLarge { bytes: usize, strings: usize, most_bytes: usize, most_strings: usize },
    #[error("the last run in this slot has not ended yet")]
    CellBusy,
    #[error("the slot is being ended")]
    CellClosed,
    #[error("there is no launcher now; one is being started")]
    LauncherGone,
}

impl SpawnError {
    /// The meaning of a step that failed in the launcher.
    pub(super) fn of(Failure { step, errno }: Failure, program: &Path, dir: &Path) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        match step {
            Step::Request if errno == libc::EBUSY => SpawnError::CellBusy,
            Step::Request if errno == libc::ENOENT => SpawnError::CellClosed,
            Step::Request | Step::Session => SpawnError::Session(source),
            Step::Fork => SpawnError::NoProcess(source),
            Step::Cell => SpawnError::Cell(source),
            Step::Identity => SpawnError::Identity(source),
            Step::Capabilities => SpawnError::Capabilities(source),
            Step::Limits => SpawnError::Limits(source),
            Step::Directory => SpawnError::Directory { dir: dir.to_owned(), source },
            Step::Descriptors => SpawnError::Pipes(source),
            Step::Execute => SpawnError::of_execute(source, program.to_owned()),
        }
    }

    fn of_execute(source: io::Error, program: PathBuf) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT) => match interpreter(&program) {
                Some(interpreter) => SpawnError::NoInterpreter { program, interpreter },
                None => SpawnError::NotFound(program),
            },
            Some(libc::ENOTDIR) => SpawnError::NotFound(program),
            Some(libc::EACCES | libc::EPERM) if program.is_dir() => SpawnError::IsDirectory(program),
            Some(libc::EACCES) if program.is_file() && !is_executable(&program) => {
                SpawnError::NotExecutable(program)
            }
            Some(libc::EACCES | libc::EPERM) => SpawnError::Permission(program),
            Some(libc::ENOEXEC) => SpawnError::Format(program),
            Some(libc::ETXTBSY) => SpawnError::Busy(program),
            _ => SpawnError::Execute { program, source },
        }
    }
}

fn is_executable(program: &Path) -> bool {
    rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The interpreter in a script's first line, or the loader of a dynamic program.
fn interpreter(program: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(program).ok()?.take(256).read_to_end(&mut start).ok()?;
    let Some(line) = start.strip_prefix(b"#!") else {
        return Some("of its dynamic linker".to_owned());
    };
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    // A line that ends as on Windows names an interpreter with a carriage return.
    line.trim_matches([' ', '\t']).split([' ', '\t']).next().map(|name| format!("{name:?}"))
}
