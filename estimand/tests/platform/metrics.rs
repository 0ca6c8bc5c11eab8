//! Values of one plane become metrics, and values of another one.

use std::process::{Child, Stdio};

use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

/// Ends at the end of the test, also if that fails.
struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn services() -> Estimand {
    process::estimand().args(["up", "--no-agent", "--defaults", "none"]).start()
}

fn put(services: &Estimand, write: &Value) {
    let answer = services.http().send_json("PUT", "/api/data", write);
    assert!(matches!(answer.status, 200 | 201), "{answer}");
}

#[test]
fn what_one_plane_exports_another_one_has_also_after_it_was_killed() {
    let (from, mut to) = (services(), services());
    put(&from, &json!({"dataName": "cpu", "nodeName": "n1", "dataValue": {"idle": 0.25, "busy": true}}));
    put(&from, &json!({"dataName": "cpu", "nodeName": "n2", "dataValue": {"idle": 1}}));
    put(&from, &json!({"dataName": "left_out", "nodeName": "n1", "dataValue": 7}));
    let mut command = process::command(process::binary());
    command.args(["export-metrics", "--server", from.base_url(), "--to", to.base_url()]);
    command.args(["--every", "1s", "--names", "c*"]);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization=Bearer%20{}", estimand_testkit::TOKEN));
    let mut exporter = Exporter(command.stderr(Stdio::null()).spawn().unwrap());
    let series = |to: &Estimand, node: &str, expected: Value| {
        let path = format!("/api/data/estimand_estimand_value/{node}");
        wait::until_ok(PATIENCE, "the metrics to be values", || {
            let answer = to.http().get(&path);
            match answer.status == 200 && answer.json()["dataValue"]["series"] == expected {
                true => Ok(()),
                false => Err(answer.to_string()),
            }
        });
    };
    let idle = |node: &str| format!("data_name=\"cpu\",node=\"{node}\",path=\"/idle\"");
    series(&to, "n1", json!({idle("n1"): 0.25, "data_name=\"cpu\",node=\"n1\",path=\"/busy\"": 1}));
    series(&to, "n2", json!({idle("n2"): 1}));
    let states = to.http().get("/api/data/estimand_estimand_value_state/n1").expect_status(200).json();
    assert_eq!(states["dataValue"]["series"], json!({"data_name=\"cpu\",node=\"n1\"": 0}));

    to.kill9();
    put(&from, &json!({"dataName": "cpu", "nodeName": "n2", "dataValue": {"idle": 2}}));
    to.restart_on_same_port();
    series(&to, "n2", json!({idle("n2"): 2}));
    estimand_testkit::processes::terminate(exporter.0.id());
    let ended = wait::until(PATIENCE, "the exporter to end", || exporter.0.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
}
