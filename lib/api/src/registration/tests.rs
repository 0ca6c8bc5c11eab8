use serde_json::json;

use super::*;

/// Parses a body whose valid part is the paper's three fields and whose `extra` fields replace or join them.
fn parse(extra: Value) -> Result<SubmittedRegistration, Problem> {
    let mut map = Map::new();
    map.insert("dataName".to_owned(), json!("cpu"));
    map.insert("cmd".to_owned(), json!("/bin/true"));
    map.insert("max-Time".to_owned(), json!(5));
    let Value::Object(extra) = extra else { panic!("not an object") };
    for (name, value) in extra {
        map.insert(name, value);
    }
    Registration::parse(Value::Object(map).to_string().as_bytes())
}

fn refused(extra: Value, expected: &str) {
    let shown = extra.to_string();
    let problem = parse(extra).expect_err(&shown);
    let errors: Vec<String> = problem.errors.iter().map(ToString::to_string).collect();
    assert_eq!(problem.status, 400, "{shown}");
    assert!(errors.iter().any(|error| error.contains(expected)), "{shown}: {errors:?}");
}

#[test]
fn the_papers_three_fields_are_enough() {
    let registration = parse(json!({})).unwrap().registration;
    assert_eq!(registration.kind, Kind::Collector);
    assert_eq!(registration.mode, Mode::Exec);
    assert_eq!(registration.replicas, Replicas::All);
    assert_eq!(registration.time_max(), Some(5.0));
    assert_eq!(registration.cmd.argv(), ["/bin/true"]);
}

#[test]
fn a_rendered_registration_can_be_sent_back() {
    let full = json!({
        "cmd": ["sh", "-c", "echo $X | wc"], "kind": "processor", "mode": "exec", "format": "nodes", "okExits": [64, 0],
        "max-Time": 0.25, "timeout": "1.5s", "nodes": "zone=a,gpu", "replicas": 2, "inputs": ["a", "b"],
        "params": {"x": 1, "y": "z"}, "env": {"LANG": "C", "T": "hush"}, "secrets": ["T"], "sha256": "0f".repeat(32), "history": {"keep": "1h", "max": 7},
        "limits": {"memory": "64MiB", "cpu": 0.5, "processes": 9, "openFiles": 64, "disk": "1GiB"},
    });
    let registration = parse(full).unwrap().registration;
    let registered = RegistrationRecord {
        registration: registration.clone(),
        version: 3,
        created_at: DateTime::from_timestamp_micros(1_700_000_000_000_000).unwrap(),
        updated_at: DateTime::from_timestamp_micros(1_700_000_000_000_001).unwrap(),
    };
    let shown = registered.to_map();
    assert_eq!(RegistrationRecord::from_map(shown.clone()).unwrap(), registered);
    let again = Registration::parse(Value::Object(shown).to_string().as_bytes()).unwrap();
    assert_eq!(again, SubmittedRegistration { registration, version: Some(3) });
}

#[test]
fn exit_codes_are_of_runs_whose_output_is_read() {
    let given = parse(json!({ "okExits": [4, 0] })).unwrap().registration;
    assert_eq!(given.to_map()["okExits"], json!([0, 4]));
    assert_eq!(parse(json!({})).unwrap().registration.to_map().get("okExits"), None);
    let many: Vec<u8> = (0..65).collect();
    for wrong in [
        json!([]),
        json!(4),
        json!([256]),
        json!([-1]),
        json!([1.5]),
        json!(["4"]),
        json!([4, 4]),
        json!(many),
    ] {
        refused(json!({ "okExits": wrong }), "okExits: ");
    }
    refused(json!({ "okExits": [4], "mode": "stream" }), "okExits: goes with the mode `exec` alone");
    refused(json!({ "okExits": [4], "format": "nagios" }), "okExits: does not go with the format `nagios`");
}

#[test]
fn intervals_are_numbers_of_seconds_in_reason() {
    for wrong in [json!(0), json!(-1), json!(1e300), json!(0.001), json!("5"), json!(true), json!([5])] {
        refused(json!({ "max-Time": wrong }), "max-Time: ");
    }
    assert!(Registration::parse(br#"{"dataName":"a","cmd":"x","max-Time":NaN}"#).is_err());
    refused(json!({ "max-Time": null }), "max-Time: is missing");
}

#[test]
fn a_calendar_stands_for_an_interval_and_not_beside_it() {
    let cron = json!({ "max-Time": null, "schedule": "*/5 * * * *" });
    assert!(matches!(parse(cron).unwrap().registration.timing, Timing::Cron(_)));
    refused(json!({ "schedule": "*/5 * * * *" }), "exclude each other");
    refused(json!({ "max-Time": null, "schedule": "0 0 31 2 *" }), "schedule: ");
    refused(json!({ "max-Time": null, "schedule": "* * * * *", "mode": "stream" }), "does not go with");
}

#[test]
fn only_a_calendar_is_told_to_begin_at_once() {
    let calendar = json!({ "max-Time": null, "schedule": "@daily", "atOnce": true });
    let registration = parse(calendar).unwrap().registration;
    assert_eq!((registration.at_once, &registration.to_map()["atOnce"]), (true, &json!(true)));
    assert_eq!(parse(json!({ "atOnce": false })).unwrap().registration.to_map().get("atOnce"), None);
    refused(json!({ "atOnce": true }), "atOnce: goes with `schedule` alone");
    refused(json!({ "max-Time": null, "schedule": "@daily", "atOnce": "yes" }), "atOnce: ");
}

#[test]
fn what_answers_for_all_nodes_runs_once_unless_told_otherwise() {
    let replicas = |more: Value| parse(more).unwrap().registration.replicas;
    assert_eq!(replicas(json!({ "format": "nodes" })), Replicas::Count(1));
    assert_eq!(replicas(json!({ "format": "nodes", "mode": "builtin", "cmd": "hdfs" })), Replicas::Count(1));
    assert_eq!(replicas(json!({ "format": "nodes", "replicas": "all" })), Replicas::All);
    assert_eq!(replicas(json!({ "format": "nodes", "replicas": 2 })), Replicas::Count(2));
}

#[test]
fn a_gap_counts_from_the_end_of_a_run() {
    let gap = json!({ "max-Time": null, "gap": "2s" });
    let registration = parse(gap).unwrap().registration;
    assert_eq!(registration.timing, Timing::Gap("2s".parse().unwrap()));
    assert_eq!(registration.to_map()["gap"], 2);
    refused(json!({ "gap": 1 }), "gap: and `max-Time` exclude each other");
    refused(json!({ "max-Time": null, "gap": 0 }), "gap: ");
    refused(json!({ "max-Time": null, "gap": 1, "mode": "stream" }), "gap: does not go with");
}

#[test]
fn instances_run_at_the_same_moments_if_that_is_asked_for() {
    assert_eq!(parse(json!({})).unwrap().registration.phase, Phase::Staggered);
    let aligned = parse(json!({ "phase": "aligned" })).unwrap().registration;
    assert_eq!((aligned.phase, aligned.to_map()["phase"].clone()), (Phase::Aligned, json!("aligned")));
    refused(json!({ "phase": "random" }), "phase: is not known");
    refused(
        json!({ "max-Time": null, "gap": 1, "phase": "aligned" }),
        "phase: `aligned` goes with `max-Time`",
    );
}

#[test]
fn every_wrong_part_is_named_where_it_stands() {
    refused(json!({ "datanode": 1 }), "datanode: is not a known field");
    refused(json!({ "maxTime": 1 }), "expected `max-Time`?");
    refused(json!({ "dataName": "ü" }), "dataName: ");
    refused(json!({ "cmd": "" }), "cmd: ");
    refused(json!({ "cmd": "a 'b" }), "cmd: ");
    refused(json!({ "cmd": [] }), "cmd: ");
    refused(json!({ "cmd": ["a", 1] }), "cmd: ");
    refused(json!({ "cmd": "x".repeat(5000) }), "cmd: ");
    refused(json!({ "kind": "robot" }), "kind: is not known, given robot; expected collector or processor");
    refused(json!({ "format": "xml" }), "format: ");
    refused(json!({ "timeout": 0 }), "timeout: ");
    refused(json!({ "nodes": "a in (" }), "nodes: ");
    refused(json!({ "replicas": 0 }), "replicas: ");
    refused(json!({ "replicas": "some" }), "replicas: ");
    refused(json!({ "inputs": ["a"] }), "inputs: belong to a processor");
    refused(json!({ "kind": "processor", "inputs": ["a", "a"] }), "inputs: names one twice");
    refused(json!({ "kind": "processor", "inputs": ["cpu"] }), "own data name");
    refused(json!({ "params": { "a": 1, "A": 2 } }), "ignores case");
    refused(json!({ "params": { "a": [] } }), "params: ");
    refused(json!({ "env": { "ESTIMAND_NODE": "x" } }), "set by the agent");
    refused(json!({ "env": { "A=B": "x" } }), "env: ");
    for history in [json!({}), json!({ "keep": null }), json!({ "max": null, "keep": null })] {
        refused(json!({ "history": history }), "a history needs a bound");
    }
    refused(json!({ "history": { "keep": "0s" } }), "history.keep: ");
    refused(json!({ "history": { "kept": "1h" } }), "history.kept: is not a known field");
    refused(json!({ "limits": { "memory": "64 lumps" } }), "limits.memory: ");
    refused(json!({ "limits": { "cpu": 0 } }), "limits.cpu: ");
    refused(json!({ "version": 0 }), "version: ");
}

#[test]
fn all_errors_come_at_once() {
    let problem = parse(json!({ "dataName": 1, "cmd": 2, "max-Time": "x", "kind": 3 })).unwrap_err();
    let fields: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["dataName", "cmd", "max-Time", "kind"]);
}

#[test]
fn only_what_runs_a_file_has_a_digest() {
    refused(json!({ "sha256": "ab" }), "64 hexadecimal digits");
    refused(json!({ "sha256": "0f".repeat(32), "mode": "builtin", "cmd": "load" }), "runs an executable");
    let registration = parse(json!({ "sha256": "0F".repeat(32), "mode": "stream" })).unwrap().registration;
    assert_eq!(registration.to_map()["sha256"], "0f".repeat(32));
}

#[test]
fn a_file_that_goes_along_is_named_by_its_digest_and_maybe_signed() {
    let (sha256, signature) = ("0F".repeat(32), "ab".repeat(64));
    let registration =
        parse(json!({ "upload": { "sha256": sha256, "signature": signature } })).unwrap().registration;
    let shown = json!({ "sha256": "0f".repeat(32), "signature": signature });
    assert_eq!(registration.to_map()["upload"], shown);
    assert_eq!(parse(json!({ "upload": shown })).unwrap().registration, registration);
    refused(json!({ "upload": {} }), "upload.sha256: is missing");
    refused(json!({ "upload": sha256 }), "upload: is a string, not an object");
    refused(json!({ "upload": { "sha256": sha256, "signature": "ab" } }), "upload.signature: is not 128");
    refused(json!({ "upload": { "sha256": sha256, "key": 1 } }), "upload.key: is not a known field");
    refused(json!({ "upload": { "sha256": sha256 }, "sha256": sha256 }), "sha256: does not go with `upload`");
    refused(
        json!({ "upload": { "sha256": sha256 }, "mode": "builtin", "cmd": "load" }),
        "upload: is for what runs",
    );
}

#[test]
fn limits_and_histories_are_shown_as_they_may_be_given() {
    let registration = parse(json!({
        "limits": {"memory": 1_073_741_824, "cpu": 0.5, "openFiles": 64, "disk": 100_000_000},
        "history": {"keep": "1h", "max": 5},
    }));
    let registration = registration.unwrap().registration;
    assert_eq!(registration.limits.to_string(), "memory=1GiB, cpu=0.5, openFiles=64, disk=100000000");
    assert_eq!(registration.history.unwrap().to_string(), "keep=1h, max=5");
}
