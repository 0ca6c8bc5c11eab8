//! An agent that says what a check has it say, and runs nothing.
//!
//! Its node is its own: nobody else's registrations are meant for it, though those for all nodes belong there as
//! well. It says goodbye at the end, so that nobody waits for what it never confirms.

use estimand_testkit::http::Response;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};

use crate::target::Target;

pub struct Fake<'t> {
    target: &'t Target,
    pub node: String,
    pub agent: String,
    pub boot: u64,
    /// The revision that it reports to have applied.
    pub applied: Cell<u64>,
    labels: RefCell<Value>,
    /// The token that it shows, if not the operator's.
    token: Option<String>,
}

impl<'t> Fake<'t> {
    /// Not heard of yet.
    pub fn new(target: &'t Target) -> Self {
        let node = target.name("fake");
        let agent = format!("agent-of-{node}");
        let labels = RefCell::new(json!({ "fake": node }));
        Fake { target, node, agent, boot: 1, applied: Cell::new(0), labels, token: None }
    }

    /// Heard of.
    pub fn known(target: &'t Target) -> Self {
        let fake = Fake::new(target);
        fake.beat().expect_status(200);
        fake
    }

    /// The same agent after another start, or before it.
    pub fn booted(&self, boot: u64) -> Fake<'t> {
        Fake {
            target: self.target,
            node: self.node.clone(),
            agent: self.agent.clone(),
            boot,
            applied: Cell::new(0),
            labels: self.labels.clone(),
            token: self.token.clone(),
        }
    }

    /// The same agent with a token of its own.
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub fn set_labels(&self, labels: Value) {
        self.labels.replace(labels);
    }

    /// Another agent for the same node.
    pub fn rival(&self) -> Fake<'t> {
        let mut rival = self.booted(1);
        rival.agent = format!("rival-of-{}", self.agent);
        rival
    }

    /// `/api/nodes/NODE` and what follows.
    pub fn path(&self, rest: &str) -> String {
        format!("/api/nodes/{}{rest}", self.node)
    }

    /// A heartbeat but for these changes; null removes a field.
    pub fn beat_with(&self, changes: &Value) -> Response {
        let mut body = json!({
            "agent": self.agent, "boot": self.boot, "applied": self.applied.get(), "full": true,
            "labels": *self.labels.borrow(),
            "facts": {"hostname": "host", "cores": 4, "memory": 1024, "allow": ["/opt"]},
        });
        let map = body.as_object_mut().unwrap();
        map.extend(changes.as_object().unwrap().clone());
        map.retain(|_, value| !value.is_null());
        self.send("POST", &self.path("/heartbeat"), body.to_string().as_bytes())
    }

    fn send(&self, method: &str, path: &str, body: &[u8]) -> Response {
        let shown = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(shown.as_ref().map(|shown| ("Authorization", shown.as_str())));
        self.target.manager.request(method, path, &headers, body)
    }

    pub fn beat(&self) -> Response {
        self.beat_with(&json!({}))
    }

    /// Its slots have all ended, and it ends too.
    pub fn leave(&self) -> Response {
        self.beat_with(&json!({"leaving": true}))
    }

    /// Asks what to run; `more` is more of the query.
    pub fn ask(&self, more: &str) -> Response {
        let query = format!("/slots?agent={}&boot={}{more}", self.agent, self.boot);
        self.send("GET", &self.path(&query), b"")
    }

    /// Asks, and says that it does so: takes over whatever it should run. Returns the runs by hand in that.
    pub fn follow(&self) -> Vec<Value> {
        let answer = self.ask(&format!("&revision={}", self.applied.get()));
        let mut runs = Vec::new();
        if answer.status == 200 {
            let desired = answer.json();
            self.applied.set(desired["revision"].as_u64().unwrap());
            runs.extend(desired["runs"].as_array().into_iter().flatten().cloned());
        } else {
            answer.expect_status(204);
        }
        self.beat().expect_status(200);
        runs
    }

    /// Does as an agent does until that gives something.
    #[track_caller]
    pub fn follow_until<T>(&self, what: &str, mut probe: impl FnMut(Vec<Value>) -> Option<T>) -> T {
        wait::until(PATIENCE, what, || probe(self.follow()))
    }

    /// A registration for this node alone.
    pub fn registration(&self, name: &str) -> Value {
        json!({"dataName": name, "cmd": "true", "max-Time": 5, "nodes": format!("fake={}", self.node)})
    }
}

impl Drop for Fake<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // It may be over already, and another one may have its place.
            self.leave();
        }
    }
}
