//! Containers on this node: which may run here, and the engine that runs them.
//!
//! The agent decides what may run ([`terms`], by the patterns of [`allow`]) and makes a [`ContainerRun`] of it, which the keeper
//! of the attempt has the engine carry out. [`engine`] is the only place that speaks to the engine, and [`body`] makes what
//! it is asked to create. [`pinned`] finds the one content of a published image. [`processes`] ends a container while its engine is away.

mod allow;
mod body;
pub mod engine;
pub mod pinned;
pub mod processes;
pub mod terms;

pub use allow::ImagePattern;
pub use terms::{ContainerRun, ContainerTerms, Place};

use std::io;
use std::path::{Path, PathBuf};

/// The label of a container that names its agent.
pub const AGENT_LABEL: &str = "estimand.agent";
/// The labels of its task and attempt.
pub const TASK_LABEL: &str = "estimand.task";
pub const ATTEMPT_LABEL: &str = "estimand.attempt";
/// The variable that names the folder of a task's inputs and outputs, and that folder in a container.
pub const FOLDER_VARIABLE: &str = "ESTIMAND_TASK_FOLDER";
pub const TASK_FOLDER: &str = "/task";

/// The engine of this node, and what its operator lets it run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docker {
    pub socket: PathBuf,
    pub images: Vec<ImagePattern>,
    /// Folders, as they really are, below which volumes may lie.
    pub volumes: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot allow volumes in {}: {cause}", folder.display())]
pub struct VolumeError {
    folder: PathBuf,
    cause: io::Error,
}

impl Docker {
    pub fn new(socket: &Path, images: &[ImagePattern], volumes: &[PathBuf]) -> Result<Self, VolumeError> {
        let real = |folder: &PathBuf| {
            folder.canonicalize().map_err(|cause| VolumeError { folder: folder.clone(), cause })
        };
        let volumes = volumes.iter().map(real).collect::<Result<_, _>>()?;
        Ok(Docker { socket: socket.to_owned(), images: images.to_vec(), volumes })
    }
}
