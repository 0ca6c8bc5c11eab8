//! A run that somebody asks for: shows everything, stores nothing, and is never beside a scheduled one.

use std::thread;

use estimand_testkit::processes;
use serde_json::{Value, json};

use crate::plane::{NODE, Plane};

#[test]
fn a_run_by_hand_shows_everything_and_stores_nothing() {
    let plane = Plane::up("by-hand");
    let count = format!("count:{}", plane.file("count"));
    plane.register("yearly", &["stderr:looking", &count], json!({"max-Time": 31_000_000}));
    plane.until_is("yearly", 1);
    let before = plane.read("yearly").unwrap();
    let report = plane.run_by_hand("yearly").expect_status(200).json();
    assert_eq!(report["stdout"], "2\n", "{report}");
    assert_eq!(report["stderr"], "looking\n", "{report}");
    assert_eq!(report["exit"], "exit 0", "{report}");
    assert_eq!(report["values"], json!([{"nodeName": NODE, "dataValue": 2}]), "{report}");
    assert_eq!(report["argv"], plane.mock("yearly", &["stderr:looking", &count]), "{report}");
    assert_eq!((report.get("error"), &report["stdoutBytes"]), (None, &json!(2)), "{report}");
    assert!(report["durationMs"].as_f64() > Some(0.0) && report["maxMemory"].is_u64(), "{report}");
    assert_eq!(plane.read("yearly").unwrap(), before, "nothing is stored");
    let slot = plane.instance("yearly").unwrap();
    assert_eq!(slot["runs"], 1, "{slot}");

    plane.register("broken", &["print:{", "stderr:why", "exit:5"], json!({"max-Time": 31_000_000}));
    let report = plane.run_by_hand("broken").expect_status(200).json();
    assert_eq!(
        (&report["exit"], &report["error"]),
        (&json!("exit 5"), &json!("it ended with exit 5: why")),
        "{report}"
    );
    assert_eq!((&report["stdout"], &report["values"]), (&json!("{\n"), &json!([])), "{report}");

    plane.register_cmd("refused", json!(["/bin/true"]), json!({}));
    let report = plane.run_by_hand("refused").expect_status(200).json();
    assert!(report["error"].as_str().unwrap().contains("allows only"), "{report}");

    assert_eq!(plane.run_by_hand("unknown").status, 404);
    let elsewhere = "/api/mng/instances/yearly/elsewhere/run";
    assert_eq!(plane.http.request("POST", elsewhere, &[], b"").status, 404);
    plane.register("stream", &["stream:100ms"], json!({"mode": "stream"}));
    let refused = plane.run_by_hand("stream").expect_status(409);
    assert!(refused.json()["detail"].as_str().unwrap().contains("stream"), "{refused}");
    plane.end();
}

#[test]
fn a_run_by_hand_is_never_beside_a_scheduled_one() {
    let plane = Plane::up("in-turn");
    let alone = plane.file("alone");
    let words = [format!("alone:{alone}"), format!("count:{}", plane.file("count")), "sleep:60ms".to_owned()];
    plane.register("busy", &words.each_ref().map(String::as_str), json!({"max-Time": 0.1, "timeout": 5}));
    plane.until_value("busy", "there", |_| true);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let report = plane.run_by_hand("busy").expect_status(200).json();
                    assert_eq!((&report["exit"], report.get("error")), (&json!("exit 0"), None), "{report}");
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(format!("{alone}.twice")).unwrap_or_default(), "");
    // It goes on as before.
    let last = plane.read("busy").unwrap()["dataValue"].as_u64();
    plane.until_value("busy", "renewed", |value| value["dataValue"].as_u64() > last);
    plane.end();
}

/// Nothing of a trial is left but its line in the audit trail.
#[test]
fn a_registration_is_tried_before_it_is_registered() {
    let plane = Plane::up("tried");
    plane.until_known();
    let body = |name: &str, cmd: Value, more: Value| {
        let mut body = json!({ "dataName": name, "cmd": cmd, "max-Time": 31_000_000 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let draft = body("draft", plane.mock("draft", &["print:{\"free\": 3}"]), json!({}));
    let report = plane.try_out(&draft).expect_status(200).json();
    assert_eq!(report["values"], json!([{ "nodeName": NODE, "dataValue": { "free": 3 } }]), "{report}");
    assert_eq!((&report["exit"], report.get("error")), (&json!("exit 0"), None), "{report}");
    let expecting = body("draft", draft["cmd"].clone(), json!({ "schema": { "type": "string" } }));
    let report = plane.try_out(&expecting).expect_status(200).json();
    assert!(report["error"].as_str().unwrap().contains("not what is declared"), "{report}");

    // Its values, as far as they are there, and the rules of the registry are those that it would have.
    plane.http.send_json(
        "POST",
        "/api/data",
        &json!({ "dataName": "raw", "nodeName": NODE, "dataValue": 8 }),
    );
    let formula =
        |text: &str| body("half", json!(text), json!({ "mode": "expr", "inputs": ["raw", "more"] }));
    let report = plane.try_out(&formula("raw / 2")).expect_status(200).json();
    assert_eq!(report["values"], json!([{ "nodeName": NODE, "dataValue": 4 }]), "{report}");
    let report = plane.try_out(&formula("raw / more")).expect_status(200).json();
    assert!(report["note"].as_str().unwrap().starts_with("waits: "), "{report}");
    let report = plane.try_out(&formula("raw / 0")).expect_status(200).json();
    assert!(report["error"].as_str().is_some(), "{report}");
    let wrong = plane.try_out(&body("draft", json!("x"), json!({ "format": "jsn" }))).expect_status(400);
    assert!(wrong.text().contains("format"), "{wrong}");

    for name in ["draft", "half"] {
        assert_eq!(plane.http.get(&format!("/api/registry/{name}")).status, 404);
        assert_eq!((plane.read(name), plane.instance(name)), (None, None));
    }
    let audit: Vec<Value> =
        serde_json::from_slice(&plane.http.get("/api/audit").expect_status(200).body).unwrap();
    let tried = audit.iter().filter(|line| line["action"] == "tried" && line["subject"] == NODE).count();
    assert_eq!(tried, 5, "{audit:?}");
    plane.end();
}

/// A trial goes on while what belongs on the node changes, and is not told as an instance.
#[test]
fn a_trial_outlasts_changes_of_what_is_registered() {
    let plane = Plane::up("outlasting");
    plane.until_known();
    let go = plane.file("go");
    let program = plane.script("waits", &format!("while ! [ -e '{go}' ]; do sleep 0.05; done\necho 7"));
    let body = json!({ "dataName": "draft", "cmd": [program], "max-Time": 3600, "timeout": 100 });
    thread::scope(|scope| {
        let asked = scope.spawn(|| plane.try_out(&body));
        plane.register("other", &["print:1"], json!({}));
        plane.until_is("other", 1);
        plane.unregister("other");
        assert_eq!(plane.instance("draft"), None);
        std::fs::write(&go, "").unwrap();
        let report = asked.join().unwrap().expect_status(200).json();
        assert_eq!(report["values"], json!([{ "nodeName": NODE, "dataValue": 7 }]), "{report}");
    });
    plane.end();
}

/// A trial under a name that is registered takes that slot's turn, and has its secrets.
#[test]
fn a_change_is_tried_with_the_secrets_that_are_kept() {
    let plane = Plane::up("tried-secrets");
    let program = plane.script("says-key", r#"echo "\"$SLOT_KEY\"""#);
    plane.register_cmd(
        "keyed",
        json!([program]),
        json!({ "max-Time": 31_000_000, "env": { "SLOT_KEY": "abc" }, "secrets": ["SLOT_KEY"] }),
    );
    plane.until_is("keyed", "abc");
    let mut shown = plane.http.get("/api/registry/keyed").expect_status(200).json();
    assert_eq!(shown["env"]["SLOT_KEY"], Value::Null);
    shown["timeout"] = json!(7);
    let report = plane.try_out(&shown).expect_status(200).json();
    assert_eq!(report["values"][0]["dataValue"], "abc", "{report}");
    shown["dataName"] = json!("other");
    let refused = plane.try_out(&shown).expect_status(400);
    assert!(refused.text().contains("env.SLOT_KEY"), "{refused}");
    let audit = plane.http.get("/api/audit").expect_status(200);
    assert!(!audit.text().contains("abc"), "{audit}");
    plane.end();
}

/// A formula is evaluated once, and nobody who reads it sees the result.
#[test]
fn a_formula_runs_by_hand() {
    let plane = Plane::up("formula-by-hand");
    let put = |value: Value| {
        let body = json!({ "dataName": "raw", "nodeName": NODE, "dataValue": value });
        assert!(matches!(plane.http.send_json("POST", "/api/data", &body).status, 200 | 201));
    };
    put(json!(1));
    let more = json!({ "mode": "expr", "inputs": ["raw"], "max-Time": 31_000_000 });
    plane.register_cmd("twice", json!("raw * 2"), more);
    plane.until_is("twice", 2);
    let before = plane.read("twice").unwrap();
    let report = plane.run_by_hand("twice").expect_status(200).json();
    assert_eq!(report["argv"], json!(["expr", "raw * 2"]), "{report}");
    assert_eq!(report["values"], json!([{ "nodeName": NODE, "dataValue": 2 }]), "{report}");
    assert_eq!(plane.read("twice").unwrap(), before);
    put(json!(3));
    plane.until_is("twice", 6);
    plane.end();
}

/// A deleted registration does not run by hand either.
#[test]
fn a_deletion_ends_a_run_by_hand() {
    let plane = Plane::up("deleted-by-hand");
    let flag = plane.file("hang");
    let mock = crate::plane::mock().display().to_string();
    let program = plane.script("sometimes", &format!("[ -e '{flag}' ] && exec '{mock}' \"$@\"\necho 1"));
    let mut cmd: Value = plane.mock("sometimes", &["ignore-term", "hang"]);
    cmd[0] = json!(program);
    plane.register_cmd("sometimes", cmd, json!({"max-Time": 31_000_000}));
    plane.until_is("sometimes", 1);
    std::fs::write(&flag, "").unwrap();
    thread::scope(|scope| {
        let asked = scope.spawn(|| plane.run_by_hand("sometimes"));
        plane.until_runs("sometimes", "hang");
        plane.unregister("sometimes");
        processes::none_with(&plane.mark, std::time::Duration::ZERO);
        let answer = asked.join().unwrap();
        assert!(matches!(answer.status, 200 | 409), "{answer}");
    });
    plane.end();
}
