//! The description of a run, and the request that starts it.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::orphans::TOKEN_VARIABLE;
use super::protocol::{Deadline, MAX_STRINGS, ProgramSource, Start};
use super::{Cell, SpawnError};

/// The most that arguments and environment may take together.
const MAX_STRING_BYTES: usize = 128 * 1024;
/// A directory and a program come on top of these.
const MAX_PATH: usize = 4096;

/// A run to be started. The environment is complete as given here; only the run's token (`ESTIMAND_RUN`) is added.
#[derive(Debug)]
pub struct RunSpec<'a> {
    /// An absolute path.
    pub program: PathBuf,
    /// Its open file, which is executed instead of the file at the path.
    pub file: Option<ProgramFile>,
    /// The arguments, beginning with the program's name.
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub dir: PathBuf,
    pub dir_rights: DirRights,
    pub stdin: Stdin,
    /// Where it runs. A cell holds one run at a time.
    pub cell: &'a Cell,
    /// When it is ended unless [`super::Launcher::extend_leases`] gives it more time.
    pub until: Option<Instant>,
}

/// The rights with which a run's directory is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirRights {
    /// The agent's, whose own folder it is.
    Agent,
    /// The run's: somebody else chose the directory, and gets nowhere by it that the run cannot go.
    Run,
}

/// An open file to be executed, even if its path leads elsewhere by now.
#[derive(Debug)]
pub struct ProgramFile {
    pub descriptor: OwnedFd,
    /// True if it begins with `#!`: then its interpreter opens it once more, as `/dev/fd/N`.
    pub script: bool,
}

/// The source of a run's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    Null,
    Pipe,
}

impl RunSpec<'_> {
    /// The request for it. `token` marks this agent's runs; the run's own is that and its number.
    pub(super) fn request(&self, run: u64, token: &str) -> Result<Start, SpawnError> {
        if !self.program.is_absolute() {
            return Err(SpawnError::NotAbsolute(self.program.clone()));
        }
        if self.argv.is_empty() {
            return Err(SpawnError::NoArguments);
        }
        let string = |bytes: &[u8], name: &dyn Fn() -> String| {
            CString::new(bytes).map_err(|_| SpawnError::Nul(name()))
        };
        let directory = string(self.dir.as_os_str().as_bytes(), &|| "the directory's path".into())?;
        let program = string(self.program.as_os_str().as_bytes(), &|| "the program's path".into())?;
        let arguments: Vec<CString> = (self.argv.iter().enumerate())
            .map(|(place, argument)| string(argument.as_bytes(), &|| format!("argument {place}")))
            .collect::<Result<_, _>>()?;
        let mark = format!("{token}.{run}");
        let variables: Vec<CString> = (self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())))
            .chain([(TOKEN_VARIABLE, mark.as_str())])
            .map(|(name, value)| {
                string(format!("{name}={value}").as_bytes(), &|| format!("the variable {name:?}"))
            })
            .collect::<Result<_, _>>()?;

        let strings = arguments.len() + variables.len();
        let bytes: usize = arguments.iter().chain(&variables).map(|text| text.count_bytes() + 1).sum();
        let paths = directory.count_bytes() + program.count_bytes();
        let bytes = bytes - (TOKEN_VARIABLE.len() + mark.len() + 2);
        if bytes > MAX_STRING_BYTES || strings > MAX_STRINGS || paths > 2 * MAX_PATH || mark.len() > MAX_PATH
        {
            return Err(SpawnError::TooLarge {
                bytes,
                strings,
                most_bytes: MAX_STRING_BYTES,
                most_strings: MAX_STRINGS,
            });
        }
        let source = match &self.file {
            None => ProgramSource::Path,
            Some(ProgramFile { script: false, .. }) => ProgramSource::Descriptor,
            Some(ProgramFile { script: true, .. }) => ProgramSource::Script,
        };
        Ok(Start {
            run,
            cell: self.cell.id(),
            stdin: self.stdin == Stdin::Pipe,
            source,
            until: self.until.map(Deadline::at),
            directory,
            dir_rights: self.dir_rights,
            program,
            arguments,
            variables,
        })
    }
}
