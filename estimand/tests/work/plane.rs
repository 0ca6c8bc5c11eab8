//! Each service in a process of its own, and agents that take a few tasks each.

use std::path::PathBuf;
use std::time::Duration;

use estimand_testkit::databases::{Kind, Server};
use estimand_testkit::http::{Http, Response};
use estimand_testkit::place::Place;
use estimand_testkit::plane::{Apart, local};
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

/// How many tasks a node takes at once.
pub const PLACES: u64 = 8;
/// How long somebody who asks waits before asking again.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

pub struct Plane {
    pub services: Apart,
    pub tasks: Estimand,
    pub agents: Vec<Estimand>,
    pub http: Http,
    /// Under the manager, the registry and the task service, if there is one.
    pub postgres: Option<Server>,
    pub place: Place,
}

impl Plane {
    /// With these nodes.
    pub fn start(story: &str, nodes: &[&str]) -> Self {
        Self::with(story, nodes, None)
    }

    /// With a database server for all services but the data service.
    pub fn with(story: &str, nodes: &[&str], postgres: Option<Server>) -> Self {
        let place = Place::new(story);
        let (tasks_port, store) = (free_port(), postgres.as_ref().map(Server::fresh_url));
        let tasks_at = local(tasks_port);
        let services = Apart::start_with(|name, service| {
            let service = match name {
                "manager" => service.args(["--task-server", &tasks_at]),
                _ => service,
            };
            match &store {
                Some(url) if name != "data" => service.store(url),
                _ => service.data_dir(place.service_folder(name)),
            }
        });
        let (manager_at, data_at) = (services.manager.base_url(), services.data.base_url());
        let args = ["task-service", "--manager", manager_at, "--data-service", data_at];
        let tasks = process::estimand().args(args).port(tasks_port);
        let tasks = match &store {
            Some(url) => tasks.store(url),
            None => tasks.data_dir(place.service_folder("tasks")),
        };
        let tasks = tasks.start();
        let places = format!("tasks={PLACES}");
        let agent = |node: &&str| {
            let args = ["agent", "--server", manager_at, "--node", node, "--allow-all", "--label", &places];
            process::estimand().args(args).data_dir(place.agent_folder(node)).without_http().start()
        };
        let agents: Vec<Estimand> = nodes.iter().map(agent).collect();
        let http = tasks.http().with_deadline(ANSWER_WITHIN);
        let plane = Plane { services, tasks, agents, http, postgres, place };
        plane.wait_nodes(nodes.len());
        plane
    }

    /// The folder that the story's tasks share.
    pub fn folder(&self) -> PathBuf {
        let folder = self.place.service_folder("shared");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[track_caller]
    pub fn wait_nodes(&self, count: usize) {
        wait::until_ok(PATIENCE, "the task service to know the nodes", || match self.capacity() {
            Ok(nodes) if nodes.iter().filter(|node| node["standing"] == "up").count() == count => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    pub fn capacity(&self) -> Result<Vec<Value>, String> {
        let answer = self.try_get("/api/capacity")?;
        Ok(answer.as_array().cloned().unwrap_or_default())
    }

    pub fn try_get(&self, path: &str) -> Result<Value, String> {
        let answer = self.http.try_request("GET", path, &[], b"").map_err(|error| error.to_string())?;
        if answer.status == 200 { Ok(answer.json()) } else { Err(answer.to_string()) }
    }

    /// Submits a task, again and again while nobody takes it; sent twice it is one.
    #[track_caller]
    pub fn submit(&self, document: &Value) -> String {
        submit(&self.http, document)
    }

    /// Waits until it is over.
    #[track_caller]
    pub fn over(&self, id: &str) -> Value {
        wait::until_ok(PATIENCE * 2, &format!("{id} to be over"), || {
            let task = self.try_get(&format!("/api/tasks/{id}"))?;
            if task.get("endedAt").is_some() { Ok(task) } else { Err(task.to_string()) }
        })
    }

    /// Waits until it has been in one of these states.
    #[track_caller]
    pub fn wait_been(&self, id: &str, states: &[&str]) {
        wait::until_ok(PATIENCE, &format!("{id} to have been {states:?}"), || {
            let task = self.try_get(&format!("/api/tasks/{id}"))?;
            let mut reached = task["transitions"].as_array().into_iter().flatten();
            let is_one = |one: &Value| states.iter().any(|state| one["to"] == *state);
            if reached.any(is_one) { Ok(()) } else { Err(task.to_string()) }
        });
    }

    /// The whole log: number, attempt and text of each line, and the lines that were dropped before it.
    #[track_caller]
    pub fn log(&self, id: &str) -> Vec<(u64, u64, String, u64)> {
        let (mut lines, mut from) = (Vec::new(), json!(0));
        loop {
            let page = self.http.get(&format!("/api/tasks/{id}/logs?from={from}")).expect_status(200).json();
            let some = page["lines"].as_array().unwrap();
            lines.extend(some.iter().map(|line| {
                let number = |name: &str| line[name].as_u64().unwrap_or(0);
                (
                    number("line"),
                    number("attempt"),
                    line["text"].as_str().unwrap().to_owned(),
                    number("dropped"),
                )
            }));
            if page["over"] == true || some.is_empty() {
                return lines;
            }
            from = page["next"].clone();
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        // A task outlives its agent, and only a story that fails leaves anything.
        if std::thread::panicking() {
            self.agents.iter_mut().for_each(Estimand::kill9);
            processes::kill9_all_with(self.place.agent_folder("").to_str().unwrap_or("/nowhere"));
            processes::kill9_all_with(self.place.service_folder("shared").to_str().unwrap_or("/nowhere"));
        }
    }
}

/// Sends a submission until it is taken.
#[track_caller]
pub fn submit(http: &Http, document: &Value) -> String {
    let key = format!("{:016x}", fastrand::u64(..));
    let headers = [("Idempotency-Key", key.as_str()), ("Content-Type", "application/json")];
    let body = document.to_string();
    wait::until_ok(PATIENCE, "a submission to be taken", || {
        let answer = http.try_request("POST", "/api/tasks", &headers, body.as_bytes());
        match answer {
            Ok(answer @ Response { status: 200 | 201, .. }) => {
                Ok(answer.json()["id"].as_str().unwrap().to_owned())
            }
            Ok(answer) => {
                assert!(answer.status >= 500, "{answer}");
                Err(answer.to_string())
            }
            Err(error) => Err(error.to_string()),
        }
    })
}

/// A database server, in the long form.
pub fn own_postgres() -> Option<Server> {
    crate::long_or(true, false).then(|| Server::start_own(Kind::Postgres))
}
