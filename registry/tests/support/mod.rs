//! A registry that serves on a port of its own, and a data service that only records the requests it gets.

#![allow(clippy::unwrap_used, dead_code)]

pub mod manager;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_client::Client;
use estimand_registry::{Registry, RegistryOptions};
use estimand_runtime::Metrics;
use estimand_runtime::stop::{self, StopTrigger};
use estimand_runtime::{Readiness, SystemClock, Tasks};
use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait;
use estimand_web::server::ServerError;
use estimand_web::{Body, OpenAdmission, Role, Routes, ServedPart, Server, ServerOptions, Site};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Something that serves.
pub struct Serving {
    pub address: SocketAddr,
    pub http: Http,
    trigger: StopTrigger,
    ended: Option<JoinHandle<Result<(), ServerError>>>,
    runtime: Runtime,
}

impl Serving {
    fn start(
        listen: SocketAddr,
        readiness: Readiness,
        make: impl FnOnce(&Tasks, &Readiness) -> Routes,
    ) -> Self {
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let (trigger, stop) = stop::pair();
        let tasks = Tasks::new();
        let routes = make(&tasks, &readiness);
        let site = Site::new(routes, Arc::new(OpenAdmission), Metrics::new(), readiness);
        let options = ServerOptions { workers: Some(2), ..ServerOptions::new(listen) };
        let server = Server::bind(&options, site).unwrap();
        let address = server.address();
        let ended = Some(tokio::spawn(async move { server.run_until(stop, &tasks).await }));
        drop(entered);
        Serving { address, http: Http::new(&format!("http://{address}")), trigger, ended, runtime }
    }

    fn stop(&mut self) {
        let Some(ended) = self.ended.take() else { return };
        self.trigger.request();
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, ended).await })
            .unwrap()
            .unwrap()
            .unwrap();
    }
}

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
        let serving = Serving::start(ANY_PORT, Readiness::new(), |tasks, readiness| {
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
        wait::until_ok(PATIENCE, "the registry to be ready", || {
            let ready = self.get("/readyz");
            if ready.status == 200 { Ok(()) } else { Err(ready) }
        });
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
        // The second test of a process finds the provider there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        self.registry.set_data_service(Client::new(&format!("http://{address}")).unwrap());
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
    let response = response.expect_status(status);
    assert_eq!(response.header("content-type"), Some("application/problem+json"), "{response}");
    response.json()["detail"].as_str().unwrap().to_owned()
}

/// A store in a folder of its own.
pub fn sqlite() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("store.db").display());
    (folder, url)
}

/// A data service that records the histories it is told to keep.
pub struct Recording {
    pub serving: Serving,
    told: Told,
}

#[derive(Clone, Default)]
struct Told {
    retentions: Arc<Mutex<Vec<Value>>>,
    bindings: Arc<Vec<Value>>,
}

#[utoipa::path(put, path = "/api/data/retention", responses((status = 200)))]
async fn record(body: Body<65_536>, told: ThinData<Told>) -> HttpResponse {
    told.retentions.lock().unwrap().push(serde_json::from_slice(&body.0).unwrap());
    HttpResponse::Ok().json(json!({}))
}

#[utoipa::path(get, path = "/api/bindings", responses((status = 200)))]
async fn bindings(told: ThinData<Told>) -> HttpResponse {
    HttpResponse::Ok().json(&*told.bindings)
}

impl Recording {
    pub fn start(listen: SocketAddr, bindings: Vec<Value>) -> Self {
        let told = Told { bindings: Arc::new(bindings), ..Told::default() };
        let shared = told.clone();
        let serving = Serving::start(listen, Readiness::new(), |_, _| {
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
