//! The same estimator as a script, as an expression and as the built-in gives the same numbers: over inputs that are
//! drawn anew each time, which the scripts read from a server as they would from the data service.

// Tables read best with their values in place.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use estimand_expressions::{Budget, Expression};
use estimand_processors::{ParamValues, Scope, find, make};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

#[path = "../src/facts.rs"]
mod facts;
use facts::Facts;

const SCRIPTS: [&str; 2] = ["capability_cpu.sh", "capability_cpu.py"];

/// Answers one request with a body, and says what was asked for.
fn serve_once(body: String) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let answered = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let request = lines.next().unwrap();
        assert!(lines.any(|line| line.is_empty()), "the head of the request never ended");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        request
    });
    (server, answered)
}

/// Runs a script over the loads of nodes: exit, output, complaints.
fn run(script: &str, params: &ParamValues, loads: &[Value]) -> (bool, Value, String) {
    let value = |(node, load): (usize, &Value)| {
        json!({
            "dataName": "cpu_load", "nodeName": format!("node-{node}"), "dataValue": load,
            "collectedAt": "2026-01-01T00:00:00Z", "validFor": null, "state": "fresh", "revision": node,
        })
    };
    let values: Vec<Value> = loads.iter().enumerate().map(value).collect();
    let (server, answered) = serve_once(Value::from(values).to_string());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(script);
    let mut command = Command::new(path);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("ESTIMAND_SERVER", &server).env("ESTIMAND_INPUTS", "cpu_load,else");
    for (name, value) in params {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        command.env(format!("ESTIMAND_PARAM_{}", name.to_uppercase()), text);
    }
    let output = command.output().unwrap();
    // One that asked for nothing leaves the server waiting.
    let asked = |request: &str| assert!(request.starts_with("GET /api/data?dataName=cpu_load "), "{request}");
    let text = String::from_utf8(output.stderr).unwrap();
    if !text.starts_with("cpu_req is") && !text.starts_with("reads is") {
        asked(&answered.join().unwrap());
    }
    (output.status.success(), serde_json::from_slice(&output.stdout).unwrap_or_default(), text)
}

/// The answers of the built-in, for each node that it has one for.
fn built_in(params: &ParamValues, loads: &[Value]) -> Map<String, Value> {
    let mut params = params.clone();
    params.insert("cpu".to_owned(), json!("cpu_load"));
    let processor = make(find("capability_cpu").unwrap(), &params).unwrap();
    let judge = |load: &Value| {
        let facts: &dyn Scope = &Facts::now(&json!({ "cpu_load": load }));
        processor.process(facts).ok().flatten()
    };
    let judged = loads.iter().enumerate();
    judged.filter_map(|(node, load)| Some((format!("node-{node}"), judge(load)?))).collect()
}

/// The same nodes, and the same numbers but for what is lost when they are written down.
fn same(script: &str, output: &Value, expected: &Map<String, Value>) {
    let Value::Object(output) = output else { panic!("{script}: {output} is no object") };
    let names = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(output), names(expected), "{script}");
    for (node, expected) in expected {
        for part in ["value", "spread", "samples"] {
            let (a, b) = (output[node][part].as_f64().unwrap(), expected[part].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-15, "{script}: {part} of {node} is {a} and not {b}");
        }
    }
}

fn params(given: Value) -> ParamValues {
    let Value::Object(given) = given else { panic!("{given} is no object") };
    given.into_iter().collect()
}

/// Loads as a collector tells them, and as a broken one may.
fn load() -> impl Strategy<Value = Value> {
    let fraction = 0.0..=1.0_f64;
    let noise = || json!({"freeFraction": 0.5, "{": ["}", {"nodeName": "node-9", "dataValue": 1}]});
    prop_oneof![
        4 => fraction.clone().prop_map(|free| json!({"cores": {"0": {"freeFraction": 1}}, "freeFraction": free})),
        2 => fraction.clone().prop_map(move |free| json!({"freeFraction": free, "model": "a \"b\\", "x": noise()})),
        4 => fraction.prop_map(|free| json!(free)),
        1 => (0.0..=100.0_f64).prop_map(|usage| json!(usage)),
        1 => (-0.02..=1.02_f64).prop_map(|free| json!(free)),
        1 => prop_oneof![Just(json!(0)), Just(json!(1)), Just(json!(1e-300)), Just(json!(0.1 + 0.2))],
        1 => prop_oneof![
            Just(Value::Null), Just(json!({"freeFraction": null})), Just(json!({})), Just(json!("NaN")),
            Just(json!([0.5])), Just(json!(true)), Just(json!({"freeFraction": {"freeFraction": 0.5}})),
        ],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn scripts_and_the_built_in_give_the_same_numbers(
        mut loads in prop::collection::vec(load(), 0..40),
        req in prop_oneof![0.001..=1.0_f64, Just(1.0), Just(0.5)],
        percent in any::<bool>(),
    ) {
        // Always one that makes sense, or the run as a whole is to fail.
        loads.push(json!(if percent { 37.25 } else { 0.25 }));
        let reads = if percent { "usage_percent" } else { "free_fraction" };
        let params = params(json!({"cpu_req": req, "reads": reads}));
        let expected = built_in(&params, &loads);
        for script in SCRIPTS {
            let (went_well, output, complaints) = run(script, &params, &loads);
            prop_assert!(went_well, "{script}: {complaints}");
            same(script, &output, &expected);
        }
    }
}

#[test]
fn absent_parameters_are_the_same_for_scripts_and_the_built_in() {
    let loads = [json!({"freeFraction": 0.3}), json!(0.999), json!(1)];
    let expected = built_in(&BTreeMap::new(), &loads);
    assert_eq!(expected["node-0"]["value"], 0.3);
    for script in SCRIPTS {
        let (_, output, _) = run(script, &BTreeMap::new(), &loads);
        same(script, &output, &expected);
        assert_eq!(run(script, &BTreeMap::new(), &[]), (true, json!({}), String::new()), "{script}");
    }
}

#[test]
fn a_script_rejects_the_same_parameters_as_the_built_in() {
    for script in SCRIPTS {
        for wrong in [
            json!({"cpu_req": 0}),
            json!({"cpu_req": 1.5}),
            json!({"cpu_req": "much"}),
            json!({"reads": "x"}),
        ] {
            let wrong = params(wrong);
            assert!(make(find("capability_cpu").unwrap(), &wrong).is_err());
            let (went_well, output, complaint) = run(script, &wrong, &[json!(0.5)]);
            assert!(
                !went_well && output.is_null() && complaint.contains("expected"),
                "{script}: {complaint}"
            );
        }
        let (went_well, _, complaint) = run(script, &BTreeMap::new(), &[json!("busy"), json!(37.5)]);
        assert!(!went_well, "{script}");
        assert!(
            complaint.contains("node-0") && complaint.contains("37.5, which is out of range"),
            "{complaint}"
        );
        let (went_well, output, _) = run(script, &BTreeMap::new(), &[Value::Null]);
        assert!(went_well && output == json!({}), "{script}: nothing is known yet, which is no failure");
    }
}

/// An estimator that ships as an expression, with the inputs and parameters that it may name.
fn expression(name: &str, params: &ParamValues) -> Expression {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cel").join(format!("{name}.cel"));
    let expression = Expression::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let inputs = find(name).unwrap().inputs.iter().map(|role| (*role).to_owned()).collect();
    expression.check(&inputs, &params.keys().cloned().collect()).unwrap();
    expression
}

/// Checks that an expression and the built-in of its name say the same of the facts of now.
fn agree(name: &str, params: Value, facts: Value) {
    let mut scope = Facts::now(&facts);
    scope.params = self::params(params);
    let expected = make(find(name).unwrap(), &scope.params).unwrap().process(&scope).unwrap().unwrap();
    let expression = expression(name, &scope.params);
    let answer = expression.evaluate(&scope, Budget::default()).unwrap().to_json().unwrap();
    for part in ["value", "spread", "samples"] {
        let (a, b) = (answer[part].as_f64().unwrap(), expected[part].as_f64().unwrap());
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{name} of {facts}: {part} is {a} and not {b}");
    }
}

proptest! {
    #[test]
    fn expressions_and_built_ins_give_the_same_numbers(
        (free, req) in (-0.005..=1.005_f64, 0.001..=1.0_f64),
        (count, mhz, limit) in (0..256_u32, 1.0..6000.0_f64, prop::option::of(0.1..300.0_f64)),
        (gpus, weight) in (prop::option::of(0..9_usize), 0.0..2000.0_f64),
        fps in 0.0..1e6_f64,
    ) {
        agree("capability_cpu", json!({"cpu_req": req}), json!({"cpu": {"freeFraction": free}}));
        agree("capability_history", json!({}), json!({"run_log": {"count": 3, "matched": {"fps": fps}}}));
        let cpu = json!({"count": count, "frequencyMhz": mhz});
        let mut facts = json!({"cpu": cpu, "cgroup": {"cpuLimit": limit}});
        if let Some(gpus) = gpus {
            let devices: Map<String, Value> = (0..gpus).map(|n| (n.to_string(), json!({"name": "T4"}))).collect();
            facts["gpu"] = json!({"count": gpus, "devices": devices});
        }
        agree("capability_config", json!({"gpu_weight": weight}), facts);
        agree("capability_config", json!({"gpu_weight": weight}), json!({ "cpu": cpu }));
    }
}
