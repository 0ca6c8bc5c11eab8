//! A task service that serves on a port of its own, and an engine that says and takes what a test tells it to.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::Problem;
use estimand_runtime::{Clock as _, SystemClock};
use estimand_serving::{ANY_PORT, Serving, client};
use estimand_tasks::{Engine, FilePeer, Peers, TaskService, TaskServiceOptions};
use estimand_testkit::http::Response;
use estimand_testkit::wait;
use estimand_web::{Body, Failure, Role, Routes, ServedPart, Users, segment};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::fake_engine::FakeEngine;

pub use estimand_serving::PATIENCE;
pub use estimand_testkit::databases::sqlite;

/// The lease of tasks, which are placed again soon.
const LEASE: Duration = Duration::from_secs(1);

/// The kinds of engine that the service has in these tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Our agents: a manager serves over HTTP, and news come to routes of the service.
    Agents,
    InMemory,
}

thread_local! {
    static KIND: Cell<Kind> = const { Cell::new(Kind::Agents) };
}

/// Runs a test over an engine of this kind.
pub fn over(kind: Kind, test: fn()) {
    KIND.set(kind);
    test();
}

/// A task service that runs.
pub struct Running {
    pub serving: Serving,
    pub service: TaskService,
    kind: Kind,
    /// The reasons it gave when it could not go on.
    pub fatal: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// Starts, and waits until everything is loaded.
    pub fn start(store: &str, world: &World) -> Self {
        Self::start_with(store, world, false, LEASE, true)
    }

    /// One whose tasks have such a lease.
    pub fn start_leasing(store: &str, world: &World, lease: Duration) -> Self {
        Self::start_with(store, world, false, lease, true)
    }

    /// One that runs published images only.
    pub fn start_strictly(store: &str, world: &World) -> Self {
        Self::start_with(store, world, true, LEASE, true)
    }

    /// One that knows no file service.
    pub fn start_without_files(store: &str, world: &World) -> Self {
        Self::start_with(store, world, false, LEASE, false)
    }

    fn start_with(
        store: &str,
        world: &World,
        published_images_only: bool,
        lease: Duration,
        has_files: bool,
    ) -> Self {
        let (fatal, mut started) = (Arc::new(Mutex::new(Vec::new())), None);
        let said = Arc::clone(&fatal);
        let serving = Serving::start(ANY_PORT, |tasks, readiness, stop| {
            let options = TaskServiceOptions {
                store: store.parse().unwrap(),
                clock: Arc::new(SystemClock),
                stop,
                on_fatal: Box::new(move |why| said.lock().unwrap().push(why.to_owned())),
                publish: None,
                published_images_only,
                lease,
                users: Users::default(),
            };
            started.insert(TaskService::start(options, tasks, readiness)).routes()
        });
        let service = started.unwrap();
        let peer = client(world.serving.address);
        let kind = KIND.get();
        let engine: Arc<dyn Engine> = match kind {
            Kind::Agents => Arc::new(service.agents(peer.clone())),
            Kind::InMemory => Arc::new(FakeEngine(Arc::clone(&world.state))),
        };
        let files = has_files.then(|| FilePeer { client: peer.clone(), address: None });
        service.set_peers(Peers { engine, data_service: peer, files });
        let running = Running { serving, service, kind, fatal };
        running.serving.wait_ready();
        running
    }

    pub fn stop(mut self) {
        self.serving.stop();
    }

    /// Everything ends where it is, without a word to anybody.
    pub fn crash(mut self) {
        self.serving.crash();
    }

    pub fn get(&self, path: &str) -> Response {
        self.serving.http.get(path)
    }

    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.serving.http.send_json("POST", path, body)
    }

    /// Submits a task, and returns its id.
    #[track_caller]
    pub fn submit(&self, document: &Value) -> String {
        let task = self.post("/api/tasks", document).expect_status(201).json();
        task["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub fn task(&self, id: &str) -> Value {
        self.get(&format!("/api/tasks/{id}")).expect_status(200).json()
    }

    /// Waits until a task is in a state, and returns it.
    #[track_caller]
    pub fn wait_for(&self, id: &str, state: &str) -> Value {
        wait::until_ok(PATIENCE, &format!("{id} to be {state}"), || {
            let task = self.task(id);
            if task["state"] == state { Ok(task) } else { Err(task) }
        })
    }

    #[track_caller]
    pub fn cancel(&self, id: &str) -> Value {
        self.serving
            .http
            .request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"")
            .expect_status(200)
            .json()
    }

    /// News of the engine.
    #[track_caller]
    pub fn news(&self, news: Value) {
        match self.kind {
            Kind::Agents => drop(self.post("/api/tasks/news", &news).expect_status(200)),
            Kind::InMemory => {
                let news = serde_json::from_value(news).unwrap();
                let taken = self.service.take_news(news, SystemClock.now_micros(), None);
                Runtime::new().unwrap().block_on(taken).unwrap();
            }
        }
    }

    /// A report of an attempt.
    #[track_caller]
    pub fn report(&self, id: &str, attempt: u32, stage: &Value) {
        let report = json!({ "id": id, "attempt": attempt, "at": 1, "stage": stage });
        self.news(json!({ "reports": [report] }));
    }

    #[track_caller]
    pub fn ends(&self, id: &str, attempt: u32, ending: &Value) {
        self.report(id, attempt, &json!({ "ended": { "ending": ending } }));
    }

    /// Lines of an attempt, the first of which has this number.
    #[track_caller]
    pub fn writes(&self, id: &str, attempt: u32, first: u64, lines: &[(&str, &str)]) {
        let line = |(stream, text): &(&str, &str)| json!({ "at": 1, "stream": stream, "text": text });
        let lines: Vec<Value> = lines.iter().map(line).collect();
        let log = json!({ "id": id, "attempt": attempt, "first": first, "lines": lines });
        self.news(json!({ "logs": [log] }));
    }

    #[track_caller]
    pub fn log(&self, id: &str, query: &str) -> Value {
        self.get(&format!("/api/tasks/{id}/logs?{query}")).expect_status(200).json()
    }

    pub fn figure(&self, line: &str) -> Option<f64> {
        let mut text = String::new();
        self.service.write_figures(&mut text);
        text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
    }
}

/// The texts of a page of a log.
pub fn texts(page: &Value) -> Vec<String> {
    page["lines"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

/// The smallest task.
pub fn simple() -> Value {
    json!({ "command": ["/bin/true"] })
}

pub fn with(more: &Value) -> Value {
    let mut body = simple();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The detail of a problem of this status.
#[track_caller]
pub fn refused(response: Response, status: u16) -> String {
    response.expect_problem(status)["detail"].as_str().unwrap().to_owned()
}

/// A node with its processors and labels.
pub fn node(name: &str, cores: u32, labels: &Value) -> Value {
    let at = "2026-01-31T23:59:59.000001Z";
    json!({
        "nodeName": name, "state": "ready", "cordoned": false, "labels": labels,
        "facts": { "cores": cores, "memory": 8_u64 << 30 },
        "lastHeartbeat": at, "knownSince": at, "instances": 0, "delivery": {},
    })
}

/// The nodes, and their engine.
pub struct World {
    pub serving: Serving,
    state: Shared,
}

pub type Shared = Arc<Mutex<State>>;

#[derive(Default)]
pub struct State {
    pub nodes: Vec<Value>,
    pub epoch: u64,
    pub away: bool,
    pub told: BTreeMap<String, Value>,
    /// How often any node was told.
    tellings: u64,
}

impl State {
    /// Takes what belongs on a node; false if there is no such node.
    pub fn tell(&mut self, node: &str, tasks: Value) -> bool {
        let is_there = self.nodes.iter().any(|known| known["nodeName"] == node);
        if is_there {
            self.tellings += 1;
            self.told.insert(node.to_owned(), tasks);
        }
        is_there
    }
}

impl World {
    pub fn start(nodes: &[Value]) -> Self {
        let state: Shared =
            Arc::new(Mutex::new(State { nodes: nodes.to_vec(), epoch: 1, ..State::default() }));
        let shared = Arc::clone(&state);
        let serving = Serving::start(ANY_PORT, |_, _, _| {
            let routes = Routes::new("world").add(Role::Read, watch, __path_watch);
            let routes = match KIND.get() {
                Kind::Agents => routes
                    .add(Role::Read, self::nodes, __path_nodes)
                    .add(Role::Service, told, __path_told)
                    .add(Role::Service, tell, __path_tell),
                // Whoever asks a manager finds none.
                Kind::InMemory => routes,
            };
            routes.share(shared)
        });
        World { serving, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn set_nodes(&self, nodes: &[Value]) {
        self.state().nodes = nodes.to_vec();
    }

    /// Another epoch, which knows nothing of what was told.
    pub fn elect(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.told.clear();
    }

    /// The engine knows nothing any more of what a node was told.
    pub fn forget(&self, node: &str) {
        self.state().told.remove(node);
    }

    pub fn take_away(&self, away: bool) {
        self.state().away = away;
    }

    pub fn tellings(&self) -> u64 {
        self.state().tellings
    }

    /// The tasks that a node was told last, by id, attempt and whether it is to end them; none if it was not told any.
    pub fn told(&self, node: &str) -> Option<Vec<(String, u64, bool)>> {
        let of = |task: &Value| {
            let (id, attempt) = (task["id"].as_str().unwrap().to_owned(), task["attempt"].as_u64().unwrap());
            (id, attempt, task["stop"] == true)
        };
        Some(self.state().told.get(node)?["tasks"].as_array().unwrap().iter().map(of).collect())
    }

    /// The assignment that a node was told.
    pub fn assignment(&self, node: &str, id: &str) -> Value {
        let state = self.state();
        let tasks = state.told[node]["tasks"].as_array().unwrap();
        tasks.iter().find(|task| task["id"] == id).unwrap().clone()
    }

    /// Waits until a node was told exactly these.
    #[track_caller]
    pub fn wait_told(&self, node: &str, expected: &[(&str, u64, bool)]) {
        let expected: Vec<(String, u64, bool)> =
            expected.iter().map(|(id, attempt, stop)| ((*id).to_owned(), *attempt, *stop)).collect();
        wait::until_ok(PATIENCE, &format!("{node} to be told {expected:?}"), || match self.told(node) {
            Some(told) if told == expected => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
}

fn there(state: &State) -> Result<(), Problem> {
    if state.away { Err(Problem::unavailable("away", 1)) } else { Ok(()) }
}

#[utoipa::path(get, path = "/api/nodes", responses((status = 200)))]
async fn nodes(state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    let state = state.lock().unwrap();
    there(&state)?;
    Ok(HttpResponse::Ok().json(&state.nodes))
}

#[utoipa::path(get, path = "/api/mng/nodes/tasks", responses((status = 200)))]
async fn told(state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    let state = state.lock().unwrap();
    there(&state)?;
    let nodes: Vec<&String> = state.told.keys().collect();
    Ok(HttpResponse::Ok().json(json!({ "epoch": state.epoch, "nodes": nodes })))
}

#[utoipa::path(put, request_body = String, path = "/api/mng/nodes/{node}/tasks", params(("node" = String, Path)), responses((status = 200)))]
async fn tell(
    req: HttpRequest,
    body: Body<1_048_576>,
    state: ThinData<Shared>,
) -> Result<HttpResponse, Failure> {
    let mut state = state.lock().unwrap();
    there(&state)?;
    let node = segment(&req, "node").to_owned();
    if !state.tell(&node, serde_json::from_slice(&body.0).unwrap()) {
        return Err(Problem::not_found("no such node").into());
    }
    Ok(HttpResponse::Ok().json(json!({ "epoch": state.epoch, "nodes": [node] })))
}

/// There are no facts.
#[utoipa::path(get, path = "/api/data/watch", params(("dataName" = String, Query)), responses((status = 200)))]
async fn watch() -> Result<HttpResponse, Failure> {
    Err(Problem::unavailable("there is nothing to watch", 1).into())
}
