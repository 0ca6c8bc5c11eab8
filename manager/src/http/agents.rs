//! The requests of agents.
//!
//! The request for the desired state waits until there is something new; ten thousand of them wait at once, each
//! with a timer and a place at its node's doorbell and nothing else. A heartbeat's answer is a lease: neither is
//! given by a manager whose leadership is over.

use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use chrono::DateTime;
use estimand_api::access::forbidden;
use estimand_api::heartbeat_size::MAX_HEARTBEAT_BYTES;
use estimand_api::names::NodeName;
use estimand_api::node::{AgentName, Boot, DesiredState, Heartbeat, HeartbeatAnswer, MAX_WAIT_MS};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::slot::RunOutcome;
use estimand_runtime::metrics::Gauge;
use estimand_web::parameters::whole;
use estimand_web::{Body, Failure, Principal, Query, path_node, segment};
use serde_json::json;
use std::time::Duration;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, timeout_at};

use crate::Manager;
use crate::core::AgentError;
use crate::desired::{JoinedPieces, Servers, Slot, answer};
use crate::leadership::{Leadership, LeadershipError, LeadershipState};
use crate::uptime;

use super::input::{self, MAX_REPORT_BYTES};
use super::problems;

/// How long a request waits at first until the latest events are stored.
const SETTLED_WITHIN: Duration = Duration::from_secs(3);

/// An agent says how it is.
#[utoipa::path(
    post,
    path = "/api/nodes/{node}/heartbeat",
    tag = "agents",
    params(("node" = NodeName, Path)),
    request_body(content = Heartbeat),
    responses(
        (status = 200, description = "When the next one is due, and how long leased slots may run on from when this one was sent", body = HeartbeatAnswer),
        (status = 400, description = "The heartbeat is not valid", body = Problem),
        (status = 409, description = "`superseded`: this agent was started again; `node-taken`: the node has another agent", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn heartbeat(
    req: HttpRequest,
    who: Principal,
    body: Body<MAX_HEARTBEAT_BYTES>,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let node = own_node(&req, &who)?;
    let leadership = manager.leadership()?;
    let beat = body.parse(input::heartbeat).await?;
    let wall_us = manager.shared().clock.now_micros();
    let bound = who.bound_labels(&beat.labels).clone();
    let mut answer = leadership.answer(|state| {
        let answer = state.cluster.heartbeat(&node, beat, wall_us, uptime::now())?;
        state.cluster.bind_labels(&node, &bound);
        Ok::<_, AgentError>(answer)
    })??;
    leadership.announce_heartbeat();
    manager.shared().figures.heartbeats.increment();
    answer.now = DateTime::from_timestamp_micros(manager.shared().clock.now_micros());
    Ok(HttpResponse::Ok().json(answer))
}

/// The desired state of the node's agent: waits until that is something else than it has.
#[utoipa::path(
    get,
    path = "/api/nodes/{node}/slots",
    tag = "agents",
    params(
        ("node" = NodeName, Path),
        ("agent" = AgentName, Query, description = "The name of the agent, as in its heartbeats"),
        ("boot" = Boot, Query, description = "The number of its start"),
        ("revision" = Option<u64>, Query, description = "What it has already; 0 if nothing"),
        ("waitMs" = Option<u64>, Query, description = "How many milliseconds to wait for something new; 0 if absent, and never longer than 60,000"),
    ),
    responses(
        (status = 200, description = "All slots and tasks that the node should have, and runs by hand that are new", body = DesiredState),
        (status = 204, description = "Nothing new"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 409, description = "`unknown-node`: a heartbeat must come first; `superseded`; `node-taken`", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads; or the registry was not read yet", body = Problem),
    )
)]
pub async fn slots(
    req: HttpRequest,
    who: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    own_node(&req, &who)?;
    let mut request = SlotsRequest::read(&req)?;
    let end = Instant::now() + request.wait;
    let mut waiting = None;
    loop {
        let answer = match manager.leadership() {
            Ok(leadership) => request.answer(&leadership, &manager.shared().servers).await,
            Err(error) => Err(error.into()),
        };
        let ring = match answer {
            Ok(SlotsAnswer::New(body)) => {
                let kind = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
                return Ok(HttpResponse::Ok().insert_header(kind).body(body));
            }
            Ok(SlotsAnswer::Unchanged(ring)) => ring,
            // Its waiting must not hold up the stop; that there is nothing new is true.
            Err(_) if waiting.is_some() && manager.shared().stop.is_requested() => break,
            Err(problem) => return Err(problem.into()),
        };
        waiting.get_or_insert_with(|| WaitingRequest::begin(&manager.shared().figures.waiting));
        // None: the leadership has just ended, and the next attempt says so.
        if let Some(ring) = ring
            && timeout_at(end, ring).await.is_err()
        {
            break;
        }
    }
    Ok(HttpResponse::NoContent().finish())
}

/// An agent reports a run by hand.
#[utoipa::path(
    post,
    path = "/api/nodes/{node}/runs/{id}",
    tag = "agents",
    params(("node" = NodeName, Path), ("id" = u64, Path)),
    request_body(content = RunOutcome, description = "What came of it"),
    responses(
        (status = 200, description = "Passed on", body = inline(Object)),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 403, description = "The agent is another node's", body = Problem),
        (status = 404, description = "Nobody waits for it", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn report_run(
    req: HttpRequest,
    who: Principal,
    body: Body<MAX_REPORT_BYTES>,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let node = own_node(&req, &who)?;
    let id = whole("id", Some(segment(&req, "id")), 0, u64::MAX)?;
    let outcome = body.parse(input::run_outcome).await?;
    let passed_on = manager.leadership()?.answer(|state| state.runs.finish(&node, id, outcome))?;
    if !passed_on {
        return Err(Problem::not_found(format!("nobody waits for run {id} on node `{node}`")).into());
    }
    Ok(HttpResponse::Ok().json(json!({})))
}

/// The node of the path: a caller that is bound to a node speaks for that one only.
pub fn own_node(req: &HttpRequest, who: &Principal) -> Result<NodeName, Problem> {
    let node = path_node(req)?;
    match who.speaks_for(node.as_str()) {
        true => Ok(node),
        false => Err(forbidden(format!("{} speaks for another node than {node}", who.name()))),
    }
}

/// An agent's request for the desired state of its node.
struct SlotsRequest {
    node: NodeName,
    agent: String,
    boot: u64,
    revision: u64,
    wait: Duration,
    /// True once the cluster was looked at after the request came.
    settled: bool,
}

enum SlotsAnswer {
    New(JoinedPieces),
    /// Until the doorbell rings; none if the leadership is over.
    Unchanged(Option<OwnedNotified>),
}

impl SlotsRequest {
    fn read(req: &HttpRequest) -> Result<Self, Problem> {
        let query = Query::parse(req.query_string(), &["agent", "boot", "revision", "waitMs"])?;
        let required = |name: &'static str| {
            query.get(name).ok_or_else(|| Problem::invalid_field(FieldError::new(name, "is missing")))
        };
        let agent = input::agent(required("agent")?)?.to_owned();
        let boot = input::boot(whole("boot", Some(required("boot")?), 0, u64::MAX)?)?;
        let revision = whole("revision", query.get("revision"), 0, u64::MAX)?;
        let wait_ms = whole("waitMs", query.get("waitMs"), 0, u64::MAX)?;
        let wait = Duration::from_millis(wait_ms.min(MAX_WAIT_MS));
        Ok(SlotsRequest { node: path_node(req)?, agent, boot, revision, wait, settled: false })
    }

    async fn answer(&mut self, leadership: &Leadership, servers: &Servers) -> Result<SlotsAnswer, Problem> {
        if !std::mem::replace(&mut self.settled, true) {
            self.settle(leadership).await?;
        }
        leadership.answer(|state| self.answer_now(state, servers))?
    }

    /// A new leader soon knows the registrations, and a node that was heard of just now soon has a desired
    /// state: its agent need not ask twice for that, and must not take an empty state for an answer.
    async fn settle(&self, leadership: &Leadership) -> Result<(), LeadershipError> {
        let most = self.wait.min(SETTLED_WITHIN);
        if leadership.with(|state| !state.settled) {
            let read = leadership.reads.ask();
            leadership.wait(most, leadership.reads.done(read)).await?;
        } else if !leadership.with(|state| state.cluster.wants_reconcile()) {
            return Ok(());
        }
        let look = leadership.ask_look();
        leadership.wait(SETTLED_WITHIN, leadership.looks.done(look)).await.map(drop)
    }

    fn answer_now(&self, state: &mut LeadershipState, servers: &Servers) -> Result<SlotsAnswer, Problem> {
        let LeadershipState { cluster, rendered, runs, tasks, .. } = state;
        cluster.knows_agent(&self.node, &self.agent, self.boot)?;
        // An empty list out of ignorance would end everything that runs.
        let Some((revision, slots)) = cluster.desired(&self.node).filter(|_| state.settled) else {
            return Err(problems::registry_unread());
        };
        if revision == self.revision && !runs.is_waiting(&self.node) {
            return Ok(SlotsAnswer::Unchanged(state.await_ring(&self.node)));
        }
        let runs = runs.deliver(&self.node);
        let slots = slots.iter().map(|slot| Slot {
            registered: &slot.registered,
            epoch: slot.epoch,
            leased: slot.leased,
        });
        Ok(SlotsAnswer::New(answer(rendered, revision, servers, slots, &runs, tasks.of(&self.node))))
    }
}

/// Counts a request for as long as it waits, however that ends.
struct WaitingRequest<'a>(&'a Gauge);

impl<'a> WaitingRequest<'a> {
    fn begin(gauge: &'a Gauge) -> Self {
        gauge.add(1);
        WaitingRequest(gauge)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}
