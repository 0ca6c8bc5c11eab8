//! The way to the files of one attempt: the file service, and grants that are still good.

use std::sync::Arc;
use std::time::Duration;

use estimand_api::task_files::TaskFiles;
use estimand_client::Client;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::super::{Attempt, Tasks};
use super::{CarryError, ClientAt};

pub struct Way {
    pub tasks: Arc<Tasks>,
    pub attempt: Arc<Attempt>,
    task_service: ClientAt,
    file_service: ClientAt,
    granted: Option<Granted>,
}

/// Grants, and where they are good.
struct Granted {
    client: Client,
    files: Arc<TaskFiles>,
    until: Instant,
}

impl Way {
    pub fn new(
        tasks: Arc<Tasks>,
        attempt: Arc<Attempt>,
        task_service: ClientAt,
        file_service: ClientAt,
    ) -> Self {
        Way { tasks, attempt, task_service, file_service, granted: None }
    }

    /// The file service, and grants that are good for as long as a piece takes.
    pub async fn files(&mut self) -> Result<(Client, Arc<TaskFiles>), CarryError> {
        if let Some(Granted { client, files, until }) = &self.granted
            && Instant::now() < *until
        {
            return Ok((client.clone(), Arc::clone(files)));
        }
        let server = self.tasks.task_server.borrow().clone().ok_or(CarryError::NoService)?;
        let task_service = (self.task_service)(&server).ok_or(CarryError::NoService)?;
        let assignment = &self.attempt.accepted.assignment;
        let asked = Instant::now();
        let files = Arc::new(task_service.task_files(&assignment.id, assignment.attempt).await?);
        let address = files.server.as_deref().unwrap_or(&server);
        let client = (self.file_service)(address).ok_or(CarryError::NoService)?;
        let until = asked + Duration::from_millis(files.valid_ms / 2);
        self.granted = Some(Granted { client: client.clone(), files: Arc::clone(&files), until });
        Ok((client, files))
    }

    /// Does something with files of this node, beside the threads that talk.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tasks, &Attempt) -> T + Send + 'static,
    ) -> Result<T, CarryError> {
        let (tasks, attempt) = (Arc::clone(&self.tasks), Arc::clone(&self.attempt));
        Ok(spawn_blocking(move || work(&tasks, &attempt)).await?)
    }
}
