//! A manager that serves on a port of its own; the registry and the data service that it speaks to, which say
//! and take what a test tells them to; and agents that act only when a test has them act.

#![allow(clippy::unwrap_used, dead_code, unused_imports)]

pub mod agent;
mod pipe;
mod world;

use std::sync::Arc;
use std::time::Duration;

use estimand_manager::{LeadershipTimes, Manager, ManagerOptions, Peers, Settings};
use estimand_runtime::SystemClock;
use estimand_testkit::http::Response;
use estimand_testkit::wait;
use estimand_web::ServedPart;
use serde_json::Value;

pub use agent::Agent;
pub use estimand_serving::{ANY_PORT, PATIENCE, Serving, client};
pub use estimand_testkit::databases::sqlite;
pub use pipe::Pipe;
pub use world::{World, registration};

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
    response.expect_problem(status)["type"].as_str().unwrap().to_owned()
}
