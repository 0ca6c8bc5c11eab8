//! A manager that serves on a port of its own; the registry and the data service that it speaks to, which say
//! and take what a test tells them to; and agents that act only when a test has them act.

#![allow(clippy::unwrap_used, dead_code, unused_imports)]

pub mod agent;
mod pipe;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use estimand_client::{Client, Options};
use estimand_manager::{LeadershipTimes, Manager, ManagerOptions, Peers, Settings};
use estimand_runtime::Metrics;
use estimand_runtime::stop::{self, StopTrigger};
use estimand_runtime::{Readiness, Stop, SystemClock, Tasks};
use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait;
use estimand_web::server::ServerError;
use estimand_web::{OpenAdmission, Routes, ServedPart, Server, ServerOptions, Site};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

pub use agent::Agent;
pub use pipe::Pipe;
pub use world::{World, registration};

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Something that serves.
pub struct Serving {
    pub address: SocketAddr,
    pub http: Http,
    trigger: StopTrigger,
    ended: Option<JoinHandle<Result<(), ServerError>>>,
    runtime: Option<Runtime>,
}

impl Serving {
    pub fn start(listen: SocketAddr, make: impl FnOnce(&Tasks, &Readiness, Stop) -> Routes) -> Self {
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let (trigger, stop) = stop::pair();
        let (tasks, readiness) = (Tasks::new(), Readiness::new());
        let routes = make(&tasks, &readiness, stop.clone());
        let site = Site::new(routes, Arc::new(OpenAdmission), Metrics::new(), readiness);
        let options = ServerOptions { workers: Some(2), ..ServerOptions::new(listen) };
        let server = Server::bind(&options, site).unwrap();
        let address = server.address();
        let ended = Some(tokio::spawn(async move { server.run_until(stop, &tasks).await }));
        drop(entered);
        let http = Http::new(&format!("http://{address}"));
        Serving { address, http, trigger, ended, runtime: Some(runtime) }
    }

    pub fn stop(&mut self) {
        let (Some(ended), Some(runtime)) = (self.ended.take(), &self.runtime) else { return };
        self.trigger.request();
        runtime.block_on(async { tokio::time::timeout(PATIENCE, ended).await }).unwrap().unwrap().unwrap();
    }

    /// Everything ends where it is, without a word to anybody.
    pub fn crash(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A manager that runs.
pub struct Running {
    pub serving: Serving,
    pub manager: Manager,
}

/// Spans short enough for tests, and long enough for a machine that also compiles.
pub fn settings() -> Settings {
    let millis = Duration::from_millis;
    Settings {
        leadership: LeadershipTimes {
            ttl: millis(1_500),
            margin: millis(100),
            beat: millis(300),
            look: millis(100),
        },
        ..Settings::default()
    }
}

/// A client that asks once and is told soon.
pub fn client(address: SocketAddr) -> Client {
    // The second test of a process finds the provider there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = Options { attempts: 1, ..Options::default() };
    Client::with_options(&format!("http://{address}"), options).unwrap()
}

impl Running {
    /// Starts one of several managers over a store.
    pub fn launch(store: &str, world: &World, alone: bool, settings: Settings) -> Self {
        let mut started = None;
        let serving = Serving::start(ANY_PORT, |tasks, readiness, stop| {
            let options = ManagerOptions {
                store: store.parse().unwrap(),
                data_server: Some("http://data:1".to_owned()),
                task_server: Some("http://tasks:1".to_owned()),
                alone,
                clock: Arc::new(SystemClock),
                stop,
                settings,
            };
            started.insert(Manager::start(options, tasks, readiness)).routes()
        });
        let manager = started.unwrap();
        manager.set_peers(Peers {
            address: format!("http://{}", serving.address),
            registry: client(world.serving.address),
            data_service: client(world.serving.address),
        });
        Running { serving, manager }
    }

    /// Starts the only manager over a store, and waits until it leads.
    pub fn start(store: &str, world: &World) -> Self {
        let running = Self::launch(store, world, true, settings());
        running.wait_leading();
        running
    }

    pub fn wait_leading(&self) {
        wait::until(PATIENCE, "the manager to lead", || self.manager.is_leading().then_some(()));
    }

    pub fn stop(mut self) {
        self.serving.stop();
    }

    pub fn get(&self, path: &str) -> Response {
        self.serving.http.get(path)
    }

    pub fn request(&self, method: &str, path: &str) -> Response {
        self.serving.http.request(method, path, &[], b"")
    }

    pub fn tell(&self, registration: &Value) -> Response {
        self.serving.http.send_json("POST", "/api/mng", registration)
    }

    /// A node as it is shown.
    pub fn node(&self, node: &str) -> Value {
        self.get(&format!("/api/nodes/{node}")).expect_status(200).json()
    }

    pub fn figure(&self, line: &str) -> Option<f64> {
        let mut text = String::new();
        self.manager.write_figures(&mut text);
        text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
    }
}

/// The kind of a problem of this status.
#[track_caller]
pub fn refused(response: Response, status: u16) -> String {
    let response = response.expect_status(status);
    assert_eq!(response.header("content-type"), Some("application/problem+json"), "{response}");
    response.json()["type"].as_str().unwrap().to_owned()
}

/// A store in a folder of its own.
pub fn sqlite() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("store.db").display());
    (folder, url)
}
