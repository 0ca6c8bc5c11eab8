//! A study that is computed again from its records, by the core alone.

use std::collections::BTreeMap;

use estimand_testkit::http::Http;
use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};
use estimand_tuning::samplers::Sampler;
use estimand_tuning::space::{Parameters, parse};
use estimand_tuning::{Direction, History, Measure, Outcome, Study, TrialResult};
use serde_json::{Value, json};

/// The trials of a study by ascending number.
pub fn trials(http: &Http, id: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = http.get(&format!("/api/studies/{id}/trials?limit=100{after}")).expect_status(200).json();
        all.extend(page["trials"].as_array().unwrap().iter().cloned());
        match page["next"].as_u64() {
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
    }
}

fn parameters(trial: &Value) -> Parameters {
    serde_json::from_value(trial["parameters"].clone()).unwrap()
}

fn outcome(trial: &Value) -> Outcome {
    let measure = trial["value"].as_f64().map(|value| Measure::new(value).unwrap());
    match trial["state"].as_str().unwrap() {
        "COMPLETE" => Outcome::Complete(measure.unwrap()),
        "PRUNED" => Outcome::Pruned(measure),
        "FAILED" => Outcome::Failed,
        other => panic!("{other}"),
    }
}

/// The history that a proposal was made with: the first results by place, and everything else before it as pending.
fn history(earlier: &[Value], seen: u64) -> History {
    let mut results = BTreeMap::new();
    let mut history = History::default();
    for trial in earlier {
        let number = trial["number"].as_u64().unwrap();
        match trial["place"].as_u64().filter(|place| *place < seen) {
            Some(place) => {
                results.insert(
                    place,
                    TrialResult { number, parameters: parameters(trial), outcome: outcome(trial) },
                );
            }
            None => history.pending.push((number, parameters(trial))),
        }
    }
    assert_eq!(results.len() as u64, seen, "all that it knew came from trials before it");
    history.results = results.into_values().collect();
    history
}

/// Checks that each trial has the parameters that the core proposes from the records.
pub fn check(document: &Value, sampler: Sampler, record: &Value, trials: &[Value]) {
    let (space, _) = parse(&json!({ "parameters": document["parameters"] }).to_string()).unwrap();
    let study = Study {
        space,
        direction: Direction::Minimize,
        seed: record["seed"].as_u64().unwrap(),
        sampler,
        enqueued: Vec::new(),
    };
    for (number, trial) in trials.iter().enumerate() {
        assert_eq!(trial["number"], number, "none is missing");
        let seen = trial["seen"].as_u64().unwrap();
        let again = study.propose(number as u64, &history(&trials[..number], seen));
        assert_eq!(again, Some(parameters(trial)), "{trial}");
    }
}

/// A worker alone, which lets each proposal know of all results.
fn run_alone(http: &Http, document: &Value) -> Vec<Value> {
    http.send_json("POST", "/api/studies", document).expect_status(201);
    let id = document["id"].as_str().unwrap();
    loop {
        let asked =
            http.request("POST", &format!("/api/studies/{id}/ask"), &[], b"").expect_status(200).json();
        let Some(trial) = asked["trials"].get(0) else {
            assert_eq!(asked["done"], true, "{asked}");
            return trials(http, id);
        };
        let x = trial["parameters"]["x"].as_f64().unwrap();
        let path = format!("/api/studies/{id}/trials/{}/tell", trial["number"]);
        http.send_json("POST", &path, &json!({ "value": (x - 0.3).abs() })).expect_status(200);
    }
}

#[test]
fn a_seeded_study_is_the_same_twice() {
    let service = process::estimand().args(["tuning-service"]).start();
    let http = service.http();
    let document = |id: &str| {
        json!({ "id": id, "direction": "minimize", "seed": 11, "sampler": "gp", "patience": "30s", "stop": { "trials": 16 },
            "parameters": [{ "name": "x", "type": "float", "low": 0, "high": 1 }] })
    };
    let (one, other) = (run_alone(&http, &document("one")), run_alone(&http, &document("other")));
    let proposed = |trials: &[Value]| {
        trials.iter().map(|trial| (trial["parameters"].clone(), trial["seen"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(proposed(&one), proposed(&other));
    let seen: Vec<u64> = one.iter().map(|trial| trial["seen"].as_u64().unwrap()).collect();
    assert_eq!(seen, (0..16).collect::<Vec<_>>(), "each knew of all results");
    let record = wait::until_ok(PATIENCE, "the study to be over", || {
        let record = http.get("/api/studies/one").expect_status(200).json();
        if record["state"] == "OVER" { Ok(record) } else { Err(record) }
    });
    assert_eq!(record["reason"], "trials");
    check(&document("one"), Sampler::Process, &record, &one);
}
