//! The users who mean no harm: they submit, read, upload, look at prices and reserve.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait::{self, PATIENCE, pass};
use serde_json::{Value, json};

use super::Site;

/// How many ask at once.
const LANES: usize = 8;
/// Between two requests of a lane.
const BREATH: Duration = Duration::from_millis(30);
const CONTENT: [u8; 4096] = [b'x'; 4096];

/// Milliseconds that requests took, by kind.
#[derive(Default)]
pub struct Latencies(BTreeMap<&'static str, Vec<f64>>);

impl Latencies {
    /// By kind, in milliseconds.
    pub fn p99(&self) -> BTreeMap<&'static str, f64> {
        let of = |all: &Vec<f64>| {
            let mut sorted = all.clone();
            sorted.sort_by(f64::total_cmp);
            sorted[(sorted.len() * 99).div_ceil(100) - 1]
        };
        self.0.iter().map(|(kind, all)| (*kind, of(all))).collect()
    }

    fn add(&mut self, other: Latencies) {
        for (kind, all) in other.0 {
            self.0.entry(kind).or_default().extend(all);
        }
    }

    /// Does it, takes its time, and expects it to succeed.
    #[track_caller]
    fn take(&mut self, kind: &'static str, ask: impl FnOnce() -> Response) -> Response {
        let began = Instant::now();
        let answer = ask();
        self.0.entry(kind).or_default().push(began.elapsed().as_secs_f64() * 1000.0);
        assert!(answer.status < 300, "{kind} of a user who means no harm: {answer}");
        answer
    }
}

pub struct Others {
    clients: Vec<Http>,
    /// The last task of each client's.
    tasks: Mutex<BTreeMap<usize, String>>,
}

impl Others {
    pub fn new(site: &Site, count: usize) -> Self {
        Others { clients: (0..count).map(|number| site.user(number)).collect(), tasks: Mutex::default() }
    }

    /// The users ask in turns, for so long.
    pub fn ask_for(&self, span: Duration) -> Latencies {
        let end = Instant::now() + span;
        let lane = |lane: usize| {
            let mut latencies = Latencies::default();
            for number in (lane..self.clients.len()).step_by(LANES).cycle() {
                if Instant::now() >= end {
                    break;
                }
                self.ask(number, &mut latencies);
            }
            latencies
        };
        let mut all = Latencies::default();
        thread::scope(|scope| {
            let lanes: Vec<_> = (0..LANES).map(|number| scope.spawn(move || lane(number))).collect();
            lanes.into_iter().for_each(|lane| all.add(lane.join().unwrap()));
        });
        all
    }

    fn ask(&self, number: usize, latencies: &mut Latencies) {
        let client = &self.clients[number];
        let task = json!({ "command": ["/bin/echo", "hello"] });
        let task = latencies.take("submit", || client.send_json("POST", "/api/tasks", &task)).json();
        let id = task["id"].as_str().unwrap().to_owned();
        pass(BREATH);
        latencies.take("read", || client.get(&format!("/api/tasks/{id}")));
        pass(BREATH);
        latencies.take("list", || client.get("/api/tasks?limit=5"));
        pass(BREATH);
        let path = "/api/files/content?path=data/own";
        latencies.take("upload", || client.request("PUT", path, &[], &CONTENT));
        pass(BREATH);
        latencies.take("download", || client.get(path));
        pass(BREATH);
        let asked =
            json!({ "resources": { "cpu": 0.001 }, "duration": 1, "by": "50m", "value": 1, "dryRun": true });
        latencies.take("quote", || client.send_json("POST", "/api/reservations", &asked));
        self.tasks.lock().unwrap().insert(number, id);
    }

    /// The last task of everybody comes to its end.
    #[track_caller]
    pub fn check_tasks_end(&self) {
        for (number, id) in self.tasks.lock().unwrap().iter() {
            wait::until_ok(PATIENCE, "the task of a user to end", || {
                let task: Value = self.clients[*number].get(&format!("/api/tasks/{id}")).json();
                if task["state"] == "SUCCEEDED" { Ok(()) } else { Err(task) }
            });
        }
    }
}
