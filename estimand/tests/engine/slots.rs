//! The surroundings of a run, and runs that give no value.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{Agent, NODE, Plane};

/// An executable gets a documented environment, a folder of its own and nothing to read; nothing of the agent's own.
#[test]
fn surroundings_are_as_documented() {
    let plane = Plane::with_agent("surroundings", Agent::Within, &["--allow-env", "EXTRA"]);
    let more = json!({
        "max-Time": 0.5, "timeout": null, "kind": "processor", "replicas": "all", "inputs": ["a", "b"],
        "params": {"window": 7, "Mode": "x y", "on": true}, "env": {"EXTRA": "1", "LANG": "de"},
    });
    plane.register("env", &["env"], more);
    plane.register("cwd", &["cwd"], json!({}));
    plane.register("stdin", &["stdin", "print:end"], json!({}));
    plane.register("args", &["args", "--", "two words", "$HOME", "*"], json!({}));
    plane.register("found", &["print:1"], json!({}));
    plane.register_cmd("by_name", json!("estimand-mock print:by-name"), json!({}));

    let value = plane.until_value("env", "there", |_| true);
    let mut found = value["dataValue"].clone();
    let map = found.as_object_mut().unwrap();
    let deadline: f64 = map.remove("ESTIMAND_DEADLINE").unwrap().as_str().unwrap().parse().unwrap();
    let started = value["provenance"]["startedAt"].as_str().unwrap();
    let started = started.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros() as f64 / 1e6;
    assert!((deadline - started - 0.5).abs() < 0.001, "{deadline} is not half a second after {started}");
    assert!(map.remove("ESTIMAND_RUN").is_some(), "its processes are found by it");
    let folder =
        plane.services.data_dir().canonicalize().unwrap().join("agent/slots/env").display().to_string();
    let version = plane.instance("env").unwrap()["version"].to_string();
    let expected = json!({
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "de", "HOME": folder, "TMPDIR": folder, "EXTRA": "1",
        "ESTIMAND_SERVER": plane.services.base_url(), "ESTIMAND_NODE": NODE, "ESTIMAND_DATA_NAME": "env",
        "ESTIMAND_VERSION": version, "ESTIMAND_INTERVAL": "0.5", "ESTIMAND_INPUTS": "a,b",
        "ESTIMAND_PARAM_WINDOW": "7", "ESTIMAND_PARAM_MODE": "x y", "ESTIMAND_PARAM_ON": "true",
    });
    assert_eq!(found, expected);
    let cwd = plane.until_value("cwd", "there", |_| true);
    assert_eq!(cwd["dataValue"].as_str().unwrap(), folder.replace("/env", "/cwd"));
    plane.until_is("stdin", "end");
    let args = plane.until_value("args", "there", |_| true);
    assert_eq!(
        args["dataValue"].as_array().unwrap()[2..],
        ["--", "two words", "$HOME", "*"],
        "no shell is there"
    );
    plane.until_is("by_name", "by-name");
    plane.end();
}

/// An executable outside the allowed folders is never run, and the slot says so.
#[test]
fn only_what_is_allowed_runs() {
    let plane = Plane::up("allowed");
    let (witness, link) = (plane.file("witness"), plane.file("link"));
    std::os::unix::fs::symlink("/bin/touch", &link).unwrap();
    plane.register_cmd("absolute", json!(["/bin/touch", witness]), json!({}));
    plane.register_cmd("searched", json!(["touch", witness]), json!({}));
    plane.register_cmd("linked", json!([link, witness]), json!({}));
    plane.register_cmd("missing", json!(["/no/such/program"]), json!({}));
    for name in ["absolute", "searched", "linked"] {
        let slot = plane
            .until_error(name, "is not run: it is /usr/bin/touch, and the agent on this node allows only");
        assert_eq!(slot["doing"], "refused", "{slot}");
    }
    plane.until_error("missing", "there is no `/no/such/program` on this node");
    assert!(!std::fs::exists(&witness).unwrap());
    plane.end();
}

/// A run that fails leaves the last good value as it is, marked; the next good one ends that.
#[test]
fn a_failure_keeps_the_last_good_value() {
    let plane = Plane::up("failure");
    let flag = plane.file("broken");
    let program = plane.script("sensor", &format!("[ -e '{flag}' ] && {{ echo no >&2; exit 4; }}\necho 42"));
    plane.register_cmd("sensor", json!([program]), json!({"max-Time": 0.2}));
    plane.until_value("sensor", "fresh", |value| value["dataValue"] == 42 && value["state"] == "fresh");
    std::fs::write(&flag, "").unwrap();
    let failed = plane.until_value("sensor", "failed", |value| value["state"] == "failed");
    assert_eq!(failed["dataValue"], 42, "{failed}");
    let slot = plane
        .until_instance("sensor", "to have failed three times", |slot| slot["failing"].as_u64() >= Some(3));
    assert_eq!(
        (&slot["lastExit"], &slot["lastError"]),
        (&json!("exit 4"), &json!("it ended with exit 4: no")),
        "{slot}"
    );
    assert_eq!(slot["stderrTail"], "no\n", "{slot}");
    assert!(slot["failures"].as_u64() < slot["runs"].as_u64() && slot["lastGood"].is_string(), "{slot}");
    std::fs::remove_file(&flag).unwrap();
    plane.until_value("sensor", "fresh again", |value| value["state"] == "fresh");
    let slot = plane.until_instance("sensor", "to work again", |slot| slot["failing"] == 0);
    assert_eq!(slot.get("lastError"), None, "{slot}");
    plane.end();
}

/// A stream that ends says why each time, and is started again.
#[test]
fn a_stream_that_ends_says_why() {
    let plane = Plane::up("stream-ends");
    plane.register("stream", &["print:1", "stderr:no such device", "exit:3"], json!({"mode": "stream"}));
    for restarts in 1..=3 {
        let slot = plane.until_instance("stream", "to have been started again", |slot| {
            slot["restarts"].as_u64() >= Some(restarts)
        });
        assert_eq!(slot["lastError"], "it ended with exit 3: no such device", "{slot}");
    }
    plane.until_value("stream", "failed", |value| value["dataValue"] == 1 && value["state"] == "failed");
    plane.end();
}

/// A run is ended at its timeout: its own, else the interval.
#[test]
fn a_run_has_its_time_and_no_more() {
    let plane = Plane::up("timeouts");
    plane.register("by_interval", &["late:30s:never"], json!({"max-Time": 0.3, "timeout": null}));
    plane.register("by_itself", &["late:30s:never"], json!({"max-Time": 60, "timeout": 0.2}));
    plane.register("longer", &["late:700ms:in-time"], json!({"max-Time": 0.3, "timeout": 20}));
    let slot = plane.until_error("by_interval", "it did not end within 300ms and was ended");
    assert!(slot["timeouts"].as_u64() >= Some(1), "{slot}");
    let slot = plane.until_error("by_itself", "it did not end within 200ms and was ended");
    let took = slot["lastDurationMs"].as_f64().unwrap();
    assert!((200.0..1_200.0).contains(&took), "{took} ms for one that SIGTERM ends: {slot}");
    // Its own timeout lets it overrun, and what it skips is counted.
    plane.until_is("longer", "in-time");
    let slot = plane
        .until_instance("longer", "to have skipped due times", |slot| slot["overruns"].as_u64() >= Some(4));
    assert_eq!((&slot["failures"], &slot["timeouts"]), (&json!(0), &json!(0)), "{slot}");
    plane.end();
}

/// A value that is no longer renewed turns stale, after three intervals.
#[test]
fn a_value_holds_for_three_intervals() {
    let plane = Plane::up("stale");
    let flag = plane.file("silent");
    let program = plane.script("sensor", &format!("[ -e '{flag}' ] || echo 1"));
    plane.register_cmd("quick", json!([program]), json!({"max-Time": 0.2}));
    plane.register_cmd("slow", json!([program]), json!({"max-Time": 100}));
    plane.register_cmd("pausing", json!([program]), json!({"gap": 2, "timeout": 3}));
    let valid = |name: &str| plane.until_is(name, 1)["validFor"].as_f64().unwrap();
    assert_eq!((valid("quick"), valid("slow"), valid("pausing")), (1.0, 300.0, 15.0));
    // It goes on to run, and has nothing to say.
    std::fs::write(&flag, "").unwrap();
    let stale = plane.until_value("quick", "stale", |value| value["state"] == "stale");
    assert_eq!(stale["dataValue"], 1, "{stale}");
    let slot = plane.instance("quick").unwrap();
    assert_eq!((&slot["failures"], slot.get("lastError")), (&json!(0), None::<&Value>), "{slot}");
    assert_eq!(plane.read("slow").unwrap()["state"], "fresh");
    let runs = slot["runs"].as_u64();
    wait::until(PATIENCE, "more runs", || (plane.instance("quick")?["runs"].as_u64() > runs).then_some(()));
    plane.end();
}
