//! A registry that serves on a port of its own, and a data service that only records the requests it gets.

#![allow(clippy::unwrap_used, dead_code)]

pub mod manager;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_client::Options;
use estimand_registry::{Registry, RegistryOptions};
use estimand_runtime::SystemClock;
use estimand_serving::client_with;
use estimand_testkit::http::Response;
use estimand_testkit::wait;
use estimand_web::{Body, Role, Routes, ServedPart};
use serde_json::{Value, json};

pub use estimand_serving::{ANY_PORT, PATIENCE, Serving};
pub use estimand_testkit::databases::sqlite;

/// A registry that runs.
pub struct Running {
    pub serving: Serving,
    pub registry: Registry,
    /// The reasons it gave when it could not go on.
    pub fatal: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// Starts, and does not wait for anything to be loaded.
    pub fn launch(store: &str) -> Self {
        let (fatal, mut started) = (Arc::new(Mutex::new(Vec::new())), None);
        let said = Arc::clone(&fatal);
        let serving = Serving::start(ANY_PORT, |tasks, readiness, _| {
            let options = RegistryOptions {
                store: store.parse().unwrap(),
                clock: Arc::new(SystemClock),
                check: Box::new(|_| Ok(())),
                defaults: Vec::new(),
                on_fatal: Box::new(move |why| said.lock().unwrap().push(why.to_owned())),
            };
            let registry = Registry::start(options, tasks, readiness);
            started.insert(registry).routes()
        });
        Running { serving, registry: started.unwrap(), fatal }
    }

    pub fn start(store: &str) -> Self {
        let running = Self::launch(store);
        running.wait_ready();
        running
    }

    pub fn wait_ready(&self) {
        self.serving.wait_ready();
    }

    pub fn stop(mut self) {
        self.serving.stop();
    }

    pub fn get(&self, path: &str) -> Response {
        self.serving.http.get(path)
    }

    pub fn post(&self, body: &Value) -> Response {
        self.serving.http.send_json("POST", "/api/registry", body)
    }

    pub fn put(&self, body: &Value) -> Response {
        self.serving.http.send_json("PUT", "/api/registry", body)
    }

    pub fn delete(&self, name: &str) -> Response {
        self.serving.http.request("DELETE", &format!("/api/registry/{name}"), &[], b"")
    }

    /// Versions and actions, newest first.
    pub fn trail(&self, name: &str) -> Vec<(u64, String)> {
        let trail = self.get(&format!("/api/registry/{name}/history")).expect_status(200).json();
        let entry = |entry: &Value| {
            (entry["version"].as_u64().unwrap(), entry["action"].as_str().unwrap().to_owned())
        };
        trail.as_array().unwrap().iter().map(entry).collect()
    }

    /// Makes it tell a data service.
    pub fn tells(&self, address: SocketAddr) {
        self.registry.set_data_service(client_with(address, Options::default()));
    }
}

/// The smallest registration, as the paper has it.
pub fn simple(name: &str) -> Value {
    json!({ "dataName": name, "cmd": "cat /proc/loadavg", "max-Time": 5 })
}

/// The same with more or other fields.
pub fn with(name: &str, more: &Value) -> Value {
    let mut body = simple(name);
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The detail of a problem of this status.
#[track_caller]
pub fn refused(response: Response, status: u16) -> String {
    response.expect_problem(status)["detail"].as_str().unwrap().to_owned()
}

/// A data service that records the histories it is told to keep.
pub struct Recording {
    pub serving: Serving,
    told: RecordingState,
}

#[derive(Clone, Default)]
struct RecordingState {
    retentions: Arc<Mutex<Vec<Value>>>,
    bindings: Arc<Vec<Value>>,
}

#[utoipa::path(put, request_body = String, path = "/api/data/retention", responses((status = 200)))]
async fn record(body: Body<65_536>, told: ThinData<RecordingState>) -> HttpResponse {
    told.retentions.lock().unwrap().push(serde_json::from_slice(&body.0).unwrap());
    HttpResponse::Ok().json(json!({}))
}

#[utoipa::path(get, path = "/api/bindings", responses((status = 200)))]
async fn bindings(told: ThinData<RecordingState>) -> HttpResponse {
    HttpResponse::Ok().json(&*told.bindings)
}

impl Recording {
    pub fn start(listen: SocketAddr, bindings: Vec<Value>) -> Self {
        let told = RecordingState { bindings: Arc::new(bindings), ..RecordingState::default() };
        let shared = told.clone();
        let serving = Serving::start(listen, |_, _, _| {
            Routes::new("recording")
                .add(Role::Write, record, __path_record)
                .add(Role::Read, self::bindings, __path_bindings)
                .share(shared)
        });
        Recording { serving, told }
    }

    /// The last list it was told.
    pub fn last(&self) -> Option<Value> {
        self.told.retentions.lock().unwrap().last().cloned()
    }

    pub fn wait_for(&self, expected: &Value) {
        wait::until_ok(PATIENCE, "the data service to be told", || match self.last() {
            Some(last) if last == *expected => Ok(()),
            last => Err(format!("{last:?}")),
        });
    }

    pub fn stop(mut self) {
        self.serving.stop();
    }
}
