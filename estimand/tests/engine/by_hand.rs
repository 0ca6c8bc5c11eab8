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
