//! An agent that says and asks exactly what it is told to.

use std::net::SocketAddr;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait;
use serde_json::{Value, json};

use super::PATIENCE;

pub struct Agent {
    pub http: Http,
    pub node: String,
    pub agent: String,
    pub boot: u64,
    pub labels: Value,
}

impl Agent {
    pub fn new(manager: SocketAddr, node: &str) -> Self {
        let http = Http::new(&format!("http://{manager}"));
        Agent { http, node: node.to_owned(), agent: format!("agent-of-{node}"), boot: 1, labels: json!({}) }
    }

    pub fn beat_with(&self, more: &Value) -> Response {
        let mut body = json!({ "agent": self.agent, "boot": self.boot, "applied": 0, "labels": self.labels });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.http.send_json("POST", &format!("/api/nodes/{}/heartbeat", self.node), &body)
    }

    /// Says that its slots follow a revision.
    #[track_caller]
    pub fn beat(&self, applied: u64) -> Value {
        self.beat_with(&json!({ "applied": applied, "full": true })).expect_status(200).json()
    }

    pub fn ask(&self, revision: u64, wait_ms: u64) -> Response {
        let Agent { node, agent, boot, .. } = self;
        self.http.get(&format!(
            "/api/nodes/{node}/slots?agent={agent}&boot={boot}&revision={revision}&waitMs={wait_ms}"
        ))
    }

    /// The names that it should run now, and the revision of that state.
    #[track_caller]
    pub fn slots(&self) -> (Vec<String>, u64) {
        wait::until_ok(PATIENCE, "to be told what to run", || match self.ask(0, 1_000) {
            answer if answer.status == 200 => Ok(read(&answer.json())),
            answer => Err(answer),
        })
    }

    /// Waits until it should run exactly these, and says as of which revision.
    #[track_caller]
    pub fn wait_for(&self, names: &[&str]) -> u64 {
        let (mut seen, mut revision) = (Vec::new(), 0);
        wait::until_ok(PATIENCE, "the right slots", || {
            let answer = self.ask(revision, 1_000);
            if answer.status == 200 {
                (seen, revision) = read(&answer.json());
            }
            if seen == names { Ok(revision) } else { Err(format!("{seen:?}, {}", answer.status)) }
        })
    }

    pub fn report(&self, id: u64, body: &Value) -> Response {
        self.http.send_json("POST", &format!("/api/nodes/{}/runs/{id}", self.node), body)
    }
}

/// The names of an answer's slots, and its revision.
pub fn read(desired: &Value) -> (Vec<String>, u64) {
    let name = |slot: &Value| slot["registration"]["dataName"].as_str().unwrap().to_owned();
    let names = desired["slots"].as_array().unwrap().iter().map(name).collect();
    (names, desired["revision"].as_u64().unwrap())
}
