//! Uploaded files on their way from the registry to the agents, which know only their manager.
//!
//! The last few are kept, since many nodes ask for the same one at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::names::NodeName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{SHA256_EXPECTED, Sha256};
use estimand_client::Error;
use estimand_web::{Failure, Principal, segment};
use tokio::sync::OnceCell;

use super::agents::own_node;
use crate::Manager;

/// How many files are kept, each of at most 1 MiB.
const MAX_KEPT: usize = 32;

/// The files that were asked for last.
#[derive(Debug, Default)]
pub struct Uploads(Mutex<VecDeque<(Sha256, Arc<OnceCell<Bytes>>)>>);

impl Uploads {
    /// The place of a file. Those who ask for it while it is fetched wait at the same one.
    fn place(&self, sha256: Sha256) -> Arc<OnceCell<Bytes>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, place)) = kept.iter().find(|(known, _)| *known == sha256) {
            return Arc::clone(place);
        }
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        let place = Arc::new(OnceCell::new());
        kept.push_back((sha256, Arc::clone(&place)));
        place
    }
}

/// The content of an uploaded file that something on the node is to run.
#[utoipa::path(
    get,
    path = "/api/nodes/{node}/uploads/{sha256}",
    tag = "agents",
    params(("node" = NodeName, Path), ("sha256" = Sha256, Path)),
    responses(
        (status = 200, description = "The file", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, description = "This is no digest", body = Problem),
        (status = 403, description = "The agent is another node's", body = Problem),
        (status = 404, description = "Nothing on the node runs it, or the registry does not have it", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads; or the registry does not answer", body = Problem),
    )
)]
pub async fn get(
    req: HttpRequest,
    caller: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let node = own_node(&req, &caller)?;
    let sha256 = segment(&req, "sha256").parse::<Sha256>().map_err(|message| {
        Problem::invalid_field(FieldError::new("sha256", message).expected(SHA256_EXPECTED))
    })?;
    let leadership = manager.leadership()?;
    let runs = leadership.answer(|state| {
        let desired = state.cluster.desired(&node).into_iter().flat_map(|(_, slots)| slots.iter());
        let mut registered = desired.map(|slot| &slot.registered).chain(state.runs.of(&node));
        registered.any(|one| one.registration.upload.is_some_and(|upload| upload.sha256 == sha256))
    })?;
    if !runs {
        return Err(Problem::not_found(format!("nothing on node `{node}` runs the file {sha256}")).into());
    }
    let content = content(&manager, sha256).await?;
    let binary = (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(HttpResponse::Ok().insert_header(binary).body(content))
}

async fn content(manager: &Manager, sha256: Sha256) -> Result<Bytes, Problem> {
    let peers = manager.shared().peers.get();
    let peers = peers.ok_or_else(|| Problem::unavailable("the registry is not known yet", 1))?;
    let place = manager.shared().uploads.place(sha256);
    let fetched = place.get_or_try_init(|| peers.registry.uploaded(sha256)).await;
    fetched.cloned().map_err(|error| match error {
        Error::Problem(problem) if problem.status == 404 => *problem,
        error => {
            tracing::warn!(%error, %sha256, "an uploaded file cannot be read");
            Problem::unavailable("the registry does not answer", 1)
        }
    })
}
