//! Figures and values as a real Prometheus takes them, and the files in `docs/prometheus` that go with them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use estimand_testkit::http::Http;
use estimand_testkit::plane::Plane;
use estimand_testkit::process::{Estimand, estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/prometheus");

/// An instance that has values of the default collectors.
fn up() -> Estimand {
    let up = estimand()
        .args(["up", "--defaults", "standard", "--node", "n1", "--label", "zone=a"])
        .port(free_port())
        .start();
    Plane::of(&up).until_value("load", "n1", "a load", |value| value["state"] == "fresh");
    up
}

#[track_caller]
fn promtool(args: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(args).current_dir(FILES);
    let mut tool =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let said = tool.wait_with_output().unwrap();
    let text = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(said.status.success(), "promtool {args:?}: {text}");
}

#[test]
fn the_exposition_is_as_promtool_expects() {
    let up = up();
    let plane = Plane::of(&up);
    plane.register(&json!({"dataName": "heat", "cmd": "true", "max-Time": 3600, "unit": {"/cpu": "Cel"}}));
    let odd =
        json!({"dataName": "odd", "nodeName": "n1", "dataValue": {"a \"b\"\n\\": -0.0, "é": 1e-7, "": true}});
    up.http().send_json("POST", "/api/data", &odd).expect_status(201);
    let metrics = up.http().get("/metrics").expect_status(200).text().to_owned();
    promtool(&["check", "metrics"], &metrics);
    for line in [
        "estimand_registration_unit{data_name=\"heat\",unit=\"Cel\",path=\"/cpu\"} 1",
        "estimand_registration_failures_total{data_name=\"load\"} 0",
        "estimand_value{data_name=\"odd\",node=\"n1\",path=\"/a \\\"b\\\"\\n\\\\\"} -0.0",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
    for place in ["/one", "/threads"] {
        let start = format!("estimand_value{{data_name=\"load\",node=\"n1\",path=\"{place}\"}} ");
        assert!(metrics.lines().any(|line| line.starts_with(&start)), "{start}");
    }
}

#[test]
fn the_rules_are_good_and_fire() {
    promtool(&["check", "rules", "rules.yml"], "");
    promtool(&["check", "config", "prometheus.yml"], "");
    promtool(&["test", "rules", "rules-test.yml"], "");
}

/// A figure that was renamed would leave a panel empty and an alert silent for ever.
#[test]
fn rules_and_dashboard_use_figures_that_there_are() {
    let up = up();
    let metrics = up.http().get("/metrics").expect_status(200).text().to_owned();
    let there: BTreeSet<&str> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let dashboard = fs::read_to_string(Path::new(FILES).join("dashboard.json")).unwrap();
    let parsed: Value = serde_json::from_str(&dashboard).unwrap();
    assert!(parsed["panels"].as_array().is_some_and(|panels| panels.len() > 5));
    for text in [dashboard, fs::read_to_string(Path::new(FILES).join("rules.yml")).unwrap()] {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let used: BTreeSet<&str> = words.filter(|word| word.starts_with("estimand_")).collect();
        assert!(used.len() > 4, "{used:?}");
        let unknown: Vec<_> = used.difference(&there).collect();
        assert!(unknown.is_empty(), "{unknown:?} are no figures of ours");
    }
}

/// Ends with the test.
struct Prometheus {
    process: Child,
    http: Http,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    /// With the configuration of the docs, but of this instance, and in less of a hurry to wait.
    fn start(folder: &Path, of: &Estimand) -> Self {
        let address = of.base_url().trim_start_matches("http://");
        let config = fs::read_to_string(Path::new(FILES).join("prometheus.yml")).unwrap();
        let config =
            config.replace("127.0.0.1:7070", address).replace("scrape_interval: 15s", "scrape_interval: 1s");
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        fs::copy(Path::new(FILES).join("rules.yml"), folder.join("rules.yml")).unwrap();
        let port = free_port();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let http = Http::new(&format!("http://127.0.0.1:{port}"));
        Prometheus { process, http }
    }

    /// The data of an answer, once it has some.
    #[track_caller]
    fn until(&self, path: &str, what: &str, of: impl Fn(&Value) -> Option<Value>) -> Value {
        wait::until_ok(PATIENCE, what, || {
            let answer = self.http.try_request("GET", path, &[], b"").map_err(|error| error.to_string())?;
            let said: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
            of(&said["data"]).ok_or_else(|| said.to_string())
        })
    }
}

#[test]
fn a_real_prometheus_scrapes_values_and_finds_nodes() {
    let (up, folder) = (up(), tempfile::tempdir().unwrap());
    let prometheus = Prometheus::start(folder.path(), &up);
    let query = "/api/v1/query?query=estimand_value%7Bdata_name%3D%22load%22%2Cpath%3D%22%2Fone%22%7D";
    let series = prometheus.until(query, "the load", |data| data["result"].get(0).cloned());
    assert_eq!((&series["metric"]["node"], &series["metric"]["state"]), (&json!("n1"), &Value::Null));
    let query = "/api/v1/query?query=estimand_value_state%7Bdata_name%3D%22load%22%7D";
    let state = prometheus.until(query, "its state", |data| data["result"].get(0).cloned());
    assert_eq!(state["value"][1], "0");
    let found = prometheus.until("/api/v1/targets", "the node as a target", |data| {
        let all = data["activeTargets"].as_array()?;
        all.iter().find(|target| target["labels"]["job"] == "exporters").cloned()
    });
    let labels = &found["labels"];
    assert_eq!(
        (&labels["instance"], &labels["node"], &labels["zone"]),
        (&json!("n1:9100"), &json!("n1"), &json!("a"))
    );
}
