//! The way of an agent to the files of a task on its node.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::access::forbidden;
use estimand_api::file::FilePath;
use estimand_api::json::parse_object;
use estimand_api::names::{NodeName, UserName};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::task_files::{FileGrantRequest, OUTPUTS_FOLDER, TaskFiles, TaskFilesRequest};
use estimand_client::Error;
use estimand_web::{Body, Failure, Principal, segment};
use serde_json::Value;

use crate::TaskService;
use crate::change::Rejection;
use crate::shared::FilePeer;
use crate::task::Task;

/// The largest body.
const MAX_REQUEST_BYTES: usize = 1024;

/// The agent of a node asks for the files of an attempt that is there.
///
/// It gets a grant to read each input, and one to write into the folder of the outputs, which are good at the file
/// service for this node alone, for two minutes.
#[utoipa::path(
    post,
    path = "/api/tasks/{id}/files",
    tag = "agents",
    params(("id" = String, Path)),
    request_body(content = TaskFilesRequest, description = "The attempt"),
    responses(
        (status = 200, description = "The grants, and where the file service is", body = TaskFiles),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 403, description = "The task is on another node", body = Problem),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 409, description = "This is not its present attempt, or there is no file service", body = Problem),
        (status = 503, description = "Not loaded yet, or the file service does not answer", body = Problem),
    )
)]
pub async fn files(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_REQUEST_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let TaskFilesRequest { attempt } = body.parse(parse).await?;
    let shared = service.shared();
    let id = segment(&req, "id");
    let task = shared.table.loaded(|table| table.named(id).cloned())?;
    let task = task.ok_or_else(|| Problem::not_found(Rejection::Unknown(id.to_owned()).to_string()))?;
    let request = request(&task, attempt, &caller)?;
    let FilePeer { client, address } = shared.file_peer()?;
    let folder = outputs_folder(&task.id)?;
    let grants = client.grant_files(&request).await.map_err(of_client)?;
    Ok(HttpResponse::Ok().json(TaskFiles {
        server: address,
        inputs: grants.read,
        outputs: grants.write,
        folder,
        valid_ms: grants.valid_ms,
    }))
}

/// The grants that an attempt needs, if it is where the caller is.
fn request(task: &Task, attempt: u32, caller: &Principal) -> Result<FileGrantRequest, Problem> {
    let (id, document) = (&task.id, &task.document);
    let node = task.placed_on().filter(|_| task.progress.attempt == attempt).ok_or_else(|| {
        Problem::conflict(format!("attempt {attempt} of `{id}` is on no node: it is over, or never was"))
    })?;
    if !caller.speaks_for(node) {
        return Err(forbidden(format!("`{id}` is on another node")));
    }
    let wrong = |_| Problem::internal();
    Ok(FileGrantRequest {
        node: NodeName::parse(node).map_err(wrong)?,
        user: document.user.as_deref().map(UserName::parse).transpose().map_err(wrong)?,
        read: document.inputs.iter().map(|input| input.file.clone()).collect(),
        write: (!document.outputs.is_empty()).then(|| outputs_folder(id)).transpose()?,
    })
}

/// The folder of a task's outputs, as its user names it.
fn outputs_folder(id: &str) -> Result<FilePath, Problem> {
    format!("{OUTPUTS_FOLDER}/{id}").parse().map_err(|_| Problem::internal())
}

fn of_client(error: Error) -> Problem {
    match error {
        // The agent asks again.
        error @ Error::Unreachable { .. } => Problem::unavailable(format!("the file service: {error}"), 1),
        error => {
            tracing::warn!(%error, "the file service gives no grants");
            Problem::unavailable("the file service gives no grants", 5)
        }
    }
}

fn parse(body: &[u8]) -> Result<TaskFilesRequest, Problem> {
    serde_json::from_value(Value::Object(parse_object(body)?))
        .map_err(|error| Problem::invalid_field(FieldError::new("body", error.to_string())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use estimand_api::task_document::TaskDocument;

    use super::*;
    use crate::core::queue::TaskNumber;
    use crate::core::state::{Progress, State};
    use crate::task::LogEnd;

    fn task(state: State) -> Task {
        let document = br#"{"command": "x", "user": "alice", "inputs": ["a", "b/c"], "outputs": ["m"]}"#;
        Task {
            number: TaskNumber(1),
            id: "t".to_owned(),
            key: None,
            array: None,
            document: Arc::new(TaskDocument::parse(document).unwrap()),
            image: None,
            progress: Progress { attempt: 2, state, node: Some("n1".to_owned()), ..Progress::default() },
            why: None,
            log: LogEnd::default(),
            events: 0,
            submitted_at: 0,
            submitted_by: String::new(),
            ended_at: None,
        }
    }

    fn agent(node: &str) -> Principal {
        Principal::named("agent").bound_to(Some(node.into()))
    }

    #[test]
    fn the_node_of_an_attempt_gets_its_files_and_no_others() {
        let asked = request(&task(State::Running), 2, &agent("n1")).unwrap();
        assert_eq!((asked.node.as_str(), asked.user.unwrap().as_str()), ("n1", "alice"));
        let read: Vec<&str> = asked.read.iter().map(|path| path.path().as_str()).collect();
        assert_eq!((read, asked.write.unwrap().as_str()), (vec!["a", "b/c"], "tasks/t"));
    }

    #[test]
    fn others_and_those_of_former_attempts_get_none() {
        let status = |state, attempt, node| request(&task(state), attempt, &agent(node)).unwrap_err().status;
        assert_eq!(status(State::Running, 2, "n2"), 403);
        assert_eq!(status(State::Running, 1, "n1"), 409);
        assert_eq!(status(State::Running, 3, "n1"), 409);
        for over in [State::Queued, State::Succeeded, State::Failed, State::Cancelled] {
            assert_eq!(status(over, 2, "n1"), 409, "{over:?}");
        }
    }
}
