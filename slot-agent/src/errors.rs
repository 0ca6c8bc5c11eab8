//! Why an agent cannot start.

use std::path::PathBuf;

use estimand_client as client;
use estimand_exec::{Capabilities, LaunchError};

use crate::deliver::SpoolError;
use crate::home::HomeError;
use crate::runners::{NumbersError, UserRange};

/// An agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("an agent that {doing} needs {missing}, which this process does not have; start it as root")]
    Powerless { doing: &'static str, missing: Capabilities },
    #[error(
        "what runs as `{user}` could not reach its own folder, because that user cannot go through {}: \
         `chmod o+x` lets it, or --data-dir names another place",
        folder.display()
    )]
    Barred { user: String, folder: PathBuf },
    #[error(
        "--run-as-range {range} has numbers that are not free on this machine: {taken}; another range has none of them"
    )]
    RangeTaken { range: UserRange, taken: String },
    #[error(transparent)]
    Numbers(#[from] NumbersError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("cannot use the folder of tasks: {0}")]
    Tasks(#[source] std::io::Error),
    #[error(transparent)]
    Address(#[from] client::Error),
}
