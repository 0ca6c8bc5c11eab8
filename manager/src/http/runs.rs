//! Runs by hand: of what is registered, and of what is about to be.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use chrono::DateTime;
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::NodeState;
use estimand_api::problem::Problem;
use estimand_api::registration::{MAX_REGISTRATION_BYTES, Registration, RegistrationRecord, no_secrets};
use estimand_api::slot::RunReport;
use estimand_web::{Body, Failure, Principal, path_name, path_node};
use serde_json::Value;
use tokio::time::Instant;

use crate::Manager;
use crate::core::AuditedChange;
use crate::leadership::{Leadership, LeadershipError, LeadershipState};

use super::changes::read_again;
use super::nodes::stored;
use super::problems;

/// How long the registry may take when a name is unknown here and may have been registered just now.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Runs a registration once on a node, now; the answer comes with everything about it. Nothing is stored.
#[utoipa::path(
    post,
    path = "/api/mng/instances/{dataName}/{node}/run",
    tag = "manager",
    params(("dataName" = DataName, Path), ("node" = NodeName, Path)),
    responses(
        (status = 200, description = "It ran", body = RunReport),
        (status = 400, description = "A name is not valid", body = Problem),
        (status = 404, description = "There is no such registration, or no such node", body = Problem),
        (status = 409, description = "The agent does not run it; the detail says why", body = Problem),
        (status = 503, description = "The node is lost, or too many wait; nothing was run. Or `standing-by`", body = Problem),
        (status = 504, description = "`no-answer`: the agent has not said in time what came of it", body = Problem),
    )
)]
pub async fn run(
    req: HttpRequest,
    caller: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let (name, node) = (path_name(&req)?, path_node(&req)?);
    let leadership = manager.leadership()?;
    if leadership.with(|state| state.cluster.registered(&name).is_none()) {
        read_again(&leadership, Instant::now() + READ_WITHIN).await?;
    }
    let registered = leadership.answer(|state| state.cluster.registered(&name).cloned())?;
    let registered = registered.ok_or_else(|| problems::not_registered(&name))?;
    tracing::info!(%name, %node, by = %caller, "a run by hand");
    report(&manager, &leadership, &node, registered).await
}

/// Runs a registration once on a node that need not be registered, as it is sent. Nothing is stored but a line of the
/// audit trail.
#[utoipa::path(
    post,
    path = "/api/mng/nodes/{node}/try",
    operation_id = "try_registration",
    tag = "manager",
    params(("node" = NodeName, Path)),
    request_body(content = Registration, description = "The registration, as it would be registered; a secret that is null has the value that it has in the registration of that name"),
    responses(
        (status = 200, description = "It ran", body = RunReport),
        (status = 400, description = "The name or the registration is not valid", body = Problem),
        (status = 404, description = "There is no such node", body = Problem),
        (status = 409, description = "The agent does not run it; the detail says why", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "The node is lost, too many wait, or the database does not answer; nothing was run. Or `standing-by`", body = Problem),
        (status = 504, description = "`no-answer`: the agent has not said in time what came of it", body = Problem),
    )
)]
pub async fn try_registration(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_REGISTRATION_BYTES>,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let node = path_node(&req)?;
    let mut registration = Registration::parse(&body.0)?.registration;
    let leadership = manager.leadership()?;
    let registered = leadership.answer(|state| state.cluster.registered(&registration.data_name).cloned())?;
    if let Some(registered) = &registered {
        registration.keep_secrets(&registered.registration);
    }
    if registration.withheld().next().is_some() {
        return Err(no_secrets(&registration.data_name, registration.withheld()).into());
    }
    leadership.answer(|state| {
        ready(state, &node)?;
        let detail = Some(Value::Object(registration.redacted().to_map()).to_string());
        state.cluster.audit(AuditedChange { detail, ..manager.audited(&node, "tried", &caller) });
        Ok::<_, Problem>(())
    })??;
    // The trail says later what ran, whatever becomes of this process.
    stored(&leadership).await?;
    tracing::info!(name = %registration.data_name, %node, by = %caller, "a registration is tried");
    let now = DateTime::from_timestamp_micros(manager.shared().clock.now_micros()).unwrap_or_default();
    let version = registered.map_or(1, |registered| registered.version);
    let record = RegistrationRecord { registration, version, created_at: now, updated_at: now };
    report(&manager, &leadership, &node, Arc::new(record)).await
}

fn ready(state: &LeadershipState, node: &NodeName) -> Result<(), Problem> {
    match state.cluster.node_view(node).map(|view| view.state) {
        None => Err(problems::no_such_node(node)),
        Some(NodeState::Lost) => {
            Err(Problem::unavailable(format!("node `{node}` is lost; nothing was run"), 5))
        }
        Some(NodeState::Ready) => Ok(()),
    }
}

/// Has it run, and answers with the agent's report.
async fn report(
    manager: &Manager,
    leadership: &Leadership,
    node: &NodeName,
    registered: Arc<RegistrationRecord>,
) -> Result<HttpResponse, Failure> {
    let name = registered.registration.data_name.clone();
    let (id, answer) = leadership.answer(|state| {
        ready(state, node)?;
        let asked = state.runs.ask(node, registered)?;
        state.ring(node);
        Ok::<_, Problem>(asked)
    })??;
    manager.shared().figures.runs.increment();
    let _forgotten_at_the_end = ForgetAtDrop { leadership, id };
    let within = manager.shared().settings.run_within;
    match leadership.wait(within, answer).await? {
        Some(Ok(Ok(report))) => Ok(HttpResponse::Ok().json(report)),
        Some(Ok(Err(reason))) => {
            Err(Problem::conflict(format!("the agent of `{node}` does not run `{name}`: {reason}")).into())
        }
        // The sender is gone with the leadership.
        Some(Err(_)) => Err(LeadershipError::default().into()),
        None => {
            let detail = format!("the agent of `{node}` has not said within {within:?} what came of the run");
            Err(problems::no_answer(detail).into())
        }
    }
}

/// Forgets a run when its request ends, however it does.
struct ForgetAtDrop<'a> {
    leadership: &'a Leadership,
    id: u64,
}

impl Drop for ForgetAtDrop<'_> {
    fn drop(&mut self) {
        self.leadership.with(|state| state.runs.forget(self.id));
    }
}
