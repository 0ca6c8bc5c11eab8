//! Tunnels, as people open them.

use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::Problem;
use estimand_runtime::tunnel::{Half, Side, relay};
use estimand_web::{Failure, Principal, Wire, segment, websocket};

use crate::TaskService;
use crate::scope::Scope;
use crate::task::Task;
use crate::tunnels::{Permit, Tunnel};

/// Opens a connection to the port of a task, as a WebSocket.
///
/// Binary messages are its bytes. The text message `end` says that no more come from there. It is closed by whoever has both
/// said and heard that; one that is closed earlier broke off.
#[utoipa::path(
    get,
    path = "/api/tasks/{id}/tunnel",
    tag = "tasks",
    params(("id" = String, Path)),
    responses(
        (status = 101, description = "The connection is a WebSocket now, and one to the port of the task"),
        (status = 400, description = "This is no request for a WebSocket", body = Problem),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 409, description = "It has no port, or is over", body = Problem),
        (status = 503, description = "It does not run yet or nothing of it listens yet, its node is lost or does not answer, or there are too many connections", body = Problem),
    )
)]
pub async fn open(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let task = service.shared().task(&Scope::of(&caller), segment(&req, "id"))?;
    // Before anybody is asked for a connection.
    let (response, wire) = websocket(&req, body)?;
    let Tunnel { half, permit } = service.tunnel(&task, &caller).await?;
    join(&service, wire, half, Some(permit));
    Ok(response)
}

impl TaskService {
    /// A connection to the port of a task.
    pub(crate) async fn tunnel(&self, task: &Task, caller: &Principal) -> Result<Tunnel, Problem> {
        let peers = self.shared().known_peers()?;
        self.shared().tunnels.open(&*peers.engine, task, caller.as_user()).await
    }
}

/// Passes on what comes and goes, until one of the two or the service ends. The permit is given back then.
pub fn join(service: &TaskService, wire: Wire, half: Half, permit: Option<Permit>) {
    let service = service.clone();
    actix_web::rt::spawn(async move {
        let _permit = permit;
        tokio::select! {
            // It ends when its peer goes away.
            _ = relay(wire, half, Side::Server) => {}
            () = service.0.stop.requested() => {}
        }
    });
}
