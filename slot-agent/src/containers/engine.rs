//! The engine's API as far as tasks need it: a request each, with a bound on its wait.
//!
//! An engine that does not answer is told apart from one that refuses: what was asked of the former may have been done.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, InspectContainerOptions, KillContainerOptions,
    ListContainersOptions, LogsOptions, RemoveContainerOptions, StartContainerOptions, WaitContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use estimand_api::task_log::TaskStream;
use futures_util::{Stream, StreamExt as _};

use super::allow::whole;
use super::body::body;
use super::pinned::ImageHere;
use super::terms::ContainerRun;
use super::{AGENT_LABEL, ATTEMPT_LABEL, TASK_LABEL};

/// How long an answer may take, in seconds; large images take a while to be laid out on some disks.
const ANSWER_WITHIN_S: u64 = 120;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the container engine does not answer: {0}")]
    Away(String),
    /// There is no such image or container.
    #[error("{0}")]
    Missing(String),
    /// It is so already, or not as it would have to be.
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Refused(String),
}

impl From<Error> for EngineError {
    fn from(error: Error) -> Self {
        match error {
            Error::DockerResponseServerError { status_code, message } => match status_code {
                404 => EngineError::Missing(message),
                409 => EngineError::Conflict(message),
                _ => EngineError::Refused(message),
            },
            Error::DockerStreamError { error } => EngineError::Refused(error),
            error => EngineError::Away(error.to_string()),
        }
    }
}

/// A container as the engine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerState {
    pub id: String,
    pub has_started: bool,
    pub is_running: bool,
    pub exit: i32,
    pub out_of_memory: bool,
}

/// A container of an agent, by its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    pub id: String,
    /// The task's id and the attempt's number, as folders are named.
    pub attempt: String,
}

/// An engine that has answered.
pub struct Engine {
    docker: Docker,
}

impl Engine {
    /// Agrees with the engine on a version of its API.
    pub async fn connect(socket: &Path) -> Result<Self, EngineError> {
        let path = socket.to_string_lossy();
        let docker = Docker::connect_with_unix(&path, ANSWER_WITHIN_S, API_DEFAULT_VERSION)?;
        Ok(Engine { docker: docker.negotiate_version().await? })
    }

    /// The image that it has under a name.
    pub async fn image(&self, name: &str) -> Result<ImageHere, EngineError> {
        let found = self.docker.inspect_image(name).await?;
        Ok(ImageHere {
            id: found.id.unwrap_or_default(),
            registry_digests: found.repo_digests.unwrap_or_default(),
        })
    }

    /// Makes a container of an image by its name here. Gives warnings, such as of limits that it cannot hold.
    pub async fn create(&self, run: &ContainerRun, image: &str) -> Result<Vec<String>, EngineError> {
        let options = CreateContainerOptions {
            name: Some(run.place.name.clone()),
            ..CreateContainerOptions::default()
        };
        Ok(self.docker.create_container(Some(options), body(run, image)).await?.warnings)
    }

    /// Fetches an image. The error is the registry's or the engine's own message.
    pub async fn pull(&self, image: &str) -> Result<(), EngineError> {
        // Without a tag it would be all of them.
        let options = CreateImageOptions { from_image: Some(whole(image)), ..CreateImageOptions::default() };
        let mut progress = self.docker.create_image(Some(options), None, None);
        while let Some(step) = progress.next().await {
            if let Some(message) = step?.error_detail.and_then(|detail| detail.message) {
                return Err(EngineError::Refused(message));
            }
        }
        Ok(())
    }

    pub async fn start(&self, name: &str) -> Result<(), EngineError> {
        Ok(self.docker.start_container(name, None::<StartContainerOptions>).await?)
    }

    pub async fn state(&self, name: &str) -> Result<ContainerState, EngineError> {
        let found = self.docker.inspect_container(name, None::<InspectContainerOptions>).await?;
        let state = found.state.unwrap_or_default();
        Ok(ContainerState {
            id: found.id.unwrap_or_default(),
            // The year 1 stands for never.
            has_started: state.started_at.is_some_and(|at| !at.to_string().starts_with("0001-")),
            is_running: state.running.unwrap_or(false),
            exit: state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1),
            out_of_memory: state.oom_killed.unwrap_or(false),
        })
    }

    /// Its address in the engine's network, by which this machine reaches it.
    pub async fn address(&self, name: &str) -> Result<Option<IpAddr>, EngineError> {
        let found = self.docker.inspect_container(name, None::<InspectContainerOptions>).await?;
        let networks = found.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
        Ok(networks.into_values().find_map(|network| network.ip_address?.parse().ok()))
    }

    /// Returns when it does not run any more.
    pub async fn wait(&self, name: &str) -> Result<(), EngineError> {
        let options = WaitContainerOptions { condition: "not-running".to_owned() };
        match self.docker.wait_container(name, Some(options)).next().await {
            Some(Ok(_)) | Some(Err(Error::DockerContainerWaitError { .. })) => Ok(()),
            Some(Err(error)) => Err(error.into()),
            None => Err(EngineError::Away("the connection was closed".to_owned())),
        }
    }

    /// Its output since that second, each piece with the instant in front of it; with `follow` also what comes yet.
    pub fn log(
        &self,
        name: &str,
        since: i64,
        follow: bool,
    ) -> impl Stream<Item = Result<(TaskStream, Vec<u8>), EngineError>> + Send + Unpin + use<> {
        let options = LogsOptions {
            follow,
            stdout: true,
            stderr: true,
            since: i32::try_from(since).unwrap_or(i32::MAX),
            timestamps: true,
            ..LogsOptions::default()
        };
        let pieces = self.docker.logs(name, Some(options)).map(|piece| {
            Ok(match piece? {
                LogOutput::StdErr { message } => (TaskStream::Stderr, message.to_vec()),
                LogOutput::StdOut { message }
                | LogOutput::StdIn { message }
                | LogOutput::Console { message } => (TaskStream::Stdout, message.to_vec()),
            })
        });
        Box::pin(pieces)
    }

    pub async fn signal(&self, name: &str, signal: &str) -> Result<(), EngineError> {
        let options = KillContainerOptions { signal: signal.to_owned() };
        Ok(self.docker.kill_container(name, Some(options)).await?)
    }

    /// Removes it, also while it runs, with the volumes that nobody named. It may be gone already.
    pub async fn remove(&self, name: &str) -> Result<(), EngineError> {
        let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
        match self.docker.remove_container(name, Some(options)).await.map_err(EngineError::from) {
            Err(EngineError::Missing(_)) => Ok(()),
            removed => removed,
        }
    }

    /// All containers of an agent.
    pub async fn labelled(&self, agent: &str) -> Result<Vec<Labelled>, EngineError> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{AGENT_LABEL}={agent}")])]);
        let options =
            ListContainersOptions { all: true, filters: Some(filters), ..ListContainersOptions::default() };
        let all = self.docker.list_containers(Some(options)).await?.into_iter();
        Ok(all
            .filter_map(|container| {
                let labels = container.labels?;
                let attempt = format!("{}.{}", labels.get(TASK_LABEL)?, labels.get(ATTEMPT_LABEL)?);
                Some(Labelled { id: container.id?, attempt })
            })
            .collect())
    }
}
