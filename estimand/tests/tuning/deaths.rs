//! The service is killed again and again while workers ask and tell: no trial is given twice, none is lost, each result that was
//! acknowledged is there, and each proposal can be computed again.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};
use estimand_tuning::samplers::Sampler;
use serde_json::{Value, json};

use crate::repeats::{check, trials};

const WORKERS: u64 = 4;
const KILLS: u64 = 12;
/// Results between two kills.
const RESULTS: u64 = 6;

/// The answers that the workers were given.
#[derive(Default)]
struct Acknowledged {
    /// Trials by number, with the question that was given them.
    asked: Mutex<BTreeMap<u64, String>>,
    told: Mutex<BTreeMap<u64, Value>>,
    reported: Mutex<Vec<(u64, u64)>>,
    results: AtomicU64,
    end: AtomicBool,
}

/// Sends a request until it is answered, as whoever has an idempotent request does.
fn send(http: &Http, path: &str, key: &str, body: &Value) -> Response {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    wait::until(PATIENCE, "an answer", || {
        let answer = http.try_request("POST", path, &headers, body.to_string().as_bytes()).ok()?;
        (answer.status < 500).then_some(answer)
    })
}

fn work(http: &Http, worker: u64, all: &Acknowledged) {
    let mut question = 0;
    while !all.end.load(Ordering::Relaxed) {
        question += 1;
        let key = format!("{worker} {question}");
        let asked = send(http, "/api/studies/s/ask", &key, &json!({ "count": 1 })).expect_status(200).json();
        for trial in asked["trials"].as_array().unwrap() {
            let number = trial["number"].as_u64().unwrap();
            let before = all.asked.lock().unwrap().insert(number, key.clone());
            assert_eq!(before, None, "trial {number} is given twice");
            let path = |verb: &str| format!("/api/studies/s/trials/{number}/{verb}");
            let x = trial["parameters"]["x"].as_f64().unwrap();
            let value = (x - 0.3).abs();
            for step in 1..=2 {
                let report = json!({ "step": step, "value": value });
                send(http, &path("report"), "r", &report).expect_status(200);
                all.reported.lock().unwrap().push((number, step));
            }
            let end = match number % 7 {
                3 => json!({ "failed": "it did" }),
                5 => json!({ "pruned": true }),
                _ => json!({ "value": value }),
            };
            let told = send(http, &path("tell"), "t", &end).expect_status(200).json();
            all.told.lock().unwrap().insert(number, told);
            all.results.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn kill_and_start(service: &mut Estimand) {
    service.kill9();
    service.restart_on_same_port();
}

#[test]
fn a_study_goes_on_whatever_is_killed() {
    // A certain port, so that a start after a kill finds it free.
    let mut service = process::estimand().args(["tuning-service"]).port(free_port()).start();
    let document = json!({ "id": "s", "direction": "minimize", "sampler": "tpe", "patience": "50ms",
        "parameters": [{ "name": "x", "type": "float", "low": 0, "high": 1 },
            { "name": "n", "type": "integer", "low": 1, "high": 9, "log": true }] });
    let http = service.http();
    http.send_json("POST", "/api/studies", &document).expect_status(201);
    let all = Acknowledged::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (http, all) = (&http, &all);
                scope.spawn(move || work(http, worker, all))
            })
            .collect();
        for kill in 1..=KILLS {
            wait::until(PATIENCE, "more results", || {
                let is_stuck = workers.iter().any(|worker| worker.is_finished());
                (is_stuck || all.results.load(Ordering::Relaxed) >= kill * RESULTS).then_some(())
            });
            kill_and_start(&mut service);
        }
        all.end.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    kill_and_start(&mut service);

    let stored = trials(&http, "s");
    let asked = all.asked.into_inner().unwrap();
    let told = all.told.into_inner().unwrap();
    let numbers: Vec<u64> = asked.keys().copied().collect();
    // Each question was repeated until it was answered, so there is no trial that nobody has.
    assert_eq!(numbers, (0..stored.len() as u64).collect::<Vec<_>>());
    for (number, told) in &told {
        assert_eq!(&stored[*number as usize], told, "it was acknowledged");
    }
    assert_eq!(told.len(), stored.len());
    for (number, step) in all.reported.into_inner().unwrap() {
        let trial = http.get(&format!("/api/studies/s/trials/{number}")).expect_status(200).json();
        let reports = trial["reports"].as_array().unwrap();
        assert!(reports.iter().any(|report| report["step"] == step), "{trial}");
    }
    let mut places: Vec<u64> = stored.iter().map(|trial| trial["place"].as_u64().unwrap()).collect();
    places.sort_unstable();
    assert_eq!(places, (0..stored.len() as u64).collect::<Vec<_>>());
    let record = http.get("/api/studies/s").expect_status(200).json();
    check(&document, Sampler::Tree, &record, &stored);
}
